"""The domains of one broker, and which one a client means when it opens a connection."""

from typing import Final

from artemis_py.core.services.services import Services
from artemis_py.errors import InvalidRequest


class Domains:
    """The domains, each with its services, by the host name that a client says it connects to, in any case."""

    def __init__(self, default: Services) -> None:
        """Begin with the `default` domain, for clients that name no host, or a host without a domain."""
        self.default: Final = default
        self._by_host: Final[dict[str, Services]] = {}

    def add(self, hostname: str, services: Services) -> None:
        """Have clients of this host use a domain. Raises InvalidRequest for another dispatcher, or a host twice."""
        if services.sessions.domain.dispatcher is not self.default.sessions.domain.dispatcher:
            raise InvalidRequest(f"the domain of host '{hostname}' has a dispatcher of its own")
        host = hostname.lower()
        if host in self._by_host:
            raise InvalidRequest(f"host '{hostname}' has a domain already")
        self._by_host[host] = services

    def find(self, hostname: str | None) -> Services:
        """Return the services of a host; `hostname` is None if the protocol or the client does not name one."""
        return self.default if hostname is None else self._by_host.get(hostname.lower(), self.default)

    def all(self) -> list[Services]:
        """Return the services of each domain once, those of the default domain first."""
        return list(dict.fromkeys([self.default, *self._by_host.values()]))
