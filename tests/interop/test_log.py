"""The log of a real broker, while clients have hostile names and do what they may not, as fast as they can."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from proton import ConnectionException

from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.mqtt import packets
from tests.interop.mqtt.raw import Raw
from tests.interop.mqtt.server import MqttServer
from tests.interop.proton.client import Client, Refused

SECURITY: Final = """
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="people"/>
    <permission type="consume" roles="people"/>
  </security-setting>
</security-settings>
"""

# MQTT forbids control characters in texts, or lets a server refuse them; C1's and those that turn the direction come
# through, and AMQP takes anything.
FORGED: Final = "x\n2026-01-01 00:00:00,000 INFO artemis_py.broker: broker stopped: name=interop"
TERMINAL: Final = "\x1b]0;owned\x07\x1b[2J\x9b31m"
BACKWARDS: Final = "\u202egpj.exe\u2028\u200b\x85"
HOSTILE: Final = FORGED + TERMINAL + BACKWARDS

REFUSED: Final = 5000
LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ artemis_\w+[.\w]*: ")
LEFT_OUT: Final = re.compile(r"(\d+) more lines were left out, from \d+ sources: (.*)")


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    """With users, so that there are things that one may not do."""
    instance = Instance(core=SECURITY, users="alice = secret", roles="people = alice")
    return start_broker(instance, tmp_path / "broker")


class MqttSide(MqttServer):
    """The MQTT side of it."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker.directory)
        self.port = broker.port


def with_mqtt(broker: BrokerProcess) -> None:
    """Publish what is refused, in the thousands, from a client with the longest name; subscribe under hostile ones."""
    client_id = (BACKWARDS + "\x9b31m" + "c" * 65_535)[:60_000]
    with Raw(MqttSide(broker)) as client:
        client.send(packets.connect(5, client_id, True, 0, [], None, "alice", "secret"))
        assert client.read().code == 0
        for number in range(REFUSED):
            client.publish(f"t/{number}", b"m", 0)
        client.subscribe(*(f"{BACKWARDS}/{number}" for number in range(100)))
        client.ping()


def with_amqp(broker: BrokerProcess) -> None:
    """Containers, links, addresses and users with names that would forge a line or move a cursor."""
    with Client(broker.url, HOSTILE, user="alice", password="secret", allowed_mechs="PLAIN") as client:
        for number in range(50):
            with pytest.raises(Refused):
                client.sender(f"{HOSTILE}{number}", name=f"{HOSTILE}{number}")
    for _ in range(3):
        with pytest.raises(ConnectionException):
            Client(broker.url, user=f"eve{HOSTILE}", password="wrong", allowed_mechs="PLAIN")


def test_hostile_names_are_escaped_cut_and_counted(broker: BrokerProcess) -> None:
    """One line for each event, nothing that a terminal would obey, and a size that the clients do not decide."""
    try:
        with_mqtt(broker)
        with_amqp(broker)
    finally:
        broker.stop()
    text = broker.log.read_bytes().decode("utf-8")
    lines = text.split("\n")[:-1]

    assert [line for line in lines if not LINE.match(line)] == []
    assert [line for line in lines if not line.isprintable()] == []
    assert sum("broker stopped" in line and line.endswith("name=interop") for line in lines) == 1
    assert len(text) < 200_000
    assert max(map(len, lines)) < 10_000
    refused = sum("message refused: " in line for line in lines)
    left_out: Counter[str] = Counter()
    for found in LEFT_OUT.finditer(text):
        left_out[found[2]] += int(found[1])
    assert refused + left_out["message refused"] == REFUSED
    assert sum("subscription refused: " in line for line in lines) + left_out["subscription refused"] == 100
    assert sum("link refused: " in line for line in lines) + left_out["link refused"] == 50
