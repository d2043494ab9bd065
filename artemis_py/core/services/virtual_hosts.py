"""The virtual hosts of a broker beside the default one: their states, and what the store remembers of them.

    ACTIVE ◄──────► STOPPED       start, stop; the connections of a stopped host are closed, its messages stay
       │               │
       └──► DELETING ◄─┘          its name is free at once; what it has is deleted in slices, also after a restart

The state survives a restart. Each host is a domain with an id that is never used twice, under which the store keeps
what belongs to it; 0 is the default host, which has no record.
"""

import json
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final

from attrs import evolve

from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.services.clearing import clear
from artemis_py.core.services.domains import Domains
from artemis_py.core.services.services import Services
from artemis_py.core.settings.virtual_host_config import (
    VirtualHostConfig,
    check_host_name,
    host_record,
    read_host,
)
from artemis_py.errors import DamagedValue, HostExists, LimitExceeded, NoSuchHost

SPACE: Final = "virtual-hosts"
"""Space of the store's records of hosts, by their ids; the key `LAST` has the last id that was given."""

_KEY: Final = Struct(">I")
_LAST: Final = b"last"

# A host without addresses takes 23 KB of memory, measured with tracemalloc: its exchanges, tables and services.
MAX_HOSTS: Final = 1000

# An operator must see the end of a stop; a slice of a stop closes this many connections.
_CLOSED_PER_SLICE: Final = SLICE_MESSAGES // 10


class HostState(Enum):
    """State of a virtual host."""

    ACTIVE = "ACTIVE"
    STOPPED = "STOPPED"
    """Nobody may connect; messages stay, expire and become due as usual."""
    DELETING = "DELETING"
    """It has no name any more, and what it has is being deleted."""


class VirtualHost:
    """One virtual host."""

    def __init__(self, id: int, config: VirtualHostConfig, services: Services) -> None:
        self.id: Final = id
        self.services: Final = services
        self.config: VirtualHostConfig = config
        self.state: HostState = HostState.ACTIVE

    @property
    def name(self) -> str:
        """Name of the host."""
        return self.config.name


MakeServices = Callable[[int, str], Services]
"""Makes the empty domain of a host, given its id and name, with its services."""

Listener = Callable[[VirtualHost], object]


class VirtualHosts:
    """Creates, changes, stops and deletes virtual hosts."""

    def __init__(self, domains: Domains, make: MakeServices) -> None:
        self.domains: Final = domains
        """The domains of the hosts, by their names."""
        self._make: Final = make
        self._dispatcher: Final = domains.default.sessions.domain.dispatcher
        self._hosts: Final[dict[str, VirtualHost]] = {}
        """Hosts by name in lower case, without those that are being deleted."""
        self._leaving: Final[dict[int, VirtualHost]] = {}
        """Hosts that are being deleted, by id."""
        self._last_id = 0
        self.is_running = False
        """Whether the services of new hosts start at once; set when those of the broker start."""
        self.when_added: Final[list[Listener]] = []
        """Called for each host that is created."""
        self.when_changed: Final[list[Listener]] = []
        """Called for each host that is opened or closed to clients, also because it is created or deleted."""
        self.before_clearing: Final[list[Callable[[VirtualHost], Steps]]] = []
        """Each gives back what a protocol has in a host that is being deleted, before its queues are deleted."""
        self.when_gone: Final[list[Listener]] = []
        """Called for each host that has been deleted."""

    def __len__(self) -> int:
        return len(self._hosts)

    # -- facts -------------------------------------------------------------------------------------------------

    def all(self) -> list[VirtualHost]:
        """Return the hosts, without those that are being deleted."""
        return list(self._hosts.values())

    def leaving(self) -> list[VirtualHost]:
        """Return the hosts that are being deleted."""
        return list(self._leaving.values())

    def find(self, name: str) -> VirtualHost | None:
        """Return the host of this name; None if there is none."""
        return self._hosts.get(name.lower())

    def host(self, name: str) -> VirtualHost:
        """Return the host of this name. Raises NoSuchHost."""
        host = self.find(name)
        if host is None:
            raise NoSuchHost(f"virtual host '{name}' does not exist")
        return host

    # -- changes -----------------------------------------------------------------------------------------------

    def create(self, config: VirtualHostConfig) -> VirtualHost:
        """Create a host without addresses. Raises InvalidRequest, HostExists, LimitExceeded."""
        self._check(config, None)
        if len(self._hosts) + len(self._leaving) >= MAX_HOSTS:
            raise LimitExceeded(f"there are {MAX_HOSTS} virtual hosts, which is the limit")
        self._last_id += 1
        host = self._add(self._last_id, config)
        storage = self._dispatcher.storage
        storage.mark_hosts()
        storage.save_record(SPACE, _LAST, _KEY.pack(self._last_id))
        if config.enabled:
            self._changed(host)
        else:
            self._close(host)
        self._save(host)
        # There is nothing to restore; from now on it keeps histories.
        host.services.retroactive.restore()
        if self.is_running:
            host.services.reaper.start()
        return host

    def update(self, name: str, config: VirtualHostConfig) -> VirtualHost:
        """Change a host's options; if `enabled` changes, it stops or starts. Raises NoSuchHost and what `create` does.

        Connections and queues that exceed a lower limit stay, and so do clients without one of the new roles.
        """
        host = self.host(name)
        self._check(config, host)
        before = host.config
        host.config = evolve(config, name=before.name)
        self._name(host)
        self._follow(host)
        if before.enabled != config.enabled:
            if config.enabled:
                self._open(host)
            else:
                self._close(host)
        self._save(host)
        return host

    def stop(self, name: str, reason: str = "") -> bool:
        """Close a host to clients, and end their connections; False if it is stopped already. Raises NoSuchHost."""
        host = self.host(name)
        if host.state is not HostState.ACTIVE:
            return False
        self._close(host, reason)
        self._save(host)
        return True

    def start(self, name: str) -> bool:
        """Open a stopped host to clients; False if it is active. Raises NoSuchHost."""
        host = self.host(name)
        if host.state is HostState.ACTIVE:
            return False
        self._open(host)
        self._save(host)
        return True

    def delete(self, name: str) -> VirtualHost:
        """Delete a host with everything in it; its name is free at once, the rest goes in slices. Raises NoSuchHost."""
        host = self.host(name)
        del self._hosts[host.name.lower()]
        self._leave(host)
        self._save(host)
        self._dispatcher.slices.start(self._clear(host))
        return host

    # -- restart -----------------------------------------------------------------------------------------------

    def restore(self) -> int:
        """Make the domains of the hosts of an earlier run, before addresses and queues are restored.

        Returns the number of records that cannot be read. Called once.
        """
        lost = 0
        for key, value in self._dispatcher.storage.load_records(SPACE):
            if key == _LAST:
                self._last_id = max(self._last_id, int(_KEY.unpack(value)[0]))
                continue
            try:
                id = host_id(key)
                config, state = read_host_record(key, value)
            except DamagedValue:
                lost += 1
                continue
            self._last_id = max(self._last_id, id)
            self._restore(id, config, state)
        return lost

    def _restore(self, id: int, config: VirtualHostConfig, state: HostState) -> VirtualHost:
        if state is HostState.DELETING:
            host = VirtualHost(id, config, self._make(id, config.name))
            self._leave(host)
            return host
        if self.find(config.name) is not None:
            config = evolve(config, name=f"{config.name}-{id}", hostnames=())
        host = self._add(id, config)
        if state is HostState.STOPPED:
            self._close(host)
        return host

    def domain_of(self, id: int) -> Services:
        """Return the services of the host with this id, for what the store has of it.

        A host whose record is lost comes back as a stopped one with another name, so that its messages are not lost.
        """
        if id == 0:
            return self.domains.default
        for host in [*self._hosts.values(), *self._leaving.values()]:
            if host.id == id:
                return host.services
        self._last_id = max(self._last_id, id)
        config = VirtualHostConfig(name=f"recovered-{id}", enabled=False)
        return self._restore(id, config, HostState.STOPPED).services

    def restored(self) -> list[Services]:
        """Return the services of all hosts but those that are being deleted, the default one first."""
        return [self.domains.default, *[host.services for host in self._hosts.values()]]

    def begin(self) -> None:
        """Start the services of all hosts, and continue to delete; called when clients may soon connect."""
        self.is_running = True
        for host in self._hosts.values():
            host.services.reaper.start()
        for host in self._leaving.values():
            self._dispatcher.slices.start(self._clear(host))

    def end(self) -> None:
        """Stop the services of all hosts."""
        self.is_running = False
        for host in self._hosts.values():
            host.services.reaper.stop()

    # -- states ------------------------------------------------------------------------------------------------

    def _check(self, config: VirtualHostConfig, existing: VirtualHost | None) -> None:
        """Raise InvalidRequest or HostExists if a host, or the `existing` one, cannot have these names."""
        services = None if existing is None else existing.services
        for name in (config.name, *config.hostnames):
            check_host_name(name)
            other = self.domains.get(name)
            if other is not None and other is not services:
                raise HostExists(f"there is a virtual host for '{name}' already")

    def _add(self, id: int, config: VirtualHostConfig) -> VirtualHost:
        host = VirtualHost(id, config, self._make(id, config.name))
        self._hosts[config.name.lower()] = host
        self._name(host)
        self._follow(host)
        for listener in self.when_added:
            listener(host)
        return host

    def _name(self, host: VirtualHost) -> None:
        """Have clients find a host by its names; one that another host has since an earlier run stays with that."""
        domains = self.domains
        domains.remove(host.services)
        for name in dict.fromkeys([host.name.lower(), *[each.lower() for each in host.config.hostnames]]):
            if domains.get(name) is None:
                domains.add(name, host.services)

    def _follow(self, host: VirtualHost) -> None:
        sessions, config = host.services.sessions, host.config
        sessions.max_connections = config.max_connections
        sessions.roles = frozenset(config.roles)
        sessions.domain.max_queues = config.max_queues

    def _open(self, host: VirtualHost) -> None:
        host.state = HostState.ACTIVE
        host.services.sessions.closed_because = None
        self._changed(host)

    def _close(self, host: VirtualHost, reason: str = "") -> None:
        host.state = HostState.STOPPED
        text = f"virtual host '{host.name}' is stopped{': ' if reason else ''}{reason}"
        host.services.sessions.closed_because = text
        self._dispatcher.slices.start(_disconnect(host.services, text))
        self._changed(host)

    def _leave(self, host: VirtualHost) -> None:
        host.state = HostState.DELETING
        self._leaving[host.id] = host
        self.domains.remove(host.services)
        host.services.sessions.closed_because = f"virtual host '{host.name}' is deleted"
        self._changed(host)

    def _changed(self, host: VirtualHost) -> None:
        for listener in self.when_changed:
            listener(host)

    def _clear(self, host: VirtualHost) -> Steps:
        """Delete everything that belongs to a host, at last its record."""
        services = host.services
        yield from _disconnect(services, f"virtual host '{host.name}' is deleted")
        while services.sessions.opened:
            # Connections end in slices of their own.
            yield self._pause
        for step in self.before_clearing:
            yield from step(host)
        yield from clear(services)
        self._dispatcher.storage.save_record(SPACE, _KEY.pack(host.id), None)
        self._leaving.pop(host.id, None)
        for listener in self.when_gone:
            listener(host)
        return None

    def _pause(self, resume: Callable[[], None], failed: Callable[[str], None]) -> None:
        self._dispatcher.after(10, resume)

    def _save(self, host: VirtualHost) -> None:
        record = {"state": host.state.value, "config": host_record(host.config)}
        self._dispatcher.storage.save_record(SPACE, _KEY.pack(host.id), json.dumps(record).encode())


def host_id(key: bytes) -> int:
    """Return the id of a host from the key of its record; 0 for the key `LAST`. Raises DamagedValue."""
    if key == _LAST:
        return 0
    if len(key) != _KEY.size:
        raise DamagedValue("its key is not that of a virtual host")
    return int(_KEY.unpack(key)[0])


def read_host_record(key: bytes, value: bytes) -> tuple[VirtualHostConfig, HostState]:
    """Return configuration and state of a host from its record. Raises DamagedValue."""
    if key == _LAST:
        return VirtualHostConfig(name=""), HostState.ACTIVE
    try:
        record = json.loads(value)
        return read_host(record["config"]), HostState(record["state"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedValue(f"it is not a virtual host: {error}") from error


def _disconnect(services: Services, reason: str) -> Steps:
    """End the connections of a domain, in slices; none that came after the domain was opened again."""
    sessions = services.sessions
    for count, session in enumerate(list(sessions.opened.values()), 1):
        if sessions.closed_because is None:
            break
        if session.id in sessions.opened:
            session.disconnect(reason)
        if count % _CLOSED_PER_SLICE == 0:
            yield None
    return None
