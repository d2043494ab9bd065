"""Connections that do not log in keep nobody out: a real broker, and sockets that say nothing or next to nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.interop.broker_process import BrokerProcess, Instance, start_broker

SILENT: Final = 600
"""More than the room there is for strangers."""
TRICKLING: Final = 40
STUCK: Final = 400
LOGINS: Final = 95

# Longer than any run: what lets clients in is the room that strangers make, not the time that they have.
PARAMETERS: Final = "protocols=AMQP,MQTT;handshake-timeout=3600"

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
PASSWORD: Final = b"secret"
_RESPONSE: Final = b"\0alice\0" + PASSWORD
_FIELDS: Final = b"\xa3\x05PLAIN\xa0" + bytes((len(_RESPONSE),)) + _RESPONSE
_INIT: Final = b"\x00\x53\x41\xc0" + bytes((len(_FIELDS) + 1, 2)) + _FIELDS
SASL_INIT: Final = (8 + len(_INIT)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + _INIT
# CONNECT of MQTT 3.1.1 with clean session, name and password; the client identifier is put in.
MQTT_HEAD: Final = b"\x00\x04MQTT\x04\xc2\x00\x3c"


def mqtt_connect(client_id: str) -> bytes:
    """A CONNECT of alice's."""
    fields = [client_id.encode(), b"alice", PASSWORD]
    body = MQTT_HEAD + b"".join(len(each).to_bytes(2, "big") + each for each in fields)
    return bytes((0x10, len(body))) + body


async def log_in_with_mqtt(port: int, number: int) -> bool:
    """Whether CONNACK says yes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(mqtt_connect(f"client-{number}"))
        return await reader.readexactly(4) == b"\x20\x02\x00\x00"
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    finally:
        writer.close()


async def log_in_with_amqp(port: int) -> bool:
    """Whether the SASL outcome is OK and an AMQP header follows ours."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(SASL_HEADER)
        assert await reader.readexactly(8) == SASL_HEADER
        await _frame(reader)
        writer.write(SASL_INIT)
        outcome = await _frame(reader)
        if b"\x00\x53\x44" not in outcome or b"\x50\x00" not in outcome:
            return False
        writer.write(AMQP_HEADER)
        return await reader.readexactly(8) == AMQP_HEADER
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    finally:
        writer.close()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size - 4)


async def trickle(writer: asyncio.StreamWriter, data: bytes) -> None:
    """One byte a second, for as long as anybody listens."""
    try:
        for offset in range(len(data)):
            writer.write(data[offset : offset + 1])
            await writer.drain()
            await asyncio.sleep(1)
    except ConnectionError:
        pass


@asynccontextmanager
async def strangers(port: int) -> AsyncIterator[None]:
    """All kinds of them, more than there is room for, from the address of the real clients."""
    writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(SILENT + STUCK + TRICKLING)]
    for writer in writers[SILENT : SILENT + STUCK]:
        writer.write(SASL_HEADER)
    connect = mqtt_connect("trickle" * 10)
    tasks = [asyncio.create_task(trickle(writer, connect)) for writer in writers[SILENT + STUCK :]]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.close()


async def logins(port: int) -> list[bool]:
    """All at once, half of them in either protocol."""
    clients = [log_in_with_mqtt(port, n) if n % 2 else log_in_with_amqp(port) for n in range(LOGINS)]
    return await asyncio.gather(*clients)


async def besieged(broker: BrokerProcess) -> list[bool]:
    """Which of the real clients got in while strangers hold all the room there is."""
    async with strangers(broker.port):
        return await logins(broker.port)


def test_silent_connections_keep_no_client_out(tmp_path: Path) -> None:
    """600 that say nothing, 400 that stop after the protocol header, 40 that trickle: all 95 logins get in."""
    broker = start_broker(
        Instance(
            core="<security-enabled>true</security-enabled>",
            parameters=PARAMETERS,
            users="alice = secret",
            roles="people = alice",
        ),
        tmp_path / "broker",
    )
    try:
        admitted = asyncio.run(besieged(broker))

        assert admitted.count(True) == LOGINS
        assert "stranger displaced: peer=127.0.0.1:" in broker.log_text()
    finally:
        broker.stop()
