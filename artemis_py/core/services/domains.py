"""The domains of one broker, and which one a client means when it opens a connection."""

from typing import Final

from artemis_py.core.services.services import Services
from artemis_py.core.settings.virtual_host_config import DEFAULT_NAMES
from artemis_py.errors import InvalidRequest, NoSuchHost

NAME_PREFIX: Final = "vhost:"
"""Prefix with which clients of RabbitMQ mark the name of a virtual host, as opposed to that of a machine."""


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

    def remove(self, services: Services) -> None:
        """Have no client find a domain any more."""
        for host in [host for host, other in self._by_host.items() if other is services]:
            del self._by_host[host]

    def find(self, hostname: str | None, otherwise: str = "") -> Services:
        """Return the services of a host; `hostname` is None if the protocol or the client does not name one.

        A host without a domain is the machine that the client connected to: it gets the domain `otherwise`, which its
        acceptor names, or the default one. Raises NoSuchHost for `vhost:` and a name that no domain has, and if no
        domain is named `otherwise`.
        """
        if hostname is not None:
            name = hostname.lower()
            if name.startswith(NAME_PREFIX):
                return self.named(name.removeprefix(NAME_PREFIX))
            services = self._by_host.get(name)
            if services is not None:
                return services
        return self.named(otherwise) if otherwise else self.default

    def named(self, name: str) -> Services:
        """Return the services of the domain that has this name. Raises NoSuchHost."""
        services = self.get(name)
        if services is None:
            raise NoSuchHost(f"virtual host '{name}' does not exist")
        return services

    def get(self, name: str) -> Services | None:
        """Return the services of the domain that has this name; None if there is none."""
        host = name.lower()
        return self.default if host in DEFAULT_NAMES else self._by_host.get(host)

    def all(self) -> list[Services]:
        """Return the services of each domain once, those of the default domain first."""
        return list(dict.fromkeys([self.default, *self._by_host.values()]))
