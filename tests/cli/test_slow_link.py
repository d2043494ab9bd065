"""Commands over a link with 250 ms in each direction, through a proxy between command and broker."""

import asyncio
import threading

import pytest

from tests.cli.conftest import run_command
from tests.interop.broker_process import BrokerProcess

DELAY_S = 0.25


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass octets on, each DELAY_S after it came, however many are on their way."""
    loop = asyncio.get_running_loop()
    try:
        while data := await reader.read(65536):
            loop.call_later(DELAY_S, writer.write, data)
    except ConnectionError:
        pass
    loop.call_later(DELAY_S, writer.close)


async def _proxy(port: int, ports: list[int], started: threading.Event) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        await server.serve_forever()


@pytest.fixture(scope="module")
def far_url(broker_process: BrokerProcess) -> str:
    """The URL of the broker behind the slow link."""
    ports: list[int] = []
    started = threading.Event()
    # A daemon: it ends with the tests.
    work = _proxy(broker_process.port, ports, started)
    threading.Thread(target=asyncio.run, args=(work,), daemon=True).start()
    assert started.wait(10)
    return f"amqp://127.0.0.1:{ports[0]}"


def test_a_request_is_answered_however_long_the_connection_took_to_open(far_url: str) -> None:
    """Each wait has its own time: together they take five times as long as the time-out."""
    outcome = run_command("queue", "stat", "--timeout", "0.8", "--json", "--url", far_url)

    assert outcome.code == 0, outcome.err


def test_a_timeout_that_is_too_short_for_the_link_is_told(far_url: str) -> None:
    outcome = run_command("queue", "stat", "--timeout", "0.2", "--url", far_url)

    assert (outcome.code, outcome.out) == (3, "")
    assert "no answer within 0.2 s; --timeout allows more" in outcome.err
