"""Builds what the broker answers over HTTP, from the parts that it is about."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.services.domains import Domains
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.deployment.lifecycle import Lifecycle
from artemis_py.deployment.logins import AuthenticatorOf
from artemis_py.errors import ConfigError, Problem
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.http.config import WebConfig
from artemis_py.transport.turn import Turn

if TYPE_CHECKING:
    from artemis_py.management.http.server import WebServer


def web_server(
    config: WebConfig,
    domains: Domains,
    hosts: VirtualHosts,
    facts: Callable[[], BrokerFacts],
    authenticator: AuthenticatorOf,
    turn: Turn,
    life: Lifecycle,
) -> "WebServer":
    """Return the server that `<web>` describes. Raises ConfigError without the extra `http`, or for a file of TLS."""
    try:
        from artemis_py.management.http.access import Access
        from artemis_py.management.http.administration import Administration, Heartbeat
        from artemis_py.management.http.api import LONGEST_REQUEST_BYTES, Api
        from artemis_py.management.http.health import Health
        from artemis_py.management.http.jolokia import Jolokia
        from artemis_py.management.http.pages import Pages
        from artemis_py.management.http.server import WebServer
    except ImportError as error:
        text = f"needs a package that is not installed ({error}): pip install 'artemis-py-broker[http]'"
        raise ConfigError([Problem(config.acceptor.file, config.acceptor.line, "web", text)]) from error
    sessions = domains.default.sessions
    dispatcher = sessions.domain.dispatcher

    def has_started() -> str | None:
        return life.obstacle

    def stores() -> str | None:
        return dispatcher.storage_failure

    def admits() -> str | None:
        return sessions.closed_because

    access = Access(authenticator(config.acceptor), config.anonymous_metrics)
    administration = Administration(domains, hosts, facts, Heartbeat(turn.enter, turn.plan))
    routes = [
        *Health(has_started, {"store": stores, "clients": admits}).routes(),
        *Api(access, administration).routes(),
    ]
    if config.jolokia:
        routes += Jolokia(access, administration).routes()
    if config.console:
        routes += Pages(access).routes()
    return WebServer(config.acceptor, routes, LONGEST_REQUEST_BYTES)
