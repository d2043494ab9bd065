"""Builds the login service of a configuration and the parts of the broker that it needs."""

import asyncio
from collections.abc import Callable
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import LoginConfig
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.deployment.lifecycle import Part, State
from artemis_py.protocol import Authenticator
from artemis_py.security.authenticator import AcceptorAuthenticator, OpenAuthenticator
from artemis_py.security.logins import LoginService
from artemis_py.security.revocation import subject_now
from artemis_py.security.users import UserFiles
from artemis_py.security.watch import REFRESH_S, UsersWatch
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import Connections
from artemis_py.transport.repeated import Repeated
from artemis_py.transport.turn import Turn
from artemis_py.transport.worker import Worker

AuthenticatorOf = Callable[[AcceptorConfig], Authenticator]
"""Function that creates the authenticator of an acceptor."""

_OPEN: Final = OpenAuthenticator()


def open_to_all(acceptor: AcceptorConfig) -> Authenticator:
    """Return an authenticator that accepts any client under any name: `security-enabled` is false."""
    return _OPEN


@frozen
class Logins:
    """What a broker with `security-enabled` has to check logins."""

    authenticator: AuthenticatorOf
    service: LoginService
    watch: UsersWatch
    parts: tuple[Part, ...]
    """The parts that check passwords and watch the users' files."""

    def counts(self) -> tuple[int, int]:
        """Return how many logins have succeeded, and how many have failed."""
        return self.service.succeeded, self.service.failed


def make_logins(
    config: LoginConfig,
    sessions: Sessions,
    hosts: VirtualHosts,
    connections: Connections,
    loop: asyncio.AbstractEventLoop,
    turn: Turn,
) -> Logins:
    """Make the login service. Raises ConfigError if the users' files cannot be used."""
    files = UserFiles(config.folder / config.users_file, config.folder / config.roles_file)
    worker = Worker(loop, turn.enter)

    def others() -> list[Sessions]:
        return [host.services.sessions for host in (*hosts.all(), *hosts.leaving())]

    logins = LoginService(files.load(), worker.submit, loop.call_later, loop.time, sessions.domain.events)
    sessions.domain.subject_now = lambda subject: subject_now(logins.users, subject)
    watch = UsersWatch(files, logins, sessions, connections.end_logins, turn.plan, others)
    looks = Repeated(loop, turn.enter, watch.look)
    roles = frozenset(config.anonymous_roles)

    def authenticator(acceptor: AcceptorConfig) -> Authenticator:
        return AcceptorAuthenticator(logins, acceptor.sasl_mechanisms, config.anonymous_access, roles)

    parts = (
        Part("login worker", State.STANDBY, stop=worker.stop),
        Part("users", State.STANDBY, lambda: looks.start(REFRESH_S), looks.stop),
    )
    return Logins(authenticator, logins, watch, parts)
