"""Applies a plan to a broker: the only place that decides what may change in a running broker, and how.

A start and a reload work the same way. Clients and administrators also create and delete, so the broker may have
changed since the plan was made. If a queue to be created already exists, it is changed instead, and the other way
round.
"""

from typing import Final, Protocol

from attrs import evolve

from artemis_py.config.broker_config import BrokerConfig, VirtualHostSection
from artemis_py.config.letters import unserved
from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import queues_of
from artemis_py.core.queues.rules.last_value import is_as_declared
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.queue_config import CHANGEABLE, AddressConfig, QueueConfig
from artemis_py.deployment.changes import (
    Change,
    ChangeAddress,
    ChangeBrokerConnection,
    ChangeQueue,
    CreateAddress,
    CreateQueue,
    DeleteAddress,
    DeleteQueue,
    KeepQueue,
    RemoveAddressSettings,
    RemovePermissions,
    SetAddressSettings,
    SetPermissions,
)
from artemis_py.deployment.diverts import (
    DivertChange,
    adopt_diverts,
    declared_addresses,
    existing_diverts,
    make_divert_change,
    warn_of_circles,
)
from artemis_py.deployment.exchanges import ExchangeChange, existing_exchanges, make_exchange_change
from artemis_py.deployment.host_changes import HostChange, InHost
from artemis_py.deployment.plan import EMPTY, Plan, may_delete
from artemis_py.errors import ConfigError, Problem, Refusal
from artemis_py.logs import named_logger
from artemis_py.security.permissions import AccessRules
from artemis_py.security.revocation import apply_rules
from artemis_py.store.disk import DiskLimit, DiskMonitor

LOGGER: Final = named_logger(__name__)

REASON: Final = "it is no longer in the configuration"
"""Reason that the consumers of a deleted queue are given."""


class HostsFollower(Protocol):
    """The virtual hosts, which follow a configuration as well; see `virtual_hosts`."""

    def running(self, wanted: BrokerConfig) -> tuple[VirtualHostSection, ...]:
        """Return the hosts that exist, each with the contents that a plan to `wanted` can change."""

    def apply(self, plan: Plan, reached: BrokerConfig) -> tuple[list[Problem], tuple[VirtualHostSection, ...]]:
        """Apply what a plan has for virtual hosts; return what was refused, and the hosts as they are now."""


class ConnectionsFollower(Protocol):
    """The connections to other brokers, which follow a configuration as well; see `broker_connections`."""

    def change(self, change: ChangeBrokerConnection) -> None:
        """Make, end or replace a connection. Raises ConfigError for files of TLS."""


class Deployment:
    """The configuration that a broker follows, and the parts to which changes of it are applied."""

    hosts: "HostsFollower | None" = None
    """The virtual hosts; None for the contents of a virtual host, and before recovery."""
    connections: "ConnectionsFollower | None" = None
    """The connections to other brokers; None as for `hosts`."""

    def __init__(self, sessions: Sessions, rules: AccessRules | None = None, disk: DiskMonitor | None = None) -> None:
        """Create it. Without `rules` all clients may do everything; without a `disk` there is no disk limit."""
        self.config: BrokerConfig = EMPTY
        """Configuration in force, as far as broker.xml determines it; see `running`."""
        self._sessions: Final = sessions
        self._domain: Final = sessions.domain
        self._rules: Final = rules
        self._disk: Final = disk

    def running(self, wanted: BrokerConfig) -> BrokerConfig:
        """Return the configuration in force, with the addresses, queues, exchanges and diverts that exist.

        It is compared with `wanted`, and contains only what a plan to `wanted` can change. If the plan may delete,
        these are all addresses that were not created on demand; otherwise only those that `wanted` names, so a start
        need not look at every queue.
        """
        if self.config is EMPTY:
            return EMPTY
        domain = self._domain
        names = {address.name for address in declared_addresses(wanted)}
        for address in wanted.addresses:
            names |= {domain.queues[each.name].address.name for each in address.queues if each.name in domain.queues}
        if may_delete(wanted):
            own = domain.options.management_notification_address
            names |= {each.name for each in domain.addresses.values() if _is_declared(each) and each.name != own}
        found = [domain.addresses[name] for name in sorted(names) if name in domain.addresses]
        addresses = tuple([_described(address) for address in found])
        diverts = existing_diverts(domain, [*self.config.diverts, *wanted.diverts], wanted)
        exchanges = existing_exchanges(domain, wanted.exchanges)
        hosts = () if self.hosts is None else self.hosts.running(wanted)
        return evolve(self.config, addresses=addresses, diverts=diverts, exchanges=exchanges, virtual_hosts=hosts)

    def apply(self, plan: Plan) -> list[Problem]:
        """Apply the plan, except for changes that need a restart; return the changes that were refused.

        Call it in a turn, or plan a turn after it, because there may be messages to deliver to consumers.
        """
        problems: list[Problem] = []
        missed: list[Change] = []
        changes_permissions = False
        for change in plan.changes:
            if isinstance(change, HostChange | InHost):
                continue
            if change.needs_restart:
                missed.append(change)
                continue
            try:
                self._make(change)
                changes_permissions |= isinstance(change, SetPermissions | RemovePermissions)
            except Refusal as refusal:
                missed.append(change)
                problems.append(_problem(plan, change, refusal))
            except ConfigError as error:
                missed.append(change)
                problems += error.problems
        self.config = plan.reached(missed)
        adopt_diverts(self._domain, self.config.diverts)
        self._use_options()
        if changes_permissions:
            apply_rules(self._sessions)
        if self.hosts is not None:
            refused, sections = self.hosts.apply(plan, self.config)
            self.config = evolve(self.config, virtual_hosts=sections)
            problems += refused
        return problems

    def warn_of_circles(self) -> None:
        """Log the circles of diverts that broker.xml alone does not show."""
        warn_of_circles(self._domain, self.config)

    def warn_of_lost_letters(self) -> None:
        """Log the dead-letter and expiry addresses that have no queue, not even one from an earlier run."""
        for each in unserved(self.config, self._has_queue):
            LOGGER.warning(
                "%s has no queue, messages are discarded: match=%s address=%s; %s",
                each.setting,
                each.match,
                each.target,
                each.remedy,
            )

    def _has_queue(self, address: str, queue: str | None) -> bool:
        domain = self._domain
        if queue is not None:
            return domain.find_queue(f"{address}::{queue}") is not None
        existing = domain.addresses.get(address)
        return bool(existing is not None and existing.bindings) or domain.has_wildcard_queue(address)

    def _make(self, change: Change) -> None:
        """Make one change. Raises Refusal. `_use_options` applies all options together; acceptors need a restart."""
        domain, rules = self._domain, self._rules
        match change:
            case SetAddressSettings():
                domain.settings.put(change.match, change.after)
            case RemoveAddressSettings():
                domain.settings.remove(change.match)
            case SetPermissions() if rules is not None:
                rules.put(change.match, change.grants)
            case RemovePermissions() if rules is not None:
                rules.remove(change.match)
            case CreateAddress() | ChangeAddress():
                self._have_address(change.name, change.routing_types)
            case DeleteAddress() if change.name in domain.addresses:
                domain.delete_address(change.name, force=True, reason=REASON)
            case CreateQueue():
                self._have_queue(change.queue)
            case ChangeQueue() | KeepQueue():
                self._have_queue(change.after)
            case DeleteQueue() if change.name in domain.queues:
                domain.delete_queue(change.name, force=True, reason=REASON)
            case DivertChange():
                make_divert_change(domain, change)
            case ExchangeChange():
                make_exchange_change(domain, change)
            case ChangeBrokerConnection() if self.connections is not None:
                self.connections.change(change)

    def _have_address(self, name: str, routing_types: frozenset[RoutingType]) -> None:
        """Create an address or set its routing types; it keeps the types that its queues need."""
        existing = self._domain.addresses.get(name)
        if existing is None:
            self._domain.create_address(name, routing_types)
        else:
            bound = {queue.routing_type for queue in queues_of(existing)}
            self._domain.update_address(name, routing_types | bound)

    def _have_queue(self, config: QueueConfig) -> None:
        """Create a queue, or change the one with its name; messages and unchangeable attributes stay as they are."""
        domain = self._domain
        existing = domain.queues.get(config.name)
        if existing is None:
            domain.create_queue(config)
        elif existing.address.name != config.address or existing.durable != config.durable:
            LOGGER.warning(
                "stored queue differs from broker.xml and stays as it is: name=%s address=%s durable=%s",
                config.name,
                existing.address.name,
                existing.durable,
            )
        else:
            if not is_as_declared(config, existing.config):
                LOGGER.warning(
                    "stored queue stays as it is, delete it to have it as broker.xml says: name=%s last-value=%s "
                    "last-value-key=%s",
                    config.name,
                    existing.settings.last_value,
                    existing.settings.last_value_key,
                )
            domain.update_queue(config.name, {name: getattr(config, name) for name in CHANGEABLE})

    def _use_options(self) -> None:
        """Give the parts the options of the whole broker that can change while it runs (`plan.AT_RUN_TIME`)."""
        config = self.config
        before = self._domain.options
        self._domain.set_options(config.settings)
        if before != config.settings:
            self._sessions.options_changed()
        if self._domain.host == 0:
            # Users are the same in all virtual hosts.
            users, limits = self._domain.dispatcher.users, config.resource_limit_settings
            users.max_connections = {user: limit.max_connections for user, limit in limits.items()}
            users.max_queues = {user: limit.max_queues for user, limit in limits.items()}
        self._domain.creations.limit = config.login.max_auto_created_per_user
        if self._disk is not None:
            self._disk.limit = DiskLimit.of(config.max_disk_usage, config.min_disk_free_bytes)
            self._disk.period_s = config.disk_scan_period_ms / 1000


def _is_declared(address: Address) -> bool:
    """Tell whether an address or one of its queues was created by name; others are deleted automatically."""
    if address.temporary or address.internal:
        return False
    return not address.auto_created or any(queue.configuration_managed for queue in queues_of(address))


def _described(address: Address) -> AddressConfig:
    """Return an address as a configuration would describe it."""
    queues = [queue for queue in queues_of(address) if not queue.config.temporary]
    configs = [
        queue.config
        if queue.config.routing_type is queue.routing_type
        else queue.config.changed(routing_type=queue.routing_type)
        for queue in queues
    ]
    return AddressConfig(name=address.name, routing_types=address.routing_types, queues=tuple(configs))


def _problem(plan: Plan, change: Change, refusal: Refusal) -> Problem:
    file, line = "configuration", 0
    if isinstance(change, SetAddressSettings):
        file, line = plan.wanted.places.get(change.match, (file, line))
    elif isinstance(change, ExchangeChange) and change.line:
        file, line = change.file, change.line
    return Problem(file, line, change.element, str(refusal))
