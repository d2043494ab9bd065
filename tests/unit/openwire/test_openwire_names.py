"""Names as people write them (openwire §10)."""

import pytest

from artemis_openwire.engine.names import MAX_PARTS, destinations_of, is_advisory, message_id_text, qualified_name
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    MessageId,
    ProducerId,
)


def queue(name: str | None) -> ActiveMQQueue:
    """A queue."""
    return ActiveMQQueue(physical_name=name)


def topic(name: str) -> ActiveMQTopic:
    """A topic."""
    return ActiveMQTopic(physical_name=name)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (queue("a"), [queue("a")]),
        (queue("a,b"), [queue("a"), queue("b")]),
        (queue(" a , topic://t.9,,a,queue://a"), [queue("a"), topic("t.9")]),
        (topic("a,queue://b,temp-queue://c"), [topic("a"), queue("b"), ActiveMQTempQueue(physical_name="c")]),
        (queue("topic://t"), [topic("t")]),
        (queue("a?consumer.prefetchSize=10"), [queue("a")]),
        (queue("a,b?x=1,2"), [queue("a"), queue("b")]),
        (queue("ID:h-1-2:1:3"), [queue("ID:h-1-2:1:3")]),
        (queue(""), []),
        (queue(None), []),
        (queue(", ,"), []),
    ],
)
def test_a_name_lists_destinations(given: ActiveMQDestination, parts: list[ActiveMQDestination]) -> None:
    """Each once and in order; a part without a prefix is of the kind of the whole."""
    assert destinations_of(given) == parts


def test_a_list_of_destinations_is_limited() -> None:
    """A message of some kilobytes could be routed ten thousand times otherwise."""
    assert len(destinations_of(queue(",".join(map(str, range(MAX_PARTS)))))) == MAX_PARTS
    with pytest.raises(ValueError, match="1025 destinations"):
        destinations_of(queue("," * MAX_PARTS))


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        (queue("a"), "queue://a"),
        (topic("a"), "topic://a"),
        (ActiveMQTempQueue(physical_name="a"), "temp-queue://a"),
        (ActiveMQTempTopic(physical_name="a"), "temp-topic://a"),
    ],
)
def test_selectors_see_the_kind_of_a_destination(destination: ActiveMQDestination, text: str) -> None:
    """In front of its name."""
    assert qualified_name(destination) == text


@pytest.mark.parametrize(
    ("message_id", "text"),
    [
        (
            MessageId(producer_id=ProducerId(connection_id="ID:h:1", session_id=2, value=3), producer_sequence_id=4),
            "ID:h:1:2:3:4",
        ),
        (MessageId(text_view="ID:x"), "ID:x"),
        (MessageId(text_view="x"), "ID:x"),
    ],
)
def test_applications_see_a_text_for_an_id(message_id: MessageId, text: str) -> None:
    """That of another protocol gets the prefix that JMS asks for."""
    assert message_id_text(message_id) == text


def test_advisories_are_topics() -> None:
    """A queue of that name is an ordinary one."""
    assert is_advisory(topic("ActiveMQ.Advisory.TempQueue"))
    assert not is_advisory(queue("ActiveMQ.Advisory.TempQueue"))
    assert not is_advisory(topic("ActiveMQ.AdvisoryX"))
