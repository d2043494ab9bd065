"""Who may come in and what they may do (MQTT 5.0 §4.13, §5.4; artemis-model §4.2.3, §4.2.4, §4.2.7)."""

from typing import Final

import pytest

from tests.interop.mqtt import packets
from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.packets import Will
from tests.interop.mqtt.raw import Closed, Raw, opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttInstance, MqttServer, unlike_mosquitto

NOT_AUTHORIZED: Final = 0x87

SECURITY: Final = """
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="admin,alice,bob"/>
    <permission type="createDurableQueue" roles="admin"/>
    <permission type="createNonDurableQueue" roles="admin"/>
    <permission type="deleteDurableQueue" roles="admin"/>
    <permission type="deleteNonDurableQueue" roles="admin"/>
    <permission type="send" roles="admin"/>
    <permission type="consume" roles="admin"/>
  </security-setting>
  <security-setting match="read.#">
    <permission type="createAddress" roles="admin,alice,bob"/>
    <permission type="createDurableQueue" roles="admin,alice"/>
    <permission type="createNonDurableQueue" roles="admin,alice"/>
    <permission type="deleteDurableQueue" roles="admin,alice"/>
    <permission type="deleteNonDurableQueue" roles="admin,alice"/>
    <permission type="send" roles="admin"/>
    <permission type="consume" roles="admin,alice"/>
  </security-setting>
  <security-setting match="write.#">
    <permission type="createAddress" roles="admin,alice,bob"/>
    <permission type="createDurableQueue" roles="admin"/>
    <permission type="createNonDurableQueue" roles="admin"/>
    <permission type="deleteDurableQueue" roles="admin"/>
    <permission type="deleteNonDurableQueue" roles="admin"/>
    <permission type="send" roles="admin,alice"/>
    <permission type="consume" roles="admin"/>
  </security-setting>
</security-settings>
"""
RULES: Final = """user admin
topic readwrite #
user alice
topic read read/#
topic write write/#
"""
USERS: Final = {user: f"{user}-pass" for user in ("admin", "alice", "bob")}


@pytest.fixture(scope="module")
def secure(serve: StartServer) -> MqttServer:
    """Alice may read below `read` and write below `write`, bob nothing, the administrator everything."""
    return serve(MqttInstance(users=USERS, security=SECURITY, rules=RULES))


def login(server: MqttServer, user: str, version: int = 5, will: Will | None = None) -> Raw:
    """A connection of a user."""
    return opened(server, version=version, user=user, password=f"{user}-pass", will=will)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_right_password_lets_in(secure: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.4-5]."""
    with login(secure, "admin", version) as client:
        client.subscribe(name)
        client.publish(name, b"m")

        assert client.receive().payload == b"m"


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("user", "password"), [("admin", "wrong"), ("nobody", "admin-pass"), ("admin", ""), ("admin", None)]
)
def test_wrong_credentials_are_refused(
    secure: MqttServer, name: str, version: int, user: str | None, password: str | None
) -> None:
    """[MQTT-3.1.4-2] [MQTT-3.2.2-7]: 0x86 or 0x87, return code 4 or 5; the same for unknown users."""
    with Raw(secure, version) as client:
        connack = client.connect(f"c-{name}", user=user, password=password)

        assert connack.code in ((0x86, 0x87) if version == 5 else (4, 5))
        assert client.wait_closed() is None


@pytest.mark.parametrize("version", [3, 4, 5])
def test_nobody_may_do_nothing(secure: MqttServer, name: str, version: int) -> None:
    """[MQTT-3.1.4-2]: without a name not let in, or (from this machine, as AMQP's ANONYMOUS) without permissions."""
    with Raw(secure, version) as nobody, login(secure, "admin") as admin:
        if nobody.connect(f"c-{name}").code:
            nobody.wait_closed()
            return
        admin.subscribe("write/#")
        nobody.send(packets.subscribe(version, 1, [("read/a", 0)]))
        nobody.send(packets.publish(version, "write/a", b"no"))
        nobody.wait_closed_or(packets.SUBACK)
        admin.publish("read/a", b"no", 1)
        admin.publish("write/a", b"end", 1)

        assert admin.receive_all(1) == [b"end"]
        try:
            heard = nobody.waiting()
        except Closed:
            heard = []
        assert heard == []


@pytest.mark.parametrize("version", [4, 5])
def test_filter_without_permission_is_refused_alone(secure: MqttServer, version: int) -> None:
    """[MQTT-3.9.3-2] [MQTT-3.8.4-7] [MQTT-3.1.1/3.9.3-2]: 0x87 or 0x80 in its place; the other filter works."""
    if IS_MOSQUITTO:
        pytest.skip("mosquitto 2.0.11 checks at delivery")
    with login(secure, "alice", version) as alice, login(secure, "admin") as admin:
        assert alice.subscribe("read/a", "secret/a") == (0, NOT_AUTHORIZED if version == 5 else 0x80)
        admin.publish("secret/a", b"no", 1)
        admin.publish("read/a", b"yes", 1)

        assert alice.receive_all(1) == [b"yes"]


@pytest.mark.parametrize("pattern", ["#", "+/a", "secret/#", "$share/g/secret/a", "$share/g/#", "+/+", "secret/+"])
def test_wildcards_and_shares_do_not_reach_around_permissions(secure: MqttServer, pattern: str) -> None:
    """MQTT 5.0 §5.4: whatever the filter is called, nothing arrives that its user may not read."""
    with login(secure, "alice") as alice, login(secure, "admin") as admin:
        alice.subscribe(pattern)
        admin.publish("secret/a", b"no", 1)

        assert alice.waiting() == []


def test_names_of_queues_are_no_way_around_permissions(secure: MqttServer) -> None:
    """The address model's `address::queue` in a topic or a filter."""
    with login(secure, "admin") as admin:
        admin.subscribe("secret/q", options=1)
        with login(secure, "bob") as bob:
            for topic in ("secret::secret", "secret.q::x", "secret/q::x"):
                code = bob.subscribe(topic)[0]
                assert IS_MOSQUITTO or code >= 0x80
                if not IS_MOSQUITTO:
                    assert bob.publish(topic, b"no", 1) >= 0x80

            assert admin.waiting() == []


@unlike_mosquitto("closes after the next packet")
@pytest.mark.parametrize("qos", [1, 2])
def test_publish_without_permission_is_answered(secure: MqttServer, qos: int) -> None:
    """MQTT 5.0 §3.4.2.1, §3.5.2.1: 0x87; the connection and its packet id live on."""
    with login(secure, "alice") as alice, login(secure, "admin") as admin:
        admin.subscribe("#")
        assert alice.publish("read/a", b"no", qos) == NOT_AUTHORIZED
        assert alice.publish("write/a", b"yes", qos) == 0

        assert admin.receive_all(1) == [b"yes"]


@unlike_mosquitto("closes after the next packet")
def test_refused_qos_2_publish_frees_its_packet_id(secure: MqttServer) -> None:
    """[MQTT-4.3.3-9]: the next PUBLISH with the same id is a new message."""
    with login(secure, "alice") as alice, login(secure, "admin") as admin:
        admin.subscribe("#", options=2)
        alice.send(packets.publish(5, "read/a", b"no", 2, 5))
        assert alice.expect(packets.PUBREC).code == NOT_AUTHORIZED
        alice.send(packets.publish(5, "write/a", b"yes", 2, 5))
        assert alice.expect(packets.PUBREC).code < 0x80
        alice.send(packets.answer(packets.PUBREL, 5))
        alice.expect(packets.PUBCOMP)

        assert admin.receive_all(1) == [b"yes"]


@unlike_mosquitto("closes after the next packet")
def test_qos_0_publish_without_permission_is_dropped(secure: MqttServer) -> None:
    """MQTT 5.0 §4.3.1: there is no answer; nothing arrives."""
    with login(secure, "alice") as alice, login(secure, "admin") as admin:
        admin.subscribe("#")
        alice.publish("read/a", b"no")
        alice.publish("write/a", b"yes", 1)

        assert admin.receive_all(1) == [b"yes"]


@pytest.mark.parametrize("version", [3, 4])
def test_publish_without_permission_in_version_3_arrives_nowhere(secure: MqttServer, version: int) -> None:
    """[MQTT-3.1.1/3.3.5-2]: version 3 has no word for it: acknowledged as usual, or closed."""
    with login(secure, "alice", version) as alice, login(secure, "admin") as admin:
        admin.subscribe("#")
        alice.send(packets.publish(version, "read/a", b"no", 1, 1))
        answer = alice.wait_closed_or(packets.PUBACK)
        admin.publish("end", b"end", 1)

        assert answer is None or answer.packet_id == 1
        assert admin.receive_all(1) == [b"end"]


def test_retained_messages_are_not_read_without_permission(secure: MqttServer, name: str) -> None:
    """Neither by their topic nor by a wildcard."""
    with login(secure, "admin") as admin, login(secure, "bob") as bob:
        admin.publish(f"secret/{name}", b"no", 1, retain=True)
        bob.subscribe(f"secret/{name}")
        bob.subscribe("#")

        assert bob.waiting() == []
        admin.publish(f"secret/{name}", b"", 1, retain=True)


def test_retained_messages_are_not_written_without_permission(secure: MqttServer) -> None:
    """A refused PUBLISH leaves nothing behind."""
    with login(secure, "admin") as admin, login(secure, "bob") as bob:
        bob.publish("write/kept", b"no", 1, retain=True)
        admin.subscribe("write/kept")

        assert admin.waiting() == []


def test_will_without_permission_is_not_published(secure: MqttServer) -> None:
    """MQTT 5.0 §3.1.2.5: refused at CONNECT, or dropped when it would go out."""
    with login(secure, "admin") as admin:
        admin.subscribe("#")
        with Raw(secure) as client:
            connack = client.connect(user="alice", password="alice-pass", will=Will(topic="read/a"))
            assert connack.code in (0, NOT_AUTHORIZED)
        # A will that is allowed goes out behind it.
        login(secure, "alice", will=Will(topic="write/a", payload=b"end")).drop()

        assert admin.receive_all(1) == [b"end"]


@unlike_mosquitto("lets a client id belong to anybody")
@pytest.mark.parametrize(("version", "code"), [(3, 5), (4, 5), (5, NOT_AUTHORIZED)])
def test_session_belongs_to_its_user(serve: StartServer, name: str, version: int, code: int) -> None:
    """MQTT 5.0 §5.4: another user neither gets a session by its client id nor ends it, connected or not, nor after a
    restart.
    """
    secure = serve(MqttInstance(users=USERS, security=SECURITY, rules=RULES, persistent=True))
    session = [(packets.Property.SESSION_EXPIRY, 3600)]
    client_id = f"c-{name}"[:20]

    def stolen() -> int:
        with Raw(secure, version) as thief:
            given = session if version == 5 else []
            thief.send(packets.connect(version, client_id, False, 0, given, None, "bob", "bob-pass"))
            return thief.read().code

    with opened(secure, client_id, clean=False, user="alice", password="alice-pass", given=session) as alice:
        alice.subscribe("read/a", options=1)
        assert stolen() == code
        alice.ping()
        alice.disconnect()
    with login(secure, "admin") as admin:
        admin.publish("read/a", b"for alice", 1)
    assert stolen() == code
    secure.kill()
    secure.run()
    assert stolen() == code
    with opened(secure, client_id, clean=False, user="alice", password="alice-pass", given=session) as alice:
        assert alice.connack.session_present
        assert alice.receive().payload == b"for alice"


@unlike_mosquitto("has no permission for it")
@pytest.mark.parametrize("version", [4, 5])
def test_unsubscribe_needs_a_permission(serve: StartServer, name: str, version: int) -> None:
    """What is acknowledged to a durable subscription is not deleted by a client that may not delete its queue: not by
    UNSUBSCRIBE, and not by a clean start."""
    security = SECURITY.replace(
        'type="deleteDurableQueue" roles="admin,alice"', 'type="deleteDurableQueue" roles="admin"'
    )
    secure = serve(MqttInstance(users=USERS, security=security))
    with Raw(secure, version) as alice, login(secure, "admin") as admin:
        given = [(packets.Property.SESSION_EXPIRY, 3600)] if version == 5 else []
        alice.connect("alice", False, 0, given, None, "alice", "alice-pass")
        alice.subscribe("read/a", options=1)
        codes = alice.unsubscribe("read/a")
        admin.publish("read/a", b"still", 1)

        assert codes == ((NOT_AUTHORIZED,) if version == 5 else ())
        assert alice.receive().payload == b"still"
    with Raw(secure, version) as again:
        refused = again.connect("alice", True, 0, [], None, "alice", "alice-pass")
        assert refused.code == (NOT_AUTHORIZED if version == 5 else 5)
