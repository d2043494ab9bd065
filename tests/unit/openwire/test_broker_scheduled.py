"""Messages that are sent later, several times or by a schedule, and their management (openwire §9.1)."""

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from artemis_openwire.broker.scheduler import MANAGEMENT
from artemis_openwire.engine.commands import (
    ActiveMQTextMessage,
    DestinationInfo,
    ExceptionResponse,
    MessageDispatch,
)
from artemis_openwire.engine.names import message_id_text
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQTempQueue, ConnectionId
from artemis_openwire.engine.values import Long, read_map, write_map
from artemis_py.core.messages.message import validated_user
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.services.job_queue import SCHEDULED
from tests.core_harness import START_MS, browse_all
from tests.openwire_site import Client, Site, connected, id_of, queue, text_of, topic

ORDERS = queue("orders")


def scheduled(
    client: Client, text: str = "m", to: ActiveMQDestination = ORDERS, **asked: object
) -> ActiveMQTextMessage:
    """A message with properties, by the names behind AMQ_SCHEDULED_."""
    named = {f"AMQ_SCHEDULED_{name}": value for name, value in asked.items()}
    return client.text(to, text, marshalled_properties=write_map({"colour": "red", **named}))


def properties(dispatch: MessageDispatch) -> dict[str, Any]:
    assert dispatch.message is not None
    return dict(read_map(dispatch.message.marshalled_properties))


def after(site: Site, client: Client, seconds: float) -> list[MessageDispatch]:
    site.pass_time(seconds)
    return client.dispatches()


@pytest.mark.parametrize("version", range(1, 13))
def test_a_delayed_message_comes_later_and_names_its_job(version: int) -> None:
    """Applications cancel a job by the id that the message names, and may send on what they got."""
    site = Site()
    client = connected(site, version=version)
    client.consume(ORDERS)
    message = scheduled(client, "later", DELAY=Long(1500))
    client.done(message)

    assert after(site, client, 1.499) == []
    (later,) = after(site, client, 0.001)
    assert message.message_id is not None
    assert text_of(later) == "later"
    assert properties(later) == {"colour": "red", "scheduledJobId": message_id_text(message.message_id)}
    assert id_of(later).producer_sequence_id == message.message_id.producer_sequence_id


def test_a_delayed_message_names_the_user_that_has_sent_it() -> None:
    """`populate-validated-user`; consumers of other protocols see it as well."""
    site = Site()
    site.domain.set_options(evolve(site.domain.options, populate_validated_user=True))
    client = Client(site).log_in(user_name="ann")
    client.done(evolve(scheduled(client, DELAY=300, PERIOD=300, REPEAT=1), user_id="eve"))
    site.pass_time(1)
    waiting = [validated_user(each.message) for each in browse_all(site.domain.queue("orders"))]
    client.consume(ORDERS)
    found = client.dispatches()

    assert waiting == ["ann", "ann"]
    assert [each.message.user_id for each in found if each.message is not None] == ["ann", "ann"]


def test_each_repetition_is_a_message_of_its_own() -> None:
    """Clients discard what they take for a repetition."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    client.done(scheduled(client, DELAY=300, PERIOD=300, REPEAT=2))
    found = after(site, client, 10)
    client.done(scheduled(client, DELAY=300, PERIOD=300, REPEAT=2))
    found += after(site, client, 10)

    ids = {message_id_text(id_of(one)) for one in found}
    assert (len(found), len(ids)) == (6, 6)
    assert len({properties(one)["scheduledJobId"] for one in found}) == 2


def test_a_schedule_with_repetitions() -> None:
    site = Site(now_ms=86_400_000)
    site.host.jobs.zone = UTC
    client = connected(site)
    client.consume(ORDERS, prefetch=100)
    client.done(scheduled(client, CRON="0 * * * *", DELAY=1000, PERIOD=1000, REPEAT=9))

    assert len(after(site, client, 3600)) == 0
    assert len(after(site, client, 3599)) == 10
    assert len(after(site, client, 3600)) == 10


@pytest.mark.parametrize(
    "asked",
    [{"CRON": "every monday"}, {"DELAY": "soon"}, {"PERIOD": 1.5}, {"CRON": "* * * * *", "REPEAT": -1}],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any]) -> None:
    """The class is the one of ActiveMQ; nothing is sent."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    answer = client.ask(scheduled(client, **asked))

    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.class_name == "javax.jms.JMSException"
    assert after(site, client, 100_000) == []


def test_the_time_to_live_begins_when_the_message_is_sent() -> None:
    """As in ActiveMQ: a message with a delay that is longer than its time to live arrives."""
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    message = scheduled(client, DELAY=10_000)
    client.done(evolve(message, timestamp=START_MS, expiration=START_MS + 1000))
    (found,) = after(site, client, 10)

    assert found.message is not None
    assert (found.message.timestamp, found.message.expiration) == (START_MS + 10_000, START_MS + 11_000)


def test_transactions() -> None:
    site = Site()
    client = connected(site)
    client.consume(ORDERS)
    for value, text, end in ((1, "lost", 4), (2, "kept", 2)):
        client.tell(client.step(0, value))
        message = scheduled(client, text, DELAY=300)
        client.tell(evolve(message, transaction_id=client.transaction(value)))
        client.done(client.step(end, value))

    assert [text_of(one) for one in after(site, client, 5)] == ["kept"]


def test_a_list_of_destinations_has_a_job_for_each() -> None:
    site = Site()
    client = connected(site)
    client.consume(queue("a"), value=1)
    client.consume(topic("b"), value=2)
    client.done(scheduled(client, to=queue("a,topic://b"), DELAY=300))
    found = after(site, client, 0.3)

    assert sorted(str(one.destination) for one in found) == sorted(map(str, (queue("a"), topic("b"))))
    assert len({properties(one)["scheduledJobId"] for one in found}) == 2


def test_a_temporary_queue_takes_its_jobs_with_it() -> None:
    site = Site()
    client = connected(site)
    temporary = ActiveMQTempQueue(physical_name="ID:c1:1")
    client.done(DestinationInfo(connection_id=ConnectionId(value="c1"), destination=temporary))
    client.done(scheduled(client, to=temporary, DELAY=300))
    client.lose()
    site.pass_time(1)

    assert site.host.jobs.count == 0
    assert site.host.sessions.find_address("ID:c1:1") is None


def test_a_client_that_reconnects_schedules_once() -> None:
    site = Site()
    client = Client(site).log_in(fault_tolerant=True)
    message = scheduled(client, DELAY=300)
    client.done(message)
    client.done(message)

    assert site.host.jobs.count == 1


def test_jobs_survive_a_crash(tmp_path: Path) -> None:
    site = Site(tmp_path)
    client = connected(site)
    client.done(scheduled(client, "once", DELAY=1000))
    client.done(scheduled(client, "again", DELAY=1000, PERIOD=1000, REPEAT=1))
    site.crash()
    site = Site(tmp_path)
    client = connected(site)
    client.consume(ORDERS)
    first = after(site, client, 1)
    client.ack(first[0], first[-1], count=2)
    site.commit()
    site.crash()
    site = Site(tmp_path, now_ms=site.domain.dispatcher.now_ms)
    client = connected(site)
    client.consume(ORDERS)
    second = after(site, client, 1)
    third = after(site, client, 10)

    assert (sorted(map(text_of, first)), [text_of(one) for one in second], third) == (["again", "once"], ["again"], [])
    site.crash()


# -- management ----------------------------------------------------------------------------------------------------

REPLIES = ActiveMQTempQueue(physical_name="ID:c1:replies")


def managing(site: Site, name: str = "c1", **login: Any) -> Client:
    """A client that is told of jobs on a temporary queue."""
    client = Client(site, name).log_in(**login)
    replies = ActiveMQTempQueue(physical_name=f"ID:{name}:replies")
    client.done(DestinationInfo(connection_id=ConnectionId(value=name), destination=replies))
    client.consume(replies, prefetch=100)
    return client


def action(client: Client, what: str, **given: object) -> ActiveMQTextMessage:
    replies = ActiveMQTempQueue(physical_name=f"ID:{client.name}:replies")
    marshalled = write_map({"AMQ_SCHEDULER_ACTION": what, **given})
    return client.text(topic(MANAGEMENT), marshalled_properties=marshalled, reply_to=replies)


def listed(client: Client, **given: object) -> dict[str, dict[str, Any]]:
    """Properties of the jobs, by text."""
    client.done(action(client, "BROWSE", **given))
    return {text_of(one): properties(one) for one in client.dispatches()}


def test_jobs_are_listed_and_removed() -> None:
    site = Site()
    client = managing(site)
    client.done(scheduled(client, "a", DELAY=Long(600_000), PERIOD=5, REPEAT=2))
    client.done(scheduled(client, "b", DELAY=Long(600_000)))
    found = listed(client)

    assert found["a"].items() >= {"AMQ_SCHEDULED_DELAY": 600_000, "AMQ_SCHEDULED_REPEAT": 2, "colour": "red"}.items()
    client.done(action(client, "REMOVE", scheduledJobId=found["a"]["scheduledJobId"]))
    assert list(listed(client)) == ["b"]
    client.done(action(client, "REMOVE", scheduledJobId="no such job"))
    client.done(action(client, "REMOVEALL"))
    assert listed(client) == {}
    assert site.host.sessions.find_queue(SCHEDULED) is not None


def test_a_listed_message_is_not_scheduled_again_and_is_new_each_time() -> None:
    site = Site()
    client = managing(site)
    client.done(scheduled(client, "a", DELAY=Long(600_000)))
    ids = set()
    for _ in range(2):
        client.done(action(client, "BROWSE"))
        (dispatch,) = client.dispatches()
        ids.add(str(id_of(dispatch)))
        assert dispatch.message is not None
        assert (dispatch.message.persistent, dispatch.message.original_destination) == (False, ORDERS)

    assert len(ids) == 2
    assert site.host.jobs.count == 1


def test_jobs_of_a_span_of_time() -> None:
    site = Site()
    client = managing(site)
    for seconds in (10, 20, 30):
        client.done(scheduled(client, str(seconds), DELAY=seconds * 1000))
    span = {"ACTION_START_TIME": Long(START_MS + 15_000), "ACTION_END_TIME": str(START_MS + 20_000)}

    assert list(listed(client, **span)) == ["20"]
    client.done(action(client, "REMOVEALL", **span))
    assert list(listed(client)) == ["10", "30"]


@pytest.mark.parametrize(
    ("what", "given"), [("DANCE", {}), ("BROWSE", {"ACTION_START_TIME": "x", "ACTION_END_TIME": "y"}), ("browse", {})]
)
def test_an_action_that_makes_no_sense_is_refused(what: str, given: dict[str, object]) -> None:
    client = managing(Site())

    assert client.refused(action(client, what, **given)) == "JMSException"


def test_a_list_needs_somewhere_to_go() -> None:
    client = managing(Site())
    message = client.text(topic(MANAGEMENT), marshalled_properties=write_map({"AMQ_SCHEDULER_ACTION": "BROWSE"}))

    assert client.refused(message) == "JMSException"


def test_jobs_of_others_need_the_permission() -> None:
    """A list shows messages, so it shows those that the client could browse; what it removes, nobody gets."""

    class Rules:
        def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
            reads = permission in (Permission.BROWSE, Permission.CONSUME)
            return not (reads and address == "orders")

    site = Site(access=Rules())
    owner = connected(site, "c1")
    owner.done(scheduled(owner, "secret", DELAY=Long(600_000)))
    owner.done(scheduled(owner, "open", to=queue("other"), DELAY=Long(600_000)))
    other = managing(site, "c2")

    assert list(listed(other)) == ["open"]
    other.done(action(other, "REMOVEALL"))
    assert site.host.jobs.count == 1
