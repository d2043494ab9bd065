"""What the URL of an acceptor changes for OpenWire clients."""

import pytest

from artemis_openwire.broker.parameters import Parameters
from artemis_openwire.engine.codec import read_frame, write_frame
from artemis_openwire.engine.commands import BrokerInfo, ConnectionError, KeepAliveInfo, WireFormatInfo
from artemis_openwire.engine.values import read_map
from artemis_py.wire.parameters import InvalidParameter, read_parameters
from tests.openwire_harness import frames, wire_format
from tests.openwire_site import Client, Site, connected, queue


def offered(**parameters: str) -> dict[str, object]:
    """What the broker offers to a client."""
    client = Client(Site(), "c1", 12, None, **parameters)
    client.handler.receive_data(write_frame(wire_format(12), 1), 0.0)
    first, second = [read_frame(body, 12) for body in frames(client.handler.data_to_send())]
    assert isinstance(first, WireFormatInfo)
    assert isinstance(second, BrokerInfo)
    return read_map(first.marshalled_properties)


@pytest.mark.parametrize(
    ("parameter", "field", "value"),
    [
        ("maxInactivityDuration", "MaxInactivityDuration", 5000),
        ("maxInactivityDurationInitalDelay", "MaxInactivityDurationInitalDelay", 700),
        ("openwireMaxFrameSize", "MaxFrameSize", 70_000),
    ],
)
def test_what_is_offered(parameter: str, field: str, value: int) -> None:
    assert offered()[field] != value
    assert offered(**{parameter: str(value)})[field] == value


@pytest.mark.parametrize(("wanted", "expected"), [("true", [KeepAliveInfo]), ("false", [])])
def test_signs_of_life_of_the_broker(wanted: str, expected: list[type]) -> None:
    client = connected(Site(), useKeepAlive=wanted)
    for seconds in (15.0, 25.0):
        client.handler.handle_deadline(seconds)

    assert [type(one) for one in client.received()][:1] == expected


def test_a_silent_client_is_dropped() -> None:
    client = connected(Site(), maxInactivityDuration="1000", maxInactivityDurationInitalDelay="0")
    for seconds in (1.0, 2.0, 3.0):
        client.handler.handle_deadline(seconds)

    assert isinstance(client.received()[-1], ConnectionError)
    assert client.handler.closed


def test_a_message_that_is_too_large_ends_its_connection() -> None:
    site = Site()
    client, other = connected(site, openwireMaxFrameSize="65536"), connected(site, "c2")
    client.tell(client.text(queue("q"), "x" * 70_000))
    other.send(queue("q"), "m")

    assert (client.handler.closed, other.handler.closed) == (True, False)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"virtualTopicConsumerWildcards": "Consumer.*.>"}, "Consumer.*.>"),
        ({"maxInactivityDuration": "-1"}, "too small"),
        ({"supportAdvisory": "yes"}, "neither true nor false"),
    ],
)
def test_a_wrong_parameter_is_named(given: dict[str, str], part: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        read_parameters(Parameters, given)

    assert raised.value.name == next(iter(given))
    assert part in str(raised.value)
