"""Runs a broker as the only task of a process: SIGTERM and SIGINT end it, on SIGHUP it reads its files again.

With `configuration-file-refresh-period` it also does that when broker.xml has changed.
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from artemis_py.broker import Broker
from artemis_py.config import BrokerConfig
from artemis_py.deployment.file_watch import FileWatch
from artemis_py.deployment.reload import Reloader, Watching
from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)

# A process that serves a network allows for the round trips of a slow link (Artemis: shutdownTimeout, 3 s).
GOODBYE_S: Final = 3.0


async def serve(
    source: Callable[[], BrokerConfig], ready: Callable[[Broker], None] | None = None, file: Path | None = None
) -> None:
    """Run a broker until SIGTERM or SIGINT; a second signal ends the wait for clients that are still connected.

    `source` reads the configuration: at once, and again in a thread for each SIGHUP. One that arrives during the start
    takes effect after it. It is also read again when `file` has changed, as `configuration-file-refresh-period` says.
    `ready` is called when all acceptors listen. Before that, ConfigError or StoreError may be raised.
    """
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()
    # Made before the file is read, so that a change during the reading is noticed.
    watched = None if file is None else FileWatch(file)
    config = source()
    broker = Broker(config)
    watching = None if watched is None else Watching(watched, lambda: refresh_period_s(broker.deployment.config))
    reloader = Reloader(source, broker.reload, watching, broker.reload_refused)

    def receive(name: str) -> None:
        LOGGER.info("signal received: name=%s", name)
        if signalled.is_set():
            broker.hurry()
        signalled.set()

    def reload() -> None:
        LOGGER.info("signal received: name=%s", signal.SIGHUP.name)
        reloader.request()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive, number.name)
    loop.add_signal_handler(signal.SIGHUP, reload)
    reloading: asyncio.Task[None] | None = None
    try:
        await broker.start()
        if not config.persistence_enabled:
            LOGGER.warning("messages are kept in memory: those that are still queued when the broker stops are lost")
        if ready is not None:
            ready(broker)
        reloading = loop.create_task(reloader.run())
        await signalled.wait()
        # A broker that stops follows nothing any more.
        reloading.cancel()
        await broker.stop(goodbye_s=GOODBYE_S)
    finally:
        if reloading is not None:
            reloading.cancel()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)


def refresh_period_s(config: BrokerConfig) -> float | None:
    """Return the seconds between two looks at the file of a configuration; None: it is not watched."""
    period_ms = config.configuration_file_refresh_period_ms
    return period_ms / 1000 if period_ms > 0 else None
