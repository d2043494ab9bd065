"""What monitoring tools read below `$SYS`."""

from typing import Final

import pytest

from tests.interop.mqtt.conftest import StartServer
from tests.interop.mqtt.raw import opened
from tests.interop.mqtt.server import IS_MOSQUITTO, MqttInstance, MqttServer

ADMIN_READS_SYS: Final = """
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="admin,guest"/>
    <permission type="createNonDurableQueue" roles="admin,guest"/>
    <permission type="deleteNonDurableQueue" roles="admin,guest"/>
    <permission type="createDurableQueue" roles="admin,guest"/>
    <permission type="deleteDurableQueue" roles="admin,guest"/>
    <permission type="send" roles="admin,guest"/>
    <permission type="consume" roles="admin,guest"/>
  </security-setting>
  <security-setting match="$SYS.#">
    <permission type="createAddress" roles="admin"/>
    <permission type="createNonDurableQueue" roles="admin"/>
    <permission type="createDurableQueue" roles="admin"/>
    <permission type="consume" roles="admin"/>
  </security-setting>
</security-settings>
"""
RULES: Final = """user admin
topic readwrite #
topic read $SYS/#
user guest
topic readwrite #
"""
TOPICS: Final = [
    "$SYS/broker/version",
    "$SYS/broker/uptime",
    "$SYS/broker/clients/connected",
    "$SYS/broker/messages/received",
    "$SYS/broker/messages/sent",
    "$SYS/broker/subscriptions/count",
    "$SYS/broker/retained messages/count",
]


@pytest.fixture(scope="module")
def watched(serve: StartServer) -> MqttServer:
    """A server whose administrator may read `$SYS`."""
    users = {"admin": "admin-pass", "guest": "guest-pass"}
    return serve(MqttInstance(users=users, security=ADMIN_READS_SYS, rules=RULES))


@pytest.mark.parametrize("topic", TOPICS)
def test_topics_of_monitoring_tools(watched: MqttServer, topic: str) -> None:
    """The names are mosquitto's, which others took over."""
    with opened(watched, user="admin", password="admin-pass") as client:
        client.subscribe(topic)
        message = client.receive()

        assert message.topic == topic
        assert message.payload


def test_clients_are_counted(watched: MqttServer) -> None:
    """The number comes at once, and again when it has changed."""
    others = [opened(watched, user="guest", password="guest-pass") for _ in range(3)]
    with opened(watched, user="admin", password="admin-pass") as client:
        client.subscribe("$SYS/broker/clients/connected")
        if not IS_MOSQUITTO:
            assert client.receive().payload == b"4"
        for other in others:
            other.disconnect()
        while client.receive().payload != b"1":
            pass


def test_user_without_permission_sees_nothing(watched: MqttServer) -> None:
    """By no filter."""
    with opened(watched, user="guest", password="guest-pass") as guest:
        for pattern in ("$SYS/#", "$SYS/broker/version", "$share/g/$SYS/#", "#", "+/broker/version"):
            guest.subscribe(pattern)
        with opened(watched, user="admin", password="admin-pass") as admin:
            admin.subscribe("$SYS/broker/clients/connected")
            admin.receive()

        assert guest.waiting() == []


def test_wildcards_do_not_match_sys(watched: MqttServer) -> None:
    """[MQTT-4.7.2-1]: neither for the administrator."""
    with opened(watched, user="admin", password="admin-pass") as client:
        client.subscribe("#", "+/broker/version")

        assert client.waiting() == []


def test_clients_cannot_write_there(watched: MqttServer) -> None:
    """MQTT 5.0 §4.7.2: `$` topics are the server's own."""
    with opened(watched, user="admin", password="admin-pass") as admin:
        admin.subscribe("$SYS/broker/version")
        admin.receive()
        with opened(watched, user="guest", password="guest-pass") as guest:
            code = guest.publish("$SYS/broker/version", b"fake", 1)
            assert IS_MOSQUITTO or code >= 0x80

        assert admin.waiting() == []
