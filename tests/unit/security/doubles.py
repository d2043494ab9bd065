"""A login service without threads and clocks: a test decides when work is done and how time passes."""

from collections.abc import Callable
from typing import TypeVar

from artemis_py.protocol import ConnectionContext, LoginResult
from artemis_py.security.authenticator import AcceptorAuthenticator, AnonymousAccess
from artemis_py.security.logins import LoginService
from artemis_py.security.passwords import HashCost, HashedPassword, hash_password, parse_hash
from artemis_py.security.users import Password, Users

T = TypeVar("T")

CHEAP = HashCost(memory_kib=8, passes=1, scram_iterations=4096)
"""As little work as argon2 and RFC 7677 allow."""


class Bench:
    """Users ann (hashed), bob (plain) and old (hashed, without SCRAM keys), and everything a login needs."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.jobs: list[Callable[[], None]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.hashed = 0
        self.logins = LoginService(users(), self.submit, self.call_later, lambda: self.now)
        self.authenticator = AcceptorAuthenticator(
            self.logins, ["PLAIN", "ANONYMOUS", "EXTERNAL", "SCRAM-SHA-256"], nonce=lambda: "servernonce"
        )

    def submit(self, job: Callable[[], T], done: Callable[[T], None], /) -> None:
        def run() -> None:
            self.hashed += 1
            done(job())

        self.jobs.append(run)

    def call_later(self, delay_s: float, run: Callable[[], None]) -> None:
        self.timers.append((delay_s, run))

    def work(self) -> None:
        """Do all jobs that wait."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job()

    def ring(self) -> None:
        """Let all timers run out."""
        timers, self.timers = self.timers, []
        for delay_s, run in timers:
            self.now += delay_s
            run()

    def context(
        self,
        peer: str = "10.0.0.1:5000",
        is_loopback: bool = False,
        is_encrypted: bool = False,
        certificate_subject: str | None = None,
    ) -> ConnectionContext:
        return ConnectionContext(
            connection_id=1,
            peer=peer,
            is_loopback=is_loopback,
            is_encrypted=is_encrypted,
            certificate_subject=certificate_subject,
            authenticator=self.authenticator,
            wake=lambda: None,
        )

    def login(self, user: str | None, password: str | None, peer: str = "10.0.0.1:5000") -> LoginResult:
        """Log in at once, without SASL, and do the work."""
        results: list[LoginResult] = []
        self.authenticator.login(user, password, self.context(peer), results.append)
        self.work()
        assert len(results) == 1
        return results[0]


class Conversation:
    """One SASL exchange and what it said."""

    def __init__(self, bench: Bench, mechanism: str, context: ConnectionContext | None = None) -> None:
        exchange = bench.authenticator.begin(mechanism, context or bench.context())
        assert exchange is not None
        self.exchange = exchange
        self.bench = bench
        self.challenges: list[bytes] = []
        self.results: list[LoginResult] = []

    def respond(self, data: bytes | None) -> None:
        self.exchange.respond(data, self.challenges.append, self.results.append)
        self.bench.work()


def _hashed(password: str) -> HashedPassword:
    hashed = parse_hash(hash_password(password, CHEAP))
    assert isinstance(hashed, HashedPassword)
    return hashed


_HASHES = {password: _hashed(password) for password in ("secret", "older")}


def users() -> Users:
    passwords: dict[str, Password] = {
        "ann": _HASHES["secret"],
        "bob": "plain",
        "old": HashedPassword(_HASHES["older"].argon2, None),
    }
    roles = {"ann": frozenset(["app", "ops"]), "CN=device 7,O=Plant": frozenset(["devices"])}
    return Users(passwords, roles, CHEAP)


__all__ = ["CHEAP", "AnonymousAccess", "Bench", "Conversation", "users"]
