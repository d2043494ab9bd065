"""Messages of OpenWire as they arrive: what the core is told about them."""

import pytest

from artemis_openwire.engine.message_fields import HEADER
from artemis_openwire.engine.structures import ActiveMQQueue, ActiveMQTopic
from artemis_openwire.engine.values import Long, Short, read_map, write_map
from artemis_openwire.messages.arrival import asks_for_time, duplicate_id_of, message_of
from artemis_openwire.messages.delivery import delivery_of
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_openwire.messages.occurrences import timing_of
from artemis_py.core.messages.record import decode_message, encode_message
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.services.job import LONGEST_MS, Timing
from artemis_py.errors import InvalidRequest, MalformedFrame
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


def timing(**properties: object) -> Timing | None:
    """What a message asks for, by the names behind AMQ_SCHEDULED_."""
    named = {name if name == "scheduledJobId" else f"AMQ_SCHEDULED_{name}": value for name, value in properties.items()}
    fields = fields_of(command(properties=named))
    return timing_of(fields) if asks_for_time(fields) else None


@pytest.mark.parametrize("delay", [Long(500), 500, Short(500), "500", "+500"])
def test_a_delay_may_have_any_type_that_is_a_whole_number(delay: object) -> None:
    """As in ActiveMQ, which converts texts."""
    assert timing(DELAY=delay) == Timing.of(delay_ms=500)


@pytest.mark.parametrize("value", [500.0, True, "soon", "", "1e3", "9" * 30])
@pytest.mark.parametrize("name", ["DELAY", "PERIOD", "REPEAT"])
def test_what_is_no_whole_number_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidRequest):
        timing(**{name: value})


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"DELAY": 0},
        {"DELAY": Long(-1)},
        {"DELAY": None},
        {"PERIOD": 0, "REPEAT": 3},
        {"CRON": ""},
        {"DELAY": 5, "scheduledJobId": "job"},
    ],
)
def test_what_is_sent_at_once(properties: dict[str, object]) -> None:
    """That includes what a scheduler has sent already."""
    assert timing(**properties) is None


def test_everything_together() -> None:
    found = timing(CRON="0 * * * *", DELAY=1000, PERIOD=Long(2000), REPEAT=9)

    assert found is not None
    assert (found.delay_ms, found.period_ms, found.repeat) == (1000, 2000, 9)
    assert found.cron is not None
    assert found.cron.text == "0 * * * *"


def test_the_name_in_a_value_means_nothing() -> None:
    fields = fields_of(command(properties={"a": "AMQ_SCHEDULED_DELAY", "nested": {"AMQ_SCHEDULED_DELAY": Long(5)}}))

    assert timing_of(fields) is None


def test_the_longest_delay_is_limited() -> None:
    """So that sums stay below 64 bits."""
    assert timing(DELAY=Long(2**63 - 1)) == Timing.of(delay_ms=LONGEST_MS)


def test_damaged_properties_with_a_delay_are_refused() -> None:
    """What was asked for is not known."""
    damaged = fields_of(command(marshalled_properties=write_map({"AMQ_SCHEDULED_DELAY": Long(5)})[:-1]))

    assert asks_for_time(damaged)
    with pytest.raises(MalformedFrame):
        timing_of(damaged)


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
    fields = fields_of(command(destination=listed, content=b"\0\0\0\2hi", properties={"a": 1}))

    received = delivered(message_of(fields, 1000, "client", ActiveMQTopic(physical_name="b")))

    assert received.destination == ActiveMQTopic(physical_name="b")
    assert received.original_destination == listed
    assert received.content == b"\0\0\0\2hi"
    assert read_map(received.marshalled_properties) == {"a": 1}


@pytest.mark.parametrize("version", range(1, 13))
def test_versions(version: int) -> None:
    """Every version has the same facts."""
    message = arrived(version=version, priority=6, expiration=7)

    assert (message.priority, message.expires_ms, message.delivery_time_ms) == (6, 7, 0)
    assert message.annotations[0] == version


def test_stored_message_is_the_same() -> None:
    """A restart finds the format by its name."""
    message = arrived(properties={"a": 1}, content=b"\0\0\0\2hi", persistent=True, group_id="g", priority=7)

    stored = decode_message(encode_message(message), {"openwire": OPENWIRE_FORMAT}, None)

    assert delivery_of(stored, RUN) == delivery_of(message, RUN) == (message.annotations, message.data)
    assert stored.has_group
    assert stored.lookup("a") == 1
