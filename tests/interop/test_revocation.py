"""Users and roles that are taken away from clients that are connected: a real broker, its files, real connections."""

from pathlib import Path
from typing import Any, Final

import pytest
from proton.utils import ConnectionClosed

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.mqtt.packets import Property, Will
from tests.interop.mqtt.raw import Closed, Raw, opened
from tests.interop.mqtt.server import MqttServer
from tests.interop.proton.client import Client, Refused
from tests.interop.proton.test_connection import refused_late

NOT_AUTHORIZED: Final = 0x87
DENIED: Final = "amqp:unauthorized-access"
DISCONNECT: Final = 14

SECURITY: Final = """
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="reader,writer,admin"/>
    <permission type="createDurableQueue" roles="reader,writer,admin"/>
    <permission type="createNonDurableQueue" roles="reader,writer,admin"/>
    <permission type="deleteDurableQueue" roles="admin"/>
    <permission type="deleteNonDurableQueue" roles="admin"/>
    <permission type="consume" roles="reader,admin"/>
    <permission type="send" roles="writer,admin"/>
  </security-setting>
  <security-setting match="secret.#">
    <permission type="createAddress" roles="admin"/>
    <permission type="consume" roles="insider,admin"/>
    <permission type="send" roles="admin"/>
  </security-setting>
</security-settings>
"""
USERS: Final = "".join(f"{user} = {user}-pass\n" for user in ("admin", "alice", "bob", "carol"))
ROLES: Final = "admin = admin\nreader = alice,bob,carol\nwriter = alice,bob\ninsider = carol\n"
LASTS: Final = [(Property.SESSION_EXPIRY, 3600)]


class MqttSide(MqttServer):
    """The MQTT side of a broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker.directory)
        self.port = broker.port


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    """A broker with users; it ends in order, and without complaints."""
    instance = Instance(core=SECURITY, users=USERS, roles=ROLES)
    process = start_broker(instance, tmp_path / "broker")
    yield process
    process.stop()


def mqtt(broker: BrokerProcess, user: str, version: int = 5, **options: Any) -> Raw:
    """A connection of a user."""
    return opened(MqttSide(broker), version=version, user=user, password=f"{user}-pass", **options)


def amqp(broker: BrokerProcess, user: str) -> Client:
    """A connection of a user."""
    return Client(broker.url, user=user, password=f"{user}-pass", allowed_mechs="PLAIN")


def write(broker: BrokerProcess, **texts: str) -> None:
    """Change the files `users` or `roles`, or both."""
    for name, text in texts.items():
        (broker.directory / "etc" / f"artemis-{name}.properties").write_text(text, encoding="utf-8")


def change(broker: BrokerProcess, **texts: str) -> None:
    """Change files, and do not wait until the broker looks at them by itself."""
    write(broker, **texts)
    broker.reload()


def said_goodbye(client: Raw) -> int:
    """Wait for the end; the reason code of DISCONNECT. Version 3 has none: 0."""
    last = client.wait_closed()
    return last.code if last is not None and last.kind == DISCONNECT else 0


@pytest.mark.parametrize("how", ["removed", "other password"])
def test_connections_of_a_user_that_is_gone_end(broker: BrokerProcess, how: str) -> None:
    """Each protocol has its words; the will of a user that may do nothing is not published, and nobody else notices."""
    users = USERS.replace("alice = alice-pass\n", "" if how == "removed" else "alice = other\n")
    with mqtt(broker, "admin") as admin, amqp(broker, "bob") as bob:
        admin.subscribe("will/#")
        five = mqtt(broker, "alice", will=Will(topic="will/alice", payload=b"last words"))
        three = mqtt(broker, "alice", 4)
        client = amqp(broker, "alice")
        change(broker, users=users, roles=ROLES.replace("alice,", "") if how == "removed" else ROLES)

        assert said_goodbye(five) == NOT_AUTHORIZED
        assert said_goodbye(three) == 0
        with pytest.raises(ConnectionClosed) as closed:
            refused_late(client)
        assert closed.value.condition == DENIED
        assert "alice" in str(closed.value)
        bob.send("q", "still here")
        admin.publish("will/admin", b"end", 1)
        # With another password the user has its rights as before, and its client is gone.
        assert admin.receive_all(2 if how == "other password" else 1)[-1] == b"end"
        assert ("will not published" in broker.log_text()) == (how == "removed")


def test_links_that_are_no_longer_allowed_are_detached(broker: BrokerProcess) -> None:
    """A receiver goes with the role, a sender that needs another one stays; relayed messages are checked again."""
    with amqp(broker, "bob") as bob, amqp(broker, "admin") as admin:
        receiver, sender, relay = bob.receiver("q"), bob.sender("q"), bob.sender(None)
        receiver.flow(10)
        change(broker, roles=ROLES.replace("reader = alice,bob,carol", "reader = alice,carol"))
        with pytest.raises(Refused) as refused:
            receiver.receive()
        sender.send("from bob")

        assert refused.value.condition == DENIED
        assert admin.bodies("q") == ["from bob"]
        change(broker, roles=ROLES.replace("bob", "alice"))
        bob.wait(lambda: bool(sender.link.remote_condition), "a detach")
        assert sender.link.remote_condition.name == DENIED
        assert relay.link.remote_condition is None


def test_mqtt_follows_the_roles(broker: BrokerProcess) -> None:
    """What was allowed once for a topic or behind a wildcard is asked again; a lost filter ends the connection, and its
    messages wait until the right is back."""
    with mqtt(broker, "admin") as admin:
        bob = mqtt(broker, "bob", client_id="bob", clean=False, given=LASTS)
        carol = mqtt(broker, "carol")
        bob.subscribe("t", options=1)
        carol.subscribe("#", options=1)
        admin.publish("secret/a", b"for insiders", 1)
        assert carol.receive_all(1) == [b"for insiders"]
        bob.publish("t/carol", b"from bob", 1)
        assert carol.receive_all(1) == [b"from bob"]

        change(broker, roles="admin = admin\nreader = alice,carol\nwriter = alice\n")
        assert said_goodbye(bob) == NOT_AUTHORIZED
        admin.publish("secret/a", b"not for everybody", 1)
        admin.publish("t", b"for bob", 1)
        admin.publish("end", b"end", 1)
        assert carol.receive_all(2) == [b"for bob", b"end"]

        with mqtt(broker, "bob", client_id="bob", clean=False, given=LASTS) as resting:
            assert resting.connack.session_present
            assert resting.waiting() == []
            change(broker, roles=ROLES)
            assert resting.receive_all(1) == [b"for bob"]


def test_a_topic_that_was_published_to_is_checked_again(broker: BrokerProcess) -> None:
    """3.1.1 is disconnected for what it may not publish. The broker finds the changed file without being told."""
    with mqtt(broker, "bob", 4) as bob, amqp(broker, "bob") as watch:
        bob.publish("t", b"allowed", 1)
        sender = watch.sender("q")
        write(broker, roles=ROLES.replace("writer = alice,bob", "writer = alice"))
        watch.wait(lambda: bool(sender.link.remote_condition), "the roles in force")
        with pytest.raises(Closed):
            bob.publish("t", b"not any more", 1)
