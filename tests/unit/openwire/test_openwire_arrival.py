"""Messages of OpenWire as they arrive: what the core is told about them."""

import pytest

from artemis_openwire.engine.message_fields import HEADER
from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTopic
from artemis_openwire.engine.values import Byte, Long, read_map, write_map
from artemis_openwire.messages.arrival import duplicate_id_of, message_of
from artemis_openwire.messages.delivery import delivery_of
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_py.core.messages.message import LATEST_MS
from artemis_py.core.messages.record import decode_message, encode_message
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.errors import MalformedFrame
from tests.openwire_messages import RUN, arrived, command, delivered, fields_of


def test_facts_are_those_of_the_producer() -> None:
    """openwire §9.1."""
    message = arrived(persistent=True, priority=7, expiration=9000)

    assert (message.durable, message.priority, message.expires_ms) == (True, 7, 9000)
    assert (message.delivery_time_ms, message.routing_type, message.has_group) == (0, -1, False)
    assert message.producer == "client"


def test_octets_are_kept() -> None:
    """A message stays as it came; its header knows when that was."""
    fields = fields_of(command(content=b"\0\0\0\2hi"))

    message = message_of(fields, 1234, "client")

    assert message.data == fields.body
    assert message.annotations == fields.header(1234)
    assert HEADER.unpack(message.annotations)[-1] == 1234


@pytest.mark.parametrize(("sent", "kept"), [(-128, 0), (-1, 0), (0, 0), (9, 9), (10, 9), (127, 9)])
def test_priorities_are_limited(sent: int, kept: int) -> None:
    """The core has ten, and clients get what the core has."""
    message = arrived(priority=sent)

    assert message.priority == kept
    assert delivered(message).priority == kept


def test_negative_expiry_is_none() -> None:
    """A clock that is wrong must not lose messages."""
    message = arrived(expiration=-5)

    assert message.expires_ms == 0
    assert delivered(message).expiration == 0


@pytest.mark.parametrize("delay", [Long(500), 500, Byte(100)])
def test_delay_becomes_the_delivery_time(delay: int) -> None:
    """The property goes, so that a client that sends the message on does not repeat the delay (openwire §9.1)."""
    message = arrived(properties={"a": 1, "AMQ_SCHEDULED_DELAY": delay, "b": "x"}, content=b"\0\0\0\2hi")

    assert message.delivery_time_ms == 1000 + delay
    assert read_map(delivered(message).marshalled_properties) == {"a": 1, "b": "x"}
    assert delivered(message).content == b"\0\0\0\2hi"


@pytest.mark.parametrize("value", ["500", 500.0, True, 0, Long(-1), None])
def test_other_delays_stay_properties(value: object) -> None:
    """artemis-model §3.7: only whole numbers count."""
    message = arrived(properties={"AMQ_SCHEDULED_DELAY": value})

    assert message.delivery_time_ms == 0
    assert read_map(delivered(message).marshalled_properties) == {"AMQ_SCHEDULED_DELAY": value}


def test_delay_in_a_value_is_no_delay() -> None:
    """The octets of the name alone mean nothing."""
    message = arrived(properties={"a": "AMQ_SCHEDULED_DELAY", "nested": {"AMQ_SCHEDULED_DELAY": Long(5)}})

    assert message.delivery_time_ms == 0


def test_longest_delay_is_the_latest_time() -> None:
    """A store has room for seven octets."""
    message = arrived(properties={"AMQ_SCHEDULED_DELAY": Long(2**63 - 1)})

    assert message.delivery_time_ms == LATEST_MS


def test_damaged_properties_with_a_delay_are_refused() -> None:
    """What was asked for is not known."""
    damaged = write_map({"AMQ_SCHEDULED_DELAY": Long(5)})[:-1]

    with pytest.raises(MalformedFrame):
        arrived(marshalled_properties=damaged)


def test_damaged_properties_are_passed_on() -> None:
    """Nobody has to read them."""
    assert delivered(arrived(marshalled_properties=b"\0\0\0\5")).marshalled_properties == b"\0\0\0\5"


def test_groups_are_noticed() -> None:
    """Java's clients have a field for it, others set the property of this name."""
    assert arrived(group_id="g").has_group
    assert arrived(properties={"JMSXGroupID": "g"}).has_group


@pytest.mark.parametrize("id", ["abc", b"\1\2", 5])
def test_duplicate_id(id: object) -> None:
    """artemis-model §3.13."""
    assert duplicate_id_of(fields_of(command(properties={"a": 1, "_AMQ_DUPL_ID": id}))) == duplicate_id(id)


def test_no_duplicate_id() -> None:
    """Nor in a value."""
    assert duplicate_id_of(fields_of(command())) == b""
    assert duplicate_id_of(fields_of(command(properties={"a": "_AMQ_DUPL_ID"}))) == b""


def test_damaged_duplicate_id() -> None:
    """It might be a duplicate."""
    damaged = write_map({"_AMQ_DUPL_ID": "abc"})

    for size in range(len(damaged) - 1, 18, -1):
        with pytest.raises(MalformedFrame):
            duplicate_id_of(fields_of(command(marshalled_properties=damaged[:size])))


def test_target_replaces_a_list() -> None:
    """openwire §9.1: each destination gets a message of its own, which names the list as the original destination."""
    listed = ActiveMQQueue(physical_name="a,topic://b")
    fields = fields_of(command(destination=listed, content=b"\0\0\0\2hi", properties={"AMQ_SCHEDULED_DELAY": Long(5)}))

    received = delivered(message_of(fields, 1000, "client", ActiveMQTopic(physical_name="b")))

    assert received.destination == ActiveMQTopic(physical_name="b")
    assert received.original_destination == listed
    assert received.content == b"\0\0\0\2hi"
    assert read_map(received.marshalled_properties) == {}


@pytest.mark.parametrize("version", range(1, 13))
def test_versions(version: int) -> None:
    """Every version has the same facts."""
    message = arrived(version=version, properties={"AMQ_SCHEDULED_DELAY": Long(5)}, priority=6, expiration=7)

    assert (message.priority, message.expires_ms, message.delivery_time_ms) == (6, 7, 1005)
    assert message.annotations[0] == version


def test_stored_message_is_the_same() -> None:
    """A restart finds the format by its name."""
    message = arrived(properties={"a": 1}, content=b"\0\0\0\2hi", persistent=True, group_id="g", priority=7)

    stored = decode_message(encode_message(message), {"openwire": OPENWIRE_FORMAT}, None)

    assert delivery_of(stored, RUN) == delivery_of(message, RUN) == (message.annotations, message.data)
    assert stored.has_group
    assert stored.lookup("a") == 1
