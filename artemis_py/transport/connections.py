"""All connections of a broker: how many there may be, and how they end together."""

import asyncio
import resource
from collections.abc import Iterator
from typing import Final, Protocol

from attrs import frozen

# reliability §4: a stranger may hold some of the room, never most of it. 500 logins of 10 s each are 50 a second.
MAX_STRANGERS: Final = 500

# How long a peer has to answer once it has our last words: some round trips. Who is silent for so long is not reading.
MOMENT_S: Final = 0.25

# Where the operating system sets no limit: memory is the limit then, at 20 KiB a connection 20 GiB.
UNLIMITED: Final = 1024 * 1024


@frozen(kw_only=True)
class ConnectionLimits:
    """How many connections a broker takes."""

    total: int
    strangers: int
    """Connections that are not logged in."""

    @classmethod
    def of_descriptors(cls, soft_limit: int) -> "ConnectionLimits":
        """Leave a tenth of the file descriptors to the store, the log and listening sockets."""
        if soft_limit == resource.RLIM_INFINITY:
            soft_limit = UNLIMITED
        total = max(soft_limit - soft_limit // 10, 1)
        return cls(total=total, strangers=max(min(MAX_STRANGERS, total // 2), 1))

    @classmethod
    def of_this_process(cls) -> "ConnectionLimits":
        """The limits that follow from the process' own limit of open files (`ulimit -n`)."""
        return cls.of_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class Member(Protocol):
    """A connection as the register sees it."""

    @property
    def acceptor_name(self) -> str:
        """The acceptor it came through."""

    def shutdown(self, reason: str) -> None:
        """Say goodbye, then close."""

    def abort(self) -> None:
        """Close now, whatever is still to be said."""

    def is_said(self) -> bool:
        """Whether all that was said reached the peer's machine, and nothing came from there since the last call."""


class Connections:
    """The register of open connections, strangers included. Keeps the order in which they came."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._members: dict[Member, None] = {}
        self._by_acceptor: dict[str, int] = {}
        self._strangers = 0
        self._next_id = 1
        self._empty: asyncio.Event = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    @property
    def strangers(self) -> int:
        """Connections whose peer is not logged in."""
        return self._strangers

    def new_id(self) -> int:
        """A number that no other connection of this broker gets."""
        number = self._next_id
        self._next_id += 1
        return number

    def refusal(self, acceptor_name: str, allowed: int) -> str | None:
        """Why one more connection cannot be taken, or None. `allowed`: limit of the acceptor, -1 for none."""
        if len(self._members) >= self.limits.total:
            return f"{self.limits.total} connections are open, all that the limit of open files leaves room for"
        if self._strangers >= self.limits.strangers:
            return f"{self._strangers} connections are not logged in yet"
        if 0 <= allowed <= self._by_acceptor.get(acceptor_name, 0):
            return f"connectionsAllowed={allowed} of acceptor {acceptor_name} is reached"
        return None

    def add(self, member: Member) -> None:
        """Enter a connection, as a stranger."""
        self._members[member] = None
        self._by_acceptor[member.acceptor_name] = self._by_acceptor.get(member.acceptor_name, 0) + 1
        self._strangers += 1
        self._empty.clear()

    def log_in(self) -> None:
        """One of the strangers is known now."""
        self._strangers -= 1

    def remove(self, member: Member, is_stranger: bool) -> None:
        """A connection is gone."""
        del self._members[member]
        self._by_acceptor[member.acceptor_name] -= 1
        if is_stranger:
            self._strangers -= 1
        if not self._members:
            self._empty.set()

    async def wait_empty(self) -> None:
        """Until the last connection is gone."""
        await self._empty.wait()

    async def shutdown(self, reason: str, timeout_s: float) -> None:
        """End all connections politely; those still there after `timeout_s` are cut off.

        So are those, after a moment, whose last words lie on the peer's machine: a program that does not read them
        now, as one that blocks elsewhere, finds them there when it does.
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
                    # An aborted transport reports its end in the next iteration, whatever its peer does.
                    await self._empty.wait()
