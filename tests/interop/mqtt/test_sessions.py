"""What outlives a connection, and what does not (MQTT 5.0 §3.1.2.4, §3.1.2.11.2, §4.1; MQTT 3.1.1 §3.1.2.4)."""

import pytest

from tests.interop.mqtt.packets import Property
from tests.interop.mqtt.raw import Closed, Raw, kept, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttServer
from tests.interop.mqtt.waiting import until

VERSIONS = (3, 4, 5)
NEVER = 0xFFFFFFFF


@pytest.mark.parametrize("version", VERSIONS)
def test_kept_session_collects_messages(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.2-5] [MQTT-3.1.1/3.1.2-4], [MQTT-3.1.2-23], [MQTT-4.5.0-1]: QoS 1 and 2 while the client is away."""
    kept_client = kept(server, f"c-{name}", version=version)
    kept_client.subscribe(name, options=2)
    kept_client.disconnect()
    with opened(server, version=version) as publisher:
        publisher.publish(name, b"1", 1)
        publisher.publish(name, b"2", 2)
    with kept(server, f"c-{name}", version=version) as again:
        assert again.receive_all(2) == [b"1", b"2"]


@pytest.mark.parametrize("version", [4, 5])
def test_session_present_says_whether_there_was_one(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.2.2-2] [MQTT-3.2.2-3] [MQTT-3.1.1/3.2.2-1] [MQTT-3.1.1/3.2.2-2]."""
    with kept(server, f"c-{name}", version=version) as first:
        assert not first.connack.session_present
        first.disconnect()
    with kept(server, f"c-{name}", version=version) as second:
        assert second.connack.session_present
        second.disconnect()
    with opened(server, f"c-{name}", version=version) as clean:
        assert not clean.connack.session_present
        clean.disconnect()
    with kept(server, f"c-{name}", version=version) as last:
        assert not last.connack.session_present


@pytest.mark.parametrize("version", VERSIONS)
def test_clean_start_forgets_subscriptions_and_messages(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.2-4] [MQTT-3.1.1/3.1.2-6]."""
    client = kept(server, f"c-{name}", version=version)
    client.subscribe(name, options=1)
    client.disconnect()
    with opened(server, version=version) as publisher:
        publisher.publish(name, b"old", 1)
        opened(server, f"c-{name}", version=version).disconnect()
        with kept(server, f"c-{name}", version=version) as again:
            publisher.publish(name, b"new", 1)

            assert again.waiting() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_clean_session_ends_with_its_connection(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.1/3.1.2-6], [MQTT-4.1.0-2]: without a session expiry interval nothing is kept."""
    client = opened(server, f"c-{name}", version=version)
    client.subscribe(name, options=1)
    client.drop()
    with opened(server, version=version) as publisher:
        publisher.publish(name, b"m", 1)
    with kept(server, f"c-{name}", version=version) as again:
        assert again.waiting() == []


def test_version_5_session_without_expiry_ends_with_its_connection(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.1.2.11.2: an absent interval is 0, even without clean start."""
    opened(server, f"c-{name}", clean=False).disconnect()
    with kept(server, f"c-{name}") as again:
        assert not again.connack.session_present


def test_session_ends_when_its_expiry_interval_has_passed(server: MqttServer, name: str) -> None:
    """[MQTT-4.1.0-2]: one second; looked at again and again without ever making it longer."""
    client = kept(server, f"c-{name}", expiry_s=1)
    client.subscribe(name, options=1)
    client.disconnect()

    def is_gone() -> bool:
        with opened(server) as publisher:  # 0x10: no subscriber is left
            return publisher.publish(name, b"m", 1) == 0x10

    until(is_gone, "the end of the session")
    with kept(server, f"c-{name}") as again:
        assert not again.connack.session_present


def test_disconnect_may_change_the_expiry_interval(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.14.2.2.2: to 0, which ends the session at once, or to longer."""
    kept(server, f"c-{name}").disconnect(given=[(Property.SESSION_EXPIRY, 0)])
    with opened(server, f"c-{name}", clean=False, given=[(Property.SESSION_EXPIRY, 1)]) as again:
        assert not again.connack.session_present
        again.disconnect(given=[(Property.SESSION_EXPIRY, NEVER)])
    with kept(server, f"c-{name}") as last:
        assert last.connack.session_present


def test_disconnect_may_not_make_a_session_outlive_an_interval_of_0(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.14.2.2.2: a non-zero interval after a CONNECT with 0 is a Protocol Error."""
    with opened(server, f"c-{name}", clean=False) as client:
        client.disconnect(given=[(Property.SESSION_EXPIRY, 100)])
    with kept(server, f"c-{name}") as again:
        assert not again.connack.session_present


@pytest.mark.parametrize("version", VERSIONS)
def test_second_connection_takes_the_client_id_over(server: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.4-3] [MQTT-3.1.1/3.1.4-2]: the first one is closed, in version 5 with 0x8E; the session goes on."""
    first = kept(server, f"c-{name}", version=version)
    first.subscribe(name, options=1)
    with kept(server, f"c-{name}", version=version) as second:
        goodbye = first.wait_closed()
        second.publish(name, b"m", 1)

        if not IS_MOSQUITTO:  # 2.0.11 closes without a word
            assert (goodbye.code if goodbye else None) == (0x8E if version == 5 else None)
        assert second.receive_all(1) == [b"m"]


@pytest.mark.parametrize("version", VERSIONS)
def test_takeover_gives_what_was_on_its_way_to_the_second_connection(
    server: MqttServer, name: str, version: int
) -> None:
    """[MQTT-4.4.0-1]: unacknowledged messages go where the session goes."""
    first = kept(server, f"c-{name}", version=version)
    first.subscribe(name, options=1)
    with opened(server, version=version) as publisher:
        publisher.publish(name, b"1", 1)
        publisher.publish(name, b"2", 1)
    first.receive(acknowledge=False)
    with kept(server, f"c-{name}", version=version) as second:
        assert second.receive_all(2) == [b"1", b"2"]


def test_versions_share_a_session(server: MqttServer, name: str) -> None:
    """The client id names the session, not the version of the protocol [MQTT-3.1.3-2]."""
    first = kept(server, f"c-{name}", version=5, expiry_s=NEVER)
    first.subscribe(name, options=1)
    first.disconnect()
    with opened(server) as publisher:
        publisher.publish(name, b"m", 1)
    with kept(server, f"c-{name}", version=4) as again:
        assert again.connack.session_present
        assert again.receive_all(1) == [b"m"]


def test_absent_client_id_is_assigned(server: MqttServer) -> None:
    """[MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.2.2-16]: a new one each time, which the client is told."""
    with opened(server) as first, opened(server) as second:
        names = [client.connack.get(Property.ASSIGNED_CLIENT_ID) for client in (first, second)]

        assert all(names)
        assert names[0] != names[1]


def test_given_client_id_is_not_repeated(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.2.2.3.7: the property is for ids the server chose."""
    with opened(server, f"c-{name}") as client:
        assert client.connack.get(Property.ASSIGNED_CLIENT_ID) is None


def test_assigned_client_id_can_be_used_again(server: MqttServer) -> None:
    """MQTT 5.0 §3.2.2.3.7."""
    first = opened(server, clean=False, given=[(Property.SESSION_EXPIRY, 3600)])
    assigned = first.connack.get(Property.ASSIGNED_CLIENT_ID)
    first.disconnect()
    assert isinstance(assigned, str)
    with kept(server, assigned) as again:
        assert again.connack.session_present


def test_version_311_without_client_id_needs_a_clean_session(server: MqttServer) -> None:
    """[MQTT-3.1.1/3.1.3-7] [MQTT-3.1.1/3.1.3-8]: return code 2, then closed."""
    with opened(server, version=4):
        pass
    with Raw(server, 4) as client:
        assert client.connect("", clean=False).code == 2
        client.wait_closed()


def test_version_31_without_client_id_is_refused(server: MqttServer) -> None:
    """MQTT 3.1 §3.1: at least one character; return code 2."""
    with Raw(server, 3) as client:
        assert client.connect("").code == 2
        client.wait_closed()


@pytest.mark.parametrize("client_id", ["x", "abcdefghijklmnopqrstuvw", "0" * 200, "a/b c+d#é☃", "..::*"])
@pytest.mark.parametrize("version", [4, 5])
def test_client_ids(server: MqttServer, name: str, version: int, client_id: str) -> None:
    """[MQTT-3.1.3-5]: 1 to 23 letters and digits must work; any other does too, and keeps its session apart."""
    mine = f"{name}{client_id}"
    with kept(server, mine, version=version) as client:
        client.subscribe(name, options=1)
        client.disconnect()
    with opened(server, version=version) as publisher:
        publisher.publish(name, b"m", 1)
    with kept(server, mine, version=version) as again:
        assert again.receive_all(1) == [b"m"]
        again.unsubscribe(name)


def test_normal_disconnect_closes_from_the_server_side(server: MqttServer, name: str) -> None:
    """MQTT 5.0 §3.14.4: the server closes too when the client does not."""
    with opened(server, f"c-{name}") as client:
        client.send(b"\xe0\x00")
        with pytest.raises(Closed):
            client.read()


def test_server_says_nothing_after_a_version_3_disconnect(server: MqttServer, name: str) -> None:
    """A DISCONNECT of the server exists in version 5 alone."""
    with opened(server, f"c-{name}", version=4) as first, opened(server, f"c-{name}", version=4):
        assert first.wait_closed() is None
