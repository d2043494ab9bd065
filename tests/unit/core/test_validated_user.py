"""The name of the authenticated user on each message (artemis-model §6.3: `populate-validated-user`)."""

import pytest
from attrs import evolve

from artemis_py.core.messages.message import VALIDATED_USER, Message, validated_user
from artemis_py.core.messages.record import decode_message, encode_message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.events import Denied, Event
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import NotAuthorized, TransactionRolledBack
from tests.core_harness import PropertiesFormat, attach, make_domain, make_message, settle_down

NAMED = BrokerSettings(populate_validated_user=True)
REQUIRED = BrokerSettings(reject_empty_validated_user=True)


class ClaimingFormat(PropertiesFormat):
    """A format in which a client may have named a user."""

    def __init__(self, claim: str | None = None) -> None:
        super().__init__({})
        self.claim = claim

    def set_user(self, message: Message, user: str | None) -> None:
        if self.claim is not None and self.claim != user:
            raise NotAuthorized("another user")


def session_of(domain: Domain, user: str | None = "ann") -> Session:
    """A client."""
    return Session(domain, Subject(user), "client", "test")


def sent(session: Session, message: Message) -> Message:
    """What a consumer gets of it."""
    recorder, consumer = attach(session.domain, session.queue_to_consume("q"))
    session.producer("q", RoutingType.ANYCAST).send(message)
    settle_down(session.domain)
    (reference,) = recorder.take()
    consumer.settle(reference, ACCEPTED)
    consumer.close()
    return reference.message


def test_a_message_names_its_user() -> None:
    domain = make_domain(options=NAMED)
    found = sent(session_of(domain), make_message())

    assert validated_user(found) == "ann"
    assert found.lookup(VALIDATED_USER) == found.lookup("JMSXUserID") == "ann"


def test_without_the_option_it_does_not() -> None:
    """And a client without a user leaves none."""
    for options, user in ((BrokerSettings(), "ann"), (NAMED, None), (NAMED, "")):
        found = sent(session_of(make_domain(options=options), user), make_message())

        assert (found.extra, found.lookup("JMSXUserID")) == (None, None)


def test_the_name_is_with_what_the_message_has_already() -> None:
    domain = make_domain(options=NAMED)
    message = make_message()
    message.set_extra("_AMQ_OTHER", 1)

    assert sent(session_of(domain), message).extra == {"_AMQ_OTHER": 1, VALIDATED_USER: "ann"}


def test_the_name_is_stored_with_the_message() -> None:
    message = sent(session_of(make_domain(options=NAMED)), make_message(durable=True))
    again = decode_message(encode_message(message), {"test": message.format}, None)

    assert validated_user(again) == "ann"
    assert validated_user(message.copy("elsewhere")) == "ann"


def test_a_client_without_a_user_is_refused() -> None:
    """It is counted and logged as a permission that it lacks, and its transaction can only be rolled back."""
    domain = make_domain(options=REQUIRED)
    events: list[Event] = []
    domain.events.subscribe(events.append, Denied)
    session = session_of(domain, None)
    producer = session.producer("q", RoutingType.ANYCAST)
    transaction = session.begin()

    with pytest.raises(NotAuthorized, match="reject-empty-validated-user"):
        producer.send(make_message(), transaction)
    with pytest.raises(TransactionRolledBack):
        session.commit(transaction)
    assert events == [Denied(session.subject, Permission.SEND, "q", None, "test")]
    assert domain.queues["q"].message_count == 0
    assert sent(session_of(domain), make_message()).extra is None


def test_a_name_that_must_not_be_changed_has_to_be_the_users() -> None:
    domain = make_domain(options=NAMED)
    session = session_of(domain)
    session.domain.access = _Nothing()

    with pytest.raises(NotAuthorized):
        session.validated.put_on(_claiming("bob"), session)  # type: ignore[union-attr]
    for claim in (None, "ann"):
        message = _claiming(claim)
        session.validated.put_on(message, session)  # type: ignore[union-attr]
        assert validated_user(message) == "ann"


def test_who_may_manage_sends_on_what_others_have_sent() -> None:
    """The name is still that of the one who sends it now."""
    found = sent(session_of(make_domain(options=NAMED), "ops"), _claiming("bob"))

    assert validated_user(found) == "ops"


def test_a_change_applies_to_open_sessions() -> None:
    domain = make_domain()
    sessions = Sessions(domain)
    session = sessions.open(Subject("ann"))
    assert validated_user(sent(session, make_message())) is None

    domain.set_options(evolve(domain.options, populate_validated_user=True))
    sessions.options_changed()
    assert validated_user(sent(session, make_message())) == "ann"

    domain.set_options(BrokerSettings())
    sessions.options_changed()
    assert validated_user(sent(session, make_message())) is None


def test_requests_to_the_broker_are_not_messages_of_a_user() -> None:
    """Their permissions decide; a client without a user may administer a broker that lets it."""
    domain = make_domain(options=evolve(REQUIRED, populate_validated_user=True))
    taken: list[Message] = []

    class Endpoint:
        def receive(self, message: Message, session: Session) -> None:
            taken.append(message)

    sessions = Sessions(domain)
    sessions.register_endpoint("manage", Endpoint())
    sessions.open(Subject(None)).producer("manage").send(make_message())

    assert [each.extra for each in taken] == [None]


class _Nothing:
    """Access control that allows nothing."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return False


def _claiming(claim: str | None) -> Message:
    return Message(ClaimingFormat(claim), "", b"m")
