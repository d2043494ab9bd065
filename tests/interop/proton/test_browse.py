"""Browsing, selectors and positions: reading a queue without taking from it (artemis-model §3.12, §4.1.4)."""

import pytest
from proton import Described, Message, symbol, ulong

from tests.interop.broker_process import BrokerProcess
from tests.interop.proton.client import Client, Refused


def test_browser_leaves_the_messages(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3 distribution-mode copy."""
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        browsed = [one.body for one in client.receiver(name, copy=True).drain()]

        assert browsed == ["1", "2", "3"]
        assert client.bodies(name) == ["1", "2", "3"]


def test_browsers_verdict_has_no_effect(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3: outcomes of a copy only settle."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        first, second = client.receiver(name, copy=True).receive_many(2)
        first.accept()
        second.reject()
        taken = client.receiver(name).drain()

        assert [(one.body, one.message.delivery_count) for one in taken] == [("1", 0), ("2", 0)]


def test_two_browsers_see_the_same(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3: each has a position of its own."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        first, second = client.receiver(name, copy=True), client.receiver(name, copy=True)

        assert [one.body for one in first.drain()] == ["1", "2"]
        assert [one.body for one in second.drain()] == ["1", "2"]


def test_browser_goes_on_where_it_stopped(broker: BrokerProcess, name: str) -> None:
    """Credit by credit, no message twice."""
    with Client(broker.url) as client:
        client.send(name, "1", "2", "3")
        browser = client.receiver(name, copy=True)
        first = [one.body for one in browser.drain(2)]
        rest = [one.body for one in browser.drain(10)]

    assert (first, rest) == (["1", "2"], ["3"])


def test_browser_does_not_hold_messages_back(broker: BrokerProcess, name: str) -> None:
    """A browsed message is not acquired."""
    with Client(broker.url) as client:
        client.send(name, "m")
        client.receiver(name, copy=True).receive()

        assert client.bodies(name) == ["m"]


def test_answer_to_a_browser_says_copy(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §2.6.3: the source in force."""
    with Client(broker.url) as client:
        browser = client.receiver(name, copy=True)

        assert browser.link.remote_source.distribution_mode == browser.link.source.distribution_mode


def test_every_message_carries_its_position(broker: BrokerProcess, name: str) -> None:
    """`x-opt-sequence-number`: ascending per queue."""
    with Client(broker.url) as client:
        client.send(name, *[str(number) for number in range(10)])
        positions = [one.sequence for one in client.receiver(name).drain()]

    assert positions == sorted(set(positions))
    assert len(positions) == 10


def test_position_is_the_same_for_every_reader(broker: BrokerProcess, name: str) -> None:
    """`x-opt-sequence-number` belongs to the message in its queue, not to the delivery."""
    with Client(broker.url) as client:
        client.send(name, "1", "2")
        browsed = [one.sequence for one in client.receiver(name, copy=True).drain()]
        receiver = client.receiver(name)
        receiver.receive().release()
        taken = [one.sequence for one in receiver.drain()]

    assert browsed == taken


def test_position_is_never_reused(broker: BrokerProcess, name: str) -> None:
    """An emptied queue goes on counting."""
    with Client(broker.url) as client:
        client.send(name, "1")
        first = client.receive(name).sequence
        client.send(name, "2")
        second = client.receive(name).sequence

    assert second > first


def test_position_of_the_producer_is_not_believed(broker: BrokerProcess, name: str) -> None:
    """The key is the broker's own: one value per message, its own."""
    with Client(broker.url) as client:
        forged = Message(body="1", annotations={symbol("x-opt-sequence-number"): 10**15, symbol("x-opt-k"): 1})
        client.send(name, forged, "2")
        first, second = client.receiver(name).receive_many(2)

    assert first.sequence < second.sequence < 10**15
    assert first.annotations["x-opt-k"] == 1


def test_browser_starts_after_a_position(broker: BrokerProcess, name: str) -> None:
    """Selector on `amqp.annotation.x-opt-sequence-number`: how a pipeline resumes."""
    with Client(broker.url) as client:
        client.send(name, *[str(number) for number in range(6)])
        positions = [one.sequence for one in client.receiver(name, copy=True).drain()]
        selector = f"amqp.annotation.x-opt-sequence-number > {positions[2]}"
        rest = client.receiver(name, copy=True, selector=selector).drain()

    assert [one.body for one in rest] == ["3", "4", "5"]


def test_browser_reads_a_range_of_positions(broker: BrokerProcess, name: str) -> None:
    """Selector with BETWEEN on the position."""
    with Client(broker.url) as client:
        client.send(name, *[str(number) for number in range(6)])
        positions = [one.sequence for one in client.receiver(name, copy=True).drain()]
        key = "amqp.annotation.x-opt-sequence-number"
        selector = f"{key} > {positions[0]} AND {key} <= {positions[3]}"
        found = client.receiver(name, copy=True, selector=selector).drain()

    assert [one.body for one in found] == ["1", "2", "3"]


# ---- selectors


MESSAGES = (
    Message(id="one", subject="red", priority=1, durable=True, body=1,
            properties={"n": 1, "s": "apple", "b": True, "f": 1.5}),
    Message(id="two", subject="blue", priority=7, body=2, properties={"n": 2, "s": "pear", "b": False}),
    Message(id="three", subject="red", group_id="g", body=3, properties={"n": 3}),
    Message(id="four", body=4),
)  # fmt: skip


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("n = 2", [2]),
        ("n <> 2", [1, 3]),
        ("n >= 2 AND n < 3", [2]),
        ("n = 1 OR s = 'pear'", [1, 2]),
        ("NOT (n = 1)", [2, 3]),
        ("n BETWEEN 2 AND 3", [2, 3]),
        ("n NOT BETWEEN 2 AND 3", [1]),
        ("s IN ('apple', 'plum')", [1]),
        ("s NOT IN ('apple')", [2]),
        ("s LIKE 'p%'", [2]),
        ("s LIKE '_pple'", [1]),
        ("s NOT LIKE 'p%'", [1]),
        ("s IS NULL", [3, 4]),
        ("s IS NOT NULL", [1, 2]),
        ("b", [1]),
        ("b = FALSE", [2]),
        ("n * 2 + 1 = 5", [2]),
        ("f > 1", [1]),
        ("n = 1.0", [1]),
        ("n = '1'", []),
        ("missing = 1 OR n = 3", [3]),
        ("missing = 1", []),
        ("NOT (missing = 1)", []),
        ("JMSType = 'red'", [1, 3]),
        ("JMSPriority = 7", [2]),
        ("JMSDeliveryMode = 'PERSISTENT'", [1]),
        ("JMSXGroupID = 'g'", [3]),
    ],
)
def test_selector_picks_what_it_says(broker: BrokerProcess, name: str, selector: str, expected: list[int]) -> None:
    """JMS 1.1 §3.8.1 selectors with three-valued logic, as a consumer's filter on a queue."""
    with Client(broker.url) as client:
        client.send(name, *MESSAGES)
        receiver = client.receiver(name, copy=True, selector=selector)
        found = sorted(one.body for one in receiver.drain())

    assert found == expected


def test_selector_in_force_is_echoed(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3: the answer holds the filters that are applied."""
    with Client(broker.url) as client:
        assert client.receiver(name, selector="n = 1").filters == ["jms-selector"]


def test_unknown_filter_is_not_echoed(broker: BrokerProcess, name: str) -> None:
    """AMQP 1.0 §3.5.3: a filter that is not applied is left out, the others are kept."""
    unknown = {"mine": Described(symbol("example:unknown:string"), "x")}
    with Client(broker.url) as client:
        receiver = client.receiver(name, filters=unknown, selector="n = 1")
        client.send(name, Message(body=1, properties={"n": 1}))

        assert receiver.filters == ["jms-selector"]
        assert receiver.bodies() == [1]


def test_selector_may_be_described_by_its_symbol(broker: BrokerProcess, name: str) -> None:
    """Reference 11: descriptor `apache.org:selector-filter:string` or its code."""
    by_symbol = {"selector": Described(symbol("apache.org:selector-filter:string"), "n = 1")}
    with Client(broker.url) as client:
        client.send(name, Message(body=1, properties={"n": 1}), Message(body=2, properties={"n": 2}))

        assert client.receiver(name, filters=by_symbol).bodies() == [1]


@pytest.mark.parametrize("selector", ["n = ", "n == 1", "(n = 1", "n LIKE 1", "'open", "n = 1 AND"])
def test_bad_selector_is_refused(broker: BrokerProcess, name: str, selector: str) -> None:
    """artemis-model §4.5: `amqp:invalid-field`."""
    with Client(broker.url) as client, pytest.raises(Refused) as refused:
        client.receiver(name, selector=selector)

    assert refused.value.condition == "amqp:invalid-field"


def test_message_nobody_matches_does_not_block_the_queue(broker: BrokerProcess, name: str) -> None:
    """artemis-model §3.1."""
    with Client(broker.url) as client:
        client.send(name, Message(body=1, properties={"n": 1}), Message(body=2, properties={"n": 2}))
        selective = client.receiver(name, selector="n = 2")

        assert selective.bodies() == [2]
        assert client.bodies(name) == [1]


def test_consumers_selector_does_not_filter_what_is_queued(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4: on a queue the selector belongs to the consumer."""
    with Client(broker.url) as client:
        client.receiver(name, selector="n = 2")
        client.send(name, Message(body=1, properties={"n": 1}))

        assert client.bodies(name) == [1]


def test_no_local_consumer_leaves_its_own_messages(broker: BrokerProcess, name: str) -> None:
    """artemis-model §4.1.4: on a queue no-local is a consumer filter."""
    no_local = {"no-local": Described(ulong(0x468C00000003), [])}
    with Client(broker.url, f"c-{name}") as client, Client(broker.url) as other:
        client.send(name, "own")
        other.send(name, "other")
        own = client.receiver(name, filters=no_local)

        assert own.bodies() == ["other"]
        assert other.bodies(name) == ["own"]
