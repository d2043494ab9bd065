"""What the broker answers over HTTP, put together from the parts that it is about."""

import asyncio
import time
from typing import Final

from artemis_py.core.services.domains import Domains
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.deployment.lifecycle import Lifecycle
from artemis_py.deployment.logins import Logins
from artemis_py.errors import ConfigError, HostStopped, Problem
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.http.config import WebConfig
from artemis_py.management.metrics.broker_metrics import BrokerMetrics
from artemis_py.protocol import Authenticator
from artemis_py.security.token_logins import TokenLogins
from artemis_py.security.tokens import Tokens
from artemis_py.transport.turn import Turn


def missing_extra(config: WebConfig) -> Problem:
    """Return the problem of a configuration that needs the extra `http` where that is not installed."""
    text = "needs packages that are not installed: pip install 'artemis-py-broker[http]'"
    return Problem(config.acceptor.file, config.acceptor.line, "web", text)


class BrokerWeb:
    """The HTTP server of one broker, and the metrics that it shows."""

    def __init__(
        self,
        config: WebConfig,
        domains: Domains,
        hosts: VirtualHosts,
        authenticator: Authenticator,
        logins: Logins | None,
        tokens: Tokens,
        turn: Turn,
        life: Lifecycle,
    ) -> None:
        """Create it; raises ConfigError without the extra `http`, or if a file of TLS cannot be used."""
        try:
            from artemis_py.management.http.access import Access
            from artemis_py.management.http.administration import Administration, Heartbeat
            from artemis_py.management.http.api import LONGEST_REQUEST_BYTES, Api
            from artemis_py.management.http.health import Health
            from artemis_py.management.http.jolokia import Jolokia
            from artemis_py.management.http.login import Login
            from artemis_py.management.http.metrics import Scrapes
            from artemis_py.management.http.pages import Pages
            from artemis_py.management.http.server import WebServer
            from artemis_py.management.http.web_sessions import WebSessions
        except ImportError as error:
            raise ConfigError([missing_extra(config)]) from error
        self._config: Final = config
        self._hosts: Final = hosts
        self._logins: Final = logins
        self._life: Final = life
        self._facts: BrokerFacts | None = None
        self._metrics: BrokerMetrics | None = None
        sessions = domains.default.sessions
        dispatcher = sessions.domain.dispatcher
        checks = {"store": lambda: dispatcher.storage_failure, "clients": lambda: sessions.closed_because}
        heartbeat = Heartbeat(turn.enter, turn.plan)
        sessions_of_people = WebSessions(time.monotonic)
        if logins is not None:
            logins.watch.when_changed.append(sessions_of_people.users_changed)
        bearers = TokenLogins(tokens, None if logins is None else logins.service, turn.enter, turn.plan)
        access = Access(authenticator, config.anonymous_metrics, sessions_of_people, bearers)
        administration = Administration(domains, hosts, self._known, heartbeat)
        routes = Health(lambda: life.obstacle, checks).routes()
        # Before the collections of the API, of which these paths are none.
        routes += [*Login(access).routes(), *Api(access, administration).routes()]
        if config.metrics:
            routes += Scrapes(access, self._measured, dispatcher, heartbeat).routes()
        if config.jolokia:
            routes += Jolokia(access, administration).routes()
        if config.console:
            routes += Pages(access).routes()
        self._server: Final = WebServer(config.acceptor, routes, LONGEST_REQUEST_BYTES)

    @property
    def url(self) -> str:
        """URL of the server, with the actual port and without a slash at its end; only while it listens."""
        return self._server.url

    async def start(self) -> None:
        """Listen; until the broker serves clients, little but its health is answered. Raises ConfigError."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening, and answer what was asked."""
        await self._server.stop()

    def renew_certificates(self) -> None:
        """Read the files of TLS again. Raises ConfigError if one cannot be used; then nothing has changed."""
        self._server.renew_certificates()

    def begin(self, facts: BrokerFacts) -> None:
        """Count from now on: what the broker says about itself is known, and no client is there yet."""
        self._facts = facts
        if self._config.metrics:
            counts = None if self._logins is None else self._logins.counts
            self._metrics = BrokerMetrics(self._hosts, facts, counts)
            self._metrics.start(asyncio.get_running_loop())

    def end(self) -> None:
        """Stop counting."""
        if self._metrics is not None:
            self._metrics.stop()
            self._metrics = None

    def _known(self) -> BrokerFacts:
        """Return what the broker says about itself. Raises HostStopped before it serves clients, and after."""
        if self._life.obstacle is not None:
            raise HostStopped(self._life.obstacle)
        assert self._facts is not None, "a broker that serves clients has told them"
        return self._facts

    def _measured(self) -> BrokerMetrics:
        """Return the metrics. Raises HostStopped before the broker counts, and after."""
        if self._metrics is None:
            raise HostStopped(self._life.obstacle or "nothing is counted")
        return self._metrics
