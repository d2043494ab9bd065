"""The domains of one broker, and which one a client means when it opens a connection."""

from typing import Final

from artemis_py.core.routing.domain import Domain
from artemis_py.errors import InvalidRequest


class Domains:
    """The domains by the host name that a client says it connects to; upper and lower case are the same."""

    def __init__(self, default: Domain) -> None:
        """Begin with the `default` domain, for clients that name no host, or a host without a domain."""
        self.default: Final = default
        self._by_host: Final[dict[str, Domain]] = {}

    def add(self, hostname: str, domain: Domain) -> None:
        """Have clients of this host use a domain. Raises InvalidRequest for another dispatcher, or a host twice."""
        if domain.dispatcher is not self.default.dispatcher:
            raise InvalidRequest(f"the domain of host '{hostname}' has a dispatcher of its own")
        host = hostname.lower()
        if host in self._by_host:
            raise InvalidRequest(f"host '{hostname}' has a domain already")
        self._by_host[host] = domain

    def find(self, hostname: str | None) -> Domain:
        """Return the domain of a host; `hostname` is None if the protocol cannot name one or the client does not."""
        return self.default if hostname is None else self._by_host.get(hostname.lower(), self.default)

    def all(self) -> list[Domain]:
        """Return each domain once, the default one first."""
        return list(dict.fromkeys([self.default, *self._by_host.values()]))
