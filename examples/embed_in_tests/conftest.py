"""A broker for tests: in this process, on a free port, without files.

The broker lives on an asyncio loop. Tests that are coroutines can use `async with Broker()` themselves; for blocking
clients, as here, the loop runs in a thread.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from threading import Thread

import pytest

from artemis_py.broker import Broker


async def run_broker(url: Future[str], stop: Future[None]) -> None:
    """Serve until `stop` is done."""
    async with Broker() as broker:
        url.set_result(broker.url("amqp"))
        await asyncio.wrap_future(stop)


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """The URL of a broker that all tests of the session share."""
    url: Future[str] = Future()
    stop: Future[None] = Future()
    thread = Thread(target=asyncio.run, args=(run_broker(url, stop),))
    thread.start()
    yield url.result(timeout=10)
    stop.set_result(None)
    thread.join()
