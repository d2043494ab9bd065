"""Brokers for the real clients: one for the whole run, and one per module that needs its own configuration."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import pytest

from tests.interop.broker_process import BrokerProcess, Instance, start_broker

COUNTER: Final = count(1)

SETTINGS: Final = """
<address-setting match="topic.#">
  <default-address-routing-type>MULTICAST</default-address-routing-type>
  <default-queue-routing-type>MULTICAST</default-queue-routing-type>
</address-setting>
<address-setting match="attempts3.#"><max-delivery-attempts>3</max-delivery-attempts></address-setting>
<address-setting match="unlimited.#"><max-delivery-attempts>-1</max-delivery-attempts></address-setting>
<address-setting match="delayed.#">
  <redelivery-delay>100</redelivery-delay>
  <max-redelivery-delay>100</max-redelivery-delay>
</address-setting>
<address-setting match="own.#">
  <auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>
  <auto-create-expiry-resources>true</auto-create-expiry-resources>
  <dead-letter-address>own-dead</dead-letter-address>
  <expiry-address>own-expired</expiry-address>
</address-setting>
<address-setting match="strict.#">
  <auto-create-queues>false</auto-create-queues>
  <auto-create-addresses>false</auto-create-addresses>
</address-setting>
<address-setting match="full.fail.#">
  <max-size-messages>3</max-size-messages>
  <address-full-policy>FAIL</address-full-policy>
</address-setting>
<address-setting match="full.drop.#">
  <max-size-messages>3</max-size-messages>
  <address-full-policy>DROP</address-full-policy>
</address-setting>
<address-setting match="full.block.#">
  <max-size-messages>3</max-size-messages>
  <address-full-policy>BLOCK</address-full-policy>
</address-setting>
<address-setting match="noroute.#"><send-to-dla-on-no-route>true</send-to-dla-on-no-route></address-setting>
"""

ADDRESSES: Final = """
<address name="strict.queue"><anycast><queue name="strict.queue"/></anycast></address>
<address name="strict.topic"><multicast/></address>
<address name="limited.one"><anycast><queue name="limited.one" max-consumers="1"/></anycast></address>
<address name="pair"><anycast><queue name="pair.left"/><queue name="pair.right"/></anycast></address>
<address name="both.static"><anycast><queue name="both.static"/></anycast><multicast/></address>
<address name="filtered">
  <multicast><queue name="filtered.red"><filter string="colour = 'red'"/></queue></multicast>
</address>
<address name="exclusive"><anycast><queue name="exclusive" exclusive="true"/></anycast></address>
<address name="noroute.topic"><multicast/></address>
"""

StartBroker = Callable[[Instance], BrokerProcess]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker most tests share: tests keep apart by address names (fixture `name`)."""
    instance = Instance(addresses=ADDRESSES, settings=SETTINGS)
    process = start_broker(instance, tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Start brokers with a configuration of the module's own; they stop, and must stop cleanly, after it."""
    running: list[BrokerProcess] = []

    def start_one(instance: Instance) -> BrokerProcess:
        process = start_broker(instance, tmp_path_factory.mktemp("broker"))
        running.append(process)
        return process

    yield start_one
    for process in running:
        if process.process.poll() is None:
            process.stop()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address name that no other test uses, without delimiters, wildcards or odd characters."""
    node: str = request.node.name
    return re.sub(r"[^a-z0-9]+", "-", node.removeprefix("test_").lower()).strip("-") + f"-{next(COUNTER)}"
