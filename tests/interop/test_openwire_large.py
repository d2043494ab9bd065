"""A large message of OpenWire against a real broker: what counts is the memory that the process ever had."""

import os
from pathlib import Path

from artemis_openwire.engine.structures import ActiveMQQueue
from benchmarks.large import peak_bytes
from tests.interop.broker_process import Instance, start_broker
from tests.interop.openwire_client import OpenWireClient

QUEUE = ActiveMQQueue(physical_name="large")
SIZE = 96 << 20


def test_a_message_of_96_mib_passes_through_little_memory(tmp_path: Path) -> None:
    """It is neither whole in memory nor in the output of a connection."""
    broker = start_broker(Instance(persistence="true", parameters="protocols=OPENWIRE"), tmp_path)
    try:
        idle = peak_bytes(broker.process.pid)
        content = os.urandom(1 << 20) * (SIZE >> 20)
        with OpenWireClient(broker.host, broker.port) as client:
            client.send(QUEUE, content)
            sent = peak_bytes(broker.process.pid) - idle
            client.consume(QUEUE)
            message = client.receive()
        grown = peak_bytes(broker.process.pid) - idle
    finally:
        broker.stop()

    assert message.content == content
    assert grown < 24 << 20, f"{sent >> 20} MiB to take it, {grown >> 20} MiB in all"
