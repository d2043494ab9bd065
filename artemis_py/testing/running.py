"""A broker in a thread of its own, for one test or for a whole session."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.config.reader import load, parse
from artemis_py.testing.clock import Clock
from artemis_py.testing.faults import Faults
from artemis_py.testing.network import Network, Relay
from artemis_py.testing.queues import TestQueue

T = TypeVar("T")

PATIENCE_S: Final = 30.0
"""How long to wait for the broker's thread: for its start, its stop, and for what a test asks it."""
_HOST: Final = "127.0.0.1"
_SETTLE_ROUNDS: Final = 10_000
"""Turns of the loop in which everything that a move of the clock made due must be done."""


class RunningBroker:
    """A broker that runs in a thread; made by `running_broker`. All methods may be called from any other thread."""

    def __init__(self, config: BrokerConfig, seed: int | None) -> None:
        self._config = config
        self._seed: Final = seed
        self._loop: Final = asyncio.new_event_loop()
        self._relay: Final = Relay()
        self._broker: Broker | None = None
        self._thread: Final = threading.Thread(target=self._serve, name="artemis-py-testing", daemon=True)
        self.clock = Clock(self._advance)
        """The broker's clock, which a test can move."""
        self.faults: Final = Faults(self._ask)
        """Faults of the broker and its disk."""
        self.network: Final = Network(self._run, self._relay, self.url)
        """A network that fails on demand."""

    # -- life ------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self) -> None:
        """Start. Raises ConfigError or StoreError."""
        self._thread.start()
        self._run(self._start())

    def stop(self) -> None:
        """Stop, and end the thread. Safe to repeat."""
        if not self._thread.is_alive():
            return
        try:
            self._run(self._relay.close())
            self._run(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)
            if not self._thread.is_alive():
                self._loop.close()

    def restart(self) -> None:
        """Stop and start again, on the same ports. What is durable is kept if the broker has a store."""
        self._run(self._stop())
        self._run(self._start())

    def reset(self) -> None:
        """Begin again with nothing: no connections, messages, queues but those of the configuration, and real time.

        The ports stay the same. A store is emptied.
        """
        self._run(self._stop())
        self.clock = Clock(self._advance)
        self._relay.cut()
        if self._config.persistence_enabled:
            self._config = evolve(self._config, home=_new_folder(self._config.home.parent))
        self._run(self._start())

    async def _start(self) -> None:
        broker = Broker(self._config, seed=self._seed, ahead_s=self.clock.ahead_s)
        await broker.start()
        self._broker = broker
        # A restart comes back to the same ports.
        ports = {fact.name: fact.port for fact in broker.acceptor_facts()}
        acceptors = tuple(evolve(each, port=ports.get(each.name, each.port)) for each in self._config.acceptors)
        self._config = evolve(self._config, acceptors=acceptors)

    async def _stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.stop(goodbye_s=0.0)

    # -- what tests need -------------------------------------------------------------------------------------------

    def url(self, scheme: str = "amqp") -> str:
        """Return the URL for clients of a protocol, such as `amqp://127.0.0.1:40123`. Raises LookupError."""
        return str(self._ask(lambda broker: broker.url(scheme)))

    def port(self, scheme: str = "amqp") -> int:
        """Return the port for clients of a protocol. Raises LookupError."""
        return int(self.url(scheme).rpartition(":")[2])

    def queue(self, name: str) -> TestQueue:
        """Return a queue by its name; it need not exist yet."""
        return TestQueue(name, self._ask)

    @property
    def queue_names(self) -> list[str]:
        """Names of all queues."""
        return sorted(self._ask(lambda broker: [str(name) for name in broker.domain.queues]))

    # -- the broker's thread ---------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop, and return its result."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("the broker does not run")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE_S)

    def _ask(self, question: Callable[[Broker], T]) -> T:
        """Call a function in a turn of the broker, and return its result."""

        async def call() -> T:
            if self._broker is None:
                raise RuntimeError("the broker does not run")
            with self._broker.in_turn():
                return question(self._broker)

        return self._run(call())

    def _advance(self, seconds: float) -> None:
        """Move the broker's clocks, and wait until nothing is due."""

        async def wait() -> None:
            broker = self._broker
            if broker is None:
                return
            broker.advance(seconds)
            for _ in range(_SETTLE_ROUNDS):
                with broker.in_turn():
                    is_due = broker.domain.dispatcher.is_due()
                await asyncio.sleep(0)
                if not is_due:
                    return

        self._run(wait())


def _new_folder(parent: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="broker-", dir=parent))


def _config_of(broker_xml: str | Path | None, folder: Path, variables: Mapping[str, str] | None) -> BrokerConfig:
    if broker_xml is None:
        return embedded_config()
    if isinstance(broker_xml, Path):
        return load(broker_xml, variables)
    return parse(broker_xml.encode(), "broker_xml", folder, variables)


@contextmanager
def running_broker(
    broker_xml: str | Path | None = None,
    *,
    persistent: bool | None = None,
    seed: int | None = 1,
    variables: Mapping[str, str] | None = None,
) -> Iterator[RunningBroker]:
    """Run a broker in a thread until the block ends.

    `broker_xml` is the path or the text of a configuration; None: every client may do everything, and addresses and
    queues are created on first use. Whatever it says, the broker listens on free ports of 127.0.0.1 and keeps its
    files in a temporary folder. `persistent` overrides `persistence-enabled`. With a `seed`, random names and delays
    are the same in each run. Raises ConfigError with file and line for a wrong configuration.
    """
    with tempfile.TemporaryDirectory(prefix="artemis-py-testing-", ignore_cleanup_errors=True) as name:
        config = _config_of(broker_xml, Path(name), variables)
        config = evolve(
            config,
            acceptors=tuple(evolve(each, host=_HOST, port=0) for each in config.acceptors),
            persistence_enabled=config.persistence_enabled if persistent is None else persistent,
            home=_new_folder(Path(name)),
            journal_directory="journal",
            large_messages_directory="large-messages",
            paging_directory="paging",
        )
        broker = RunningBroker(config, seed)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
