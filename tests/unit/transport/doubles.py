"""An event loop and a transport that a test moves by hand: no sockets, and time passes when the test says so."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any

from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.events import Events
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.management.event_log import EventLog
from artemis_py.protocol import ConnectionContext, LoginOutcome, LoginResult, SaslExchange
from artemis_py.store.memory import MemoryStore
from artemis_py.transport.acceptor_context import AcceptorContext
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import ConnectionLimits, Connections
from artemis_py.transport.driver import Driver
from artemis_py.transport.turn import Turn
from tests.core_harness import make_host
from tests.line_protocol import LineConnection, LineProtocolManager

START_MS = 1_700_000_000_000


class PlannedCall:
    """A call of `ManualLoop`."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self._when = when
        self.callback: Callable[[], object] | None = callback

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.callback = None


class ManualLoop:
    """Fulfils `Scheduler`; starts at 0 s."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ready: list[Callable[[], object]] = []
        self.planned: list[PlannedCall] = []

    def time(self) -> float:
        return self.now

    def wall_clock(self) -> float:
        return START_MS / 1000 + self.now

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.ready.append(callback)

    def call_at(self, when: float, callback: Callable[[], object], /) -> PlannedCall:
        call = PlannedCall(when, callback)
        self.planned.append(call)
        return call

    def run_once(self) -> None:
        """One iteration: what is ready now, and not what becomes ready by it."""
        ready, self.ready = self.ready, []
        for callback in ready:
            callback()

    def run(self) -> None:
        """All that is ready."""
        while self.ready:
            self.run_once()

    @property
    def timers(self) -> list[float]:
        """When the timers that are not cancelled go off."""
        return sorted(call.when() for call in self.planned if call.callback is not None)

    def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.now + seconds
        self.run()
        while self.timers and self.timers[0] <= end:
            call = min((call for call in self.planned if call.callback is not None), key=PlannedCall.when)
            self.planned.remove(call)
            self.now = max(self.now, call.when())
            assert call.callback is not None
            call.callback()
            self.run()
        self.now = end


class FakeTransport(asyncio.Transport):
    """A peer that takes `room` bytes, all if that is infinite; what it does not take waits here."""

    def __init__(self, peername: tuple[str, int] = ("127.0.0.1", 40000)) -> None:
        super().__init__({"peername": peername})
        self.driver: Driver | None = None
        self.written: list[bytes] = []
        self.room = inf
        self.waiting_bytes = 0
        self.high = 0
        self.low = 0
        self.is_reading_now = True
        self.is_half_closed = False
        self.is_closed = False
        self.is_aborted = False
        self._is_full = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))
        taken = min(self.room, len(data))
        self.room -= taken
        self.waiting_bytes += len(data) - int(taken)
        if self.waiting_bytes > self.high and not self._is_full:
            self._is_full = True
            assert self.driver is not None
            self.driver.pause_writing()

    def take(self, count: int) -> None:
        """The peer reads `count` bytes of what waits."""
        self.waiting_bytes = max(0, self.waiting_bytes - count)
        if self._is_full and self.waiting_bytes <= self.low:
            self._is_full = False
            assert self.driver is not None
            self.driver.resume_writing()

    @property
    def output(self) -> bytes:
        return b"".join(self.written)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self.high, self.low = high, low

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_half_closed = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class AnyName:
    """Lets everybody in under the name they give, or without one, but "nobody"."""

    def mechanisms(self, context: ConnectionContext) -> list[str]:
        return ["ANONYMOUS"]

    def begin(self, mechanism: str, context: ConnectionContext) -> SaslExchange | None:
        return None

    def login(
        self, user: str | None, password: str | None, context: ConnectionContext, done: Callable[[LoginResult], None]
    ) -> None:
        if user == "nobody":
            done(LoginResult(LoginOutcome.BAD_CREDENTIALS))
        else:
            done(LoginResult(LoginOutcome.OK, Subject(user)))


def small_domain() -> Domain:
    """A core with default settings and no storage."""
    hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(WildcardSyntax())
    return Domain(SettingsRepository(hierarchy), Dispatcher(MemoryStore()))


class Bench:
    """One acceptor's drivers on a loop moved by hand."""

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        config: AcceptorConfig | None = None,
        output_limit_bytes: int = 1000,
    ) -> None:
        self.loop = ManualLoop()
        self.domain = small_domain()
        self.host = make_host(self.domain)
        self.manager = LineProtocolManager(self.host)
        self.turn = Turn(self.domain.dispatcher, self.loop, self.loop.wall_clock)
        self.connections = Connections(limits or ConnectionLimits(total=100, strangers=50))
        self.events = Events()
        EventLog(self.loop.time).listen(self.events)
        self.terms = AcceptorContext(
            config=config or AcceptorConfig(name="test"),
            managers=[self.manager],
            authenticator=AnyName(),
            turn=self.turn,
            connections=self.connections,
            events=self.events,
            output_limit_bytes=output_limit_bytes,
        )

    def accept(self, peername: tuple[str, int] = ("127.0.0.1", 40000)) -> FakeTransport:
        """A new connection."""
        transport = FakeTransport(peername)
        transport.driver = Driver(self.terms)
        transport.driver.connection_made(transport)
        return transport

    def receive(self, transport: FakeTransport, data: bytes) -> None:
        """Bytes arrive, and the turn they cause runs."""
        assert transport.driver is not None
        transport.driver.data_received(data)
        self.loop.run()

    def log_in(self, name: str = "alice") -> tuple[FakeTransport, LineConnection]:
        """A connection whose peer is known; its greeting is taken off."""
        transport = self.accept()
        self.receive(transport, f"LINE {name}\n".encode())
        transport.written.clear()
        return transport, self.manager.opened[-1]

    def lose(self, transport: FakeTransport, error: Exception | None = None) -> None:
        """asyncio reports the end."""
        assert transport.driver is not None
        transport.driver.connection_lost(error)
        self.loop.run()
