"""Inlets, as a part outside of this repository adds one."""

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.inlet import Inlet
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.errors import InvalidRequest, TransactionRolledBack
from tests.core_harness import make_domain, make_message, make_queue, make_session


class Audited(Inlet):
    """Notes what is sent, and sends it on to where it would have gone; refuses what it must not see."""

    def __init__(self, target: Inlet) -> None:
        super().__init__()
        self.target = target
        self.address = target.address
        self.notes: list[str] = []

    def send(self, message: Message, transaction: Transaction | None, duplicate_id: bytes) -> int:
        text = message.data.decode()
        if text == "secret":
            raise InvalidRequest("not here")
        self.notes.append(text)
        return self.target.send(message, transaction, duplicate_id)

    def refused(self) -> None:
        self.notes.append("(refused)")


class Bell:
    """An endpoint."""

    def __init__(self) -> None:
        self.rings: list[tuple[str, str]] = []

    def receive(self, message: Message, session: Session) -> None:
        self.rings.append((message.address, session.subject.name))


def test_an_inlet_takes_the_place_of_an_address() -> None:
    """The producer counts, its client notices nothing."""
    domain = make_domain()
    queue = make_queue(domain)
    producer = make_session(domain).producer("q")
    audited = producer.inlet = Audited(producer.inlet)

    assert producer.send(make_message("1")) == 1
    producer.refused()

    assert audited.notes == ["1", "(refused)"]
    assert (queue.message_count, producer.messages_sent, producer.address) == (1, 1, queue.address)
    assert not producer.must_wait


def test_what_an_inlet_refuses_fails_the_transaction() -> None:
    """As what an address refuses."""
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    producer = session.producer("q")
    producer.inlet = Audited(producer.inlet)
    transaction = session.begin()
    producer.send(make_message("1"), transaction)

    with pytest.raises(InvalidRequest):
        producer.send(make_message("secret"), transaction)
    with pytest.raises(TransactionRolledBack):
        session.commit(transaction)

    assert queue.message_count == 0


def test_an_endpoint_takes_what_is_sent_to_its_address() -> None:
    """No address comes into being for it."""
    domain = make_domain()
    sessions = Sessions(domain)
    bell = Bell()
    sessions.register_endpoint("bell", bell)
    producer = sessions.open(Subject("ann")).producer("bell")
    producer.hold()

    assert (producer.send(make_message()), producer.address, producer.prepare()) == (1, None, None)
    producer.let_go()

    assert bell.rings == [("bell", "ann")]
    assert domain.addresses == {}
