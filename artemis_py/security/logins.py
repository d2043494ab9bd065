"""Checks logins: hashes passwords outside the event loop, and slows down guessing.

There is one `LoginService` per broker. It keeps password hashing off the event loop and within a limit, remembers
successful logins for a short time, slows down addresses that guess, and logs every login that fails. It has no clock,
timer or thread: all three are passed in. Everything except the functions given to `submit` runs on the event loop's
thread.
"""

import hmac
import secrets
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from attrs import frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.events import Events
from artemis_py.core.runtime.outer_events import LoginFailed
from artemis_py.logs import LogBrake, named_logger
from artemis_py.peers import address_of
from artemis_py.protocol import LoginOutcome, LoginResult
from artemis_py.security.passwords import ScramKeys
from artemis_py.security.users import Users

LOGGER: Final = named_logger(__name__)

T = TypeVar("T")

# At about 20 ms a hash in one thread, the last of 100 waits two seconds: well within the login deadline of 10 s.
PENDING_LIMIT: Final = 100
"""Password hashes computed or waiting at one time; beyond that, clients are told to try again later."""

REMEMBERED_S: Final = 10.0
REMEMBERED_LIMIT: Final = 1_000
"""Successful logins remembered, so clients that reconnect often cost one hash each; both are Artemis' defaults."""

# reliability §4: 5 failures a minute per address, then a delay of 1 s.
FREE_FAILURES: Final = 5
FAILURE_MEMORY_S: Final = 60.0
BRAKE_DELAY_S: Final = 1.0
BRAKED_LIMIT: Final = 10
"""Attempts of one braked address that wait at one time, and so its highest number of guesses a second."""
ADDRESSES_LIMIT: Final = 10_000
"""Addresses whose failures are remembered; a new one replaces the one remembered longest."""


class Submit(Protocol):
    """Runs `job`, which must not raise, in a worker thread, then calls `done` with its result on the event loop."""

    def __call__(self, job: Callable[[], T], done: Callable[[T], None], /) -> None: ...


CallLater = Callable[[float, Callable[[], None]], object]
"""Function that calls another one after a number of seconds."""


@frozen
class Attempt:
    """One attempt to log in, for the log."""

    user: str | None
    peer: str
    """Address of the peer as `host:port`."""
    mechanism: str


class _Address:
    """Recent failures and waiting attempts of one peer address."""

    __slots__ = ("failures", "waiting")

    def __init__(self) -> None:
        self.failures: deque[float] = deque(maxlen=FREE_FAILURES)
        self.waiting: int = 0


class LoginService:
    """Login service that all acceptors share; see the module."""

    def __init__(
        self,
        users: Users,
        submit: Submit,
        call_later: CallLater,
        now: Callable[[], float],
        events: Events | None = None,
    ) -> None:
        """Create it; `now` returns the seconds of a monotonic clock, and `events` are told of logins that fail."""
        self._events = Events() if events is None else events
        self._users = users
        self._submit = submit
        self._call_later = call_later
        self._now = now
        self.succeeded = 0
        """Logins that succeeded; those of clients without a name are not checked, and not among them."""
        self.failed = 0
        """Logins that failed, or were put off because too many were being checked."""
        self._pending = 0
        self._brake = LogBrake(LOGGER, now)
        # Credentials are remembered under a keyed hash, so no password stays in memory longer than its check takes.
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, tuple[float, Subject]] = {}
        self._addresses: dict[str, _Address] = {}

    @property
    def users(self) -> Users:
        """Users that may log in."""
        return self._users

    def replace_users(self, users: Users) -> None:
        """Use these users from now on, after their files changed, and forget the logins of the old ones."""
        self._users = users
        self._remembered.clear()

    def check_password(self, attempt: Attempt, password: str, done: Callable[[LoginResult], None]) -> None:
        """Log `attempt.user` in with its password; `done` is called before this returns or in a later iteration."""
        user = attempt.user or ""
        credentials = self._digest(user, password)
        remembered = self._recall(credentials)
        if remembered is not None:
            self.succeed(remembered, done)
            return

        def check() -> None:
            users = self._users
            self._work(attempt, lambda: users.verify(user, password), lambda ok: finish(users, ok), done)

        def finish(users: Users, ok: bool) -> None:
            if not ok:
                self.fail(attempt, "wrong password" if users.knows(user) else "no such user", done)
                return
            subject = users.subject(user)
            if users is self._users:
                self._remember(credentials, subject)
            self.succeed(subject, done)

        self._admit(attempt, check, done)

    def scram_keys(
        self, attempt: Attempt, found: Callable[[ScramKeys, bool], None], done: Callable[[LoginResult], None]
    ) -> None:
        """Find the SCRAM keys of `attempt.user`: `found` gets them and whether they are genuine.

        `done` is called instead if there is no room for another login.
        """
        users, user = self._users, attempt.user or ""

        def find() -> None:
            self._work(attempt, lambda: users.scram_keys(user), lambda result: found(*result), done)

        self._admit(attempt, find, done)

    def succeed(self, subject: Subject, done: Callable[[LoginResult], None], final: bytes = b"") -> None:
        """End an attempt that succeeded; `final` goes to the peer with the outcome."""
        self.succeeded += 1
        done(LoginResult(LoginOutcome.OK, subject, final))

    def fail(self, attempt: Attempt, reason: str, done: Callable[[LoginResult], None]) -> None:
        """End a failed attempt: record it, log the reason, and tell the peer only that it failed."""
        now = self._now()
        address = self._address(attempt.peer)
        address.failures.append(now)
        self._log(attempt, reason)
        done(LoginResult(LoginOutcome.BAD_CREDENTIALS))

    def refuse(self, attempt: Attempt, reason: str, done: Callable[[LoginResult], None]) -> None:
        """End an attempt that is known to have failed; an address that fails too often waits for the answer."""
        self._admit(attempt, lambda: self.fail(attempt, reason, done), done)

    def _admit(self, attempt: Attempt, start: Callable[[], None], done: Callable[[LoginResult], None]) -> None:
        """Call `start` now, or after a delay if this address has failed too often."""
        address = self._addresses.get(address_of(attempt.peer))
        if address is None or not self._is_braked(address, self._now()):
            start()
            return
        if address.waiting >= BRAKED_LIMIT:
            self._log(attempt, f"{BRAKED_LIMIT} attempts from this address are waiting already")
            done(LoginResult(LoginOutcome.BUSY))
            return
        braked = address
        braked.waiting += 1

        def go_on() -> None:
            braked.waiting -= 1
            start()

        self._call_later(BRAKE_DELAY_S, go_on)

    def _work(
        self,
        attempt: Attempt,
        job: Callable[[], T],
        finish: Callable[[T], None],
        done: Callable[[LoginResult], None],
    ) -> None:
        if self._pending >= PENDING_LIMIT:
            self._log(attempt, f"{PENDING_LIMIT} logins are being checked already")
            done(LoginResult(LoginOutcome.BUSY))
            return
        self._pending += 1

        def completed(result: T) -> None:
            self._pending -= 1
            finish(result)

        self._submit(job, completed)

    def _log(self, attempt: Attempt, reason: str) -> None:
        self.failed += 1
        user = "anonymous" if attempt.user is None else ascii(attempt.user[:100])
        template = "login failed: user=%s peer=%s mechanism=%s reason=%s"
        source = address_of(attempt.peer)
        self._brake.warning(source, template, user, attempt.peer, attempt.mechanism, reason)
        if self._events.wants(LoginFailed):
            self._events.emit(LoginFailed(attempt.user, attempt.peer, attempt.mechanism, reason))

    def _is_braked(self, address: _Address, now: float) -> bool:
        """Tell whether the last FREE_FAILURES failures are all within FAILURE_MEMORY_S."""
        failures = address.failures
        return len(failures) == FREE_FAILURES and now - failures[0] < FAILURE_MEMORY_S

    def _address(self, peer: str) -> _Address:
        key = address_of(peer)
        address = self._addresses.get(key)
        if address is None:
            if len(self._addresses) >= ADDRESSES_LIMIT:
                del self._addresses[next(iter(self._addresses))]
            address = self._addresses[key] = _Address()
        return address

    def _digest(self, user: str, password: str) -> bytes:
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        text = f"{len(user)}:{user}{password}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, "sha256")

    def _recall(self, credentials: bytes) -> Subject | None:
        remembered = self._remembered.get(credentials)
        if remembered is None:
            return None
        if self._now() < remembered[0]:
            return remembered[1]
        del self._remembered[credentials]
        return None

    def _remember(self, credentials: bytes, subject: Subject) -> None:
        if len(self._remembered) >= REMEMBERED_LIMIT:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[credentials] = self._now() + REMEMBERED_S, subject
