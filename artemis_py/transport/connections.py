"""All connections of a broker: how many it accepts, and how they end together."""

import asyncio
import resource
from collections.abc import Iterator
from typing import Final, Protocol, cast

from attrs import frozen

from artemis_py.transport.strangers import Standing, Stranger, Strangers

# reliability §4: strangers may take some of the room, never most of it. 500 logins of 10 s each are 50 a second.
MAX_STRANGERS: Final = 500

# How long a peer has to answer once it has our last bytes: a few round trips. A peer silent for so long is not reading.
MOMENT_S: Final = 0.25

# Used if the operating system sets no limit. Memory is the limit then: 20 GiB at 20 KiB a connection.
UNLIMITED: Final = 1024 * 1024


@frozen(kw_only=True)
class ConnectionLimits:
    """Numbers of connections that a broker accepts."""

    total: int
    strangers: int
    """Limit of connections that are not logged in."""

    @classmethod
    def of_descriptors(cls, soft_limit: int) -> "ConnectionLimits":
        """Return the limits that leave a tenth of the file descriptors to the store, the log and listening sockets."""
        if soft_limit == resource.RLIM_INFINITY:
            soft_limit = UNLIMITED
        total = max(soft_limit - soft_limit // 10, 1)
        return cls(total=total, strangers=max(min(MAX_STRANGERS, total // 2), 1))

    @classmethod
    def of_this_process(cls) -> "ConnectionLimits":
        """Return the limits that follow from the process' own limit of open files (`ulimit -n`)."""
        return cls.of_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class Member(Stranger, Protocol):
    """A connection as the register sees it."""

    @property
    def acceptor_name(self) -> str:
        """Name of the acceptor that accepted the connection."""

    def shutdown(self, reason: str) -> None:
        """Say goodbye, then close."""

    def abort(self) -> None:
        """Close at once; unsent output is lost."""

    def is_said(self) -> bool:
        """Tell whether all output has reached the peer's machine and nothing has arrived since the last call."""


class Connections:
    """Register of open connections, strangers included, in the order in which they were accepted."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._members: dict[Member, None] = {}
        self._by_acceptor: dict[str, int] = {}
        self._leaving: set[Member] = set()
        """Displaced strangers whose sockets the loop has not closed yet; they no longer count toward the limits."""
        self._strangers = Strangers()
        self._strangers_by_acceptor: dict[str, Strangers] = {}
        self._next_id = 1
        self._empty: asyncio.Event = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    @property
    def strangers(self) -> int:
        """Number of connections whose peer is not logged in."""
        return len(self._strangers)

    def new_id(self) -> int:
        """Return a number that no other connection of this broker gets."""
        number = self._next_id
        self._next_id += 1
        return number

    def admit(self, member: Member, allowed: int = -1, per_address: int = -1) -> str | None:
        """Register a connection as a silent stranger; return the reason if it is refused, otherwise None.

        If room is short, another stranger is displaced (`strangers`). `allowed` limits the connections of the acceptor,
        `per_address` the strangers of one peer address; -1 means no limit.
        """
        refusal = self._make_room(member, allowed, per_address)
        if refusal is not None:
            return refusal
        name = member.acceptor_name
        self._members[member] = None
        self._by_acceptor[name] = self._by_acceptor.get(name, 0) + 1
        self._strangers.add(member)
        self._strangers_by_acceptor.setdefault(name, Strangers()).add(member)
        self._empty.clear()
        return None

    def _make_room(self, member: Member, allowed: int, per_address: int) -> str | None:
        strangers, address, name = self._strangers, member.peer_address, member.acceptor_name
        if 0 <= per_address <= (count := strangers.count(address)):
            reason = f"{count} connections of {address} are not logged in, strangersPerAddress of acceptor {name}"
            if not self._displace(strangers.weakest_of(address), reason):
                return f"{reason}, and all are being checked"
        of_acceptor = self._strangers_by_acceptor.get(name, Strangers())
        if 0 <= allowed <= self._by_acceptor.get(name, 0):
            reason = f"connectionsAllowed={allowed} of acceptor {name} is reached"
            if not self._displace(of_acceptor.weakest(), reason):
                return reason
        if len(strangers) >= self.limits.strangers:
            reason = f"{len(strangers)} connections are not logged in yet"
            if not self._displace(strangers.weakest(), reason):
                return f"{reason}, and all are being checked"
        if len(self._members) - len(self._leaving) >= self.limits.total:
            reason = f"{self.limits.total} connections are open, all that the limit of open files leaves room for"
            if not self._displace(strangers.weakest(), reason):
                return reason
        return None

    def _displace(self, stranger: Stranger | None, reason: str) -> bool:
        """Close `stranger` to make room; return False if it is None."""
        if stranger is None:
            return False
        member = cast(Member, stranger)
        self._leaving.add(member)
        self._by_acceptor[member.acceptor_name] -= 1
        self._know(member)
        member.displace(reason)
        return True

    def move(self, member: Member, standing: Standing) -> None:
        """Record how far a stranger has come with its login."""
        self._strangers.move(member, standing)
        self._strangers_by_acceptor[member.acceptor_name].move(member, standing)

    def log_in(self, member: Member) -> None:
        """Record that a connection is logged in."""
        self._know(member)

    def _know(self, member: Member) -> None:
        """Stop counting a connection as a stranger, because it is logged in or gone."""
        self._strangers.remove(member)
        self._strangers_by_acceptor[member.acceptor_name].remove(member)

    def remove(self, member: Member) -> None:
        """Remove a connection that is gone."""
        del self._members[member]
        if member in self._leaving:
            self._leaving.remove(member)
        else:
            self._by_acceptor[member.acceptor_name] -= 1
            self._know(member)
        if not self._members:
            self._empty.set()

    def end_logins(self, reason: str) -> None:
        """End all connections whose login is in progress; their clients may connect again."""
        for stranger in self._strangers.logging_in():
            cast(Member, stranger).shutdown(reason)

    async def wait_empty(self, hurry: asyncio.Event, timeout_s: float | None) -> None:
        """Wait until the last connection is gone, `timeout_s` has passed (None: no limit) or `hurry` is set."""
        waiting = [asyncio.ensure_future(self._empty.wait()), asyncio.ensure_future(hurry.wait())]
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def shutdown(self, reason: str, timeout_s: float) -> None:
        """Say goodbye on all connections, and abort those still open after `timeout_s`.

        A connection is also aborted as soon as its last bytes have been on the peer's machine for a moment. A client
        that does not read them now, because it is blocked elsewhere, finds them there later.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        for member in list(self._members):
            member.shutdown(reason)
        while self._members:
            left_s = end - loop.time()
            try:
                await asyncio.wait_for(self._empty.wait(), min(MOMENT_S, max(left_s, 0)))
            except TimeoutError:
                for member in list(self._members):
                    if left_s <= MOMENT_S or member.is_said():
                        member.abort()
                if left_s <= MOMENT_S:
                    # An aborted transport reports its end in the next iteration of the loop, whatever its peer does.
                    await self._empty.wait()
