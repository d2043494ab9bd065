"""Finds what must change for a broker to match a configuration. Pure: it reads and changes nothing.

A start is the plan from `EMPTY`, in which nothing needs a restart; a reload is the plan from the configuration in
force. The addresses, queues, exchanges and diverts of `running` are those that exist (`Deployment.running`), so the
plan of a change can be shown before it is applied.

No address and no queue is deleted unless the settings of its address say so (`config-delete-queues`,
`config-delete-addresses`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import evolve, fields, frozen

from artemis_py.config.broker_config import BrokerConfig, LoginConfig, VirtualHostSection
from artemis_py.config.resolving import repository_of
from artemis_py.core.queues.rules.last_value import is_as_declared
from artemis_py.core.settings.address_settings import AddressSettings, DeletionPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.declaration import options_of
from artemis_py.core.settings.queue_config import CHANGEABLE, QueueConfig
from artemis_py.deployment.changes import (
    Change,
    ChangeAcceptor,
    ChangeAddress,
    ChangeBrokerConnection,
    ChangeOption,
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
    differs,
)
from artemis_py.deployment.diverts import declared_addresses, diverts_after, removed_diverts, wanted_diverts
from artemis_py.deployment.exchanges import exchange_changes, released_alternates
from artemis_py.deployment.host_changes import HostChange, InHost

EMPTY: Final = BrokerConfig()
"""Empty configuration: every option has its default, and nothing else is declared."""

AT_RUN_TIME: Final = frozenset(
    {
        "configuration_file_refresh_period_ms",
        "disk_scan_period_ms",
        "global_max_messages",
        "global_max_size_bytes",
        "graceful_shutdown_enabled",
        "graceful_shutdown_timeout_ms",
        "id_cache_size",
        "max_auto_created_per_user",
        "max_disk_usage",
        "min_disk_free_bytes",
        "populate_validated_user",
        "reject_empty_validated_user",
        "resource_limit_settings",
        "suppress_session_notifications",
        "transaction_timeout_ms",
    }
)
"""Options of the whole broker that can change while it runs; all others need a restart."""

_NOT_OPTIONS: Final = frozenset(
    {
        "acceptors",
        "address_settings",
        "addresses",
        "broker_connections",
        "diverts",
        "exchanges",
        "login",
        "places",
        "roles",
        "security_settings",
        "settings",
        "virtual_hosts",
        "warnings",
    }
)
"""Attributes of BrokerConfig that are compared separately, or only describe the file."""

Options = BrokerConfig | BrokerSettings | LoginConfig
"""Classes with options of the whole broker."""


@frozen
class Plan:
    """Changes to make, in this order."""

    running: BrokerConfig
    wanted: BrokerConfig
    changes: tuple[Change, ...]

    @property
    def needs_restart(self) -> bool:
        """Whether any change takes effect only at the next start."""
        return any(change.needs_restart for change in self.changes)

    def reached(self, missed: Sequence[Change]) -> BrokerConfig:
        """Return the configuration in force after all changes except the `missed` ones."""
        running, wanted = self.running, self.wanted
        settings, permissions = dict(wanted.address_settings), dict(wanted.security_settings)
        kept: dict[type, dict[str, Any]] = {BrokerConfig: {}, BrokerSettings: {}, LoginConfig: {}}
        acceptors = wanted.acceptors
        connections = {each.options.name: each for each in wanted.broker_connections}
        for change in missed:
            match change:
                case ChangeOption():
                    kept[change.owner][change.attribute] = change.before
                case SetAddressSettings() | RemoveAddressSettings():
                    _put_back(change.match, running.address_settings, settings)
                case SetPermissions() | RemovePermissions():
                    _put_back(change.match, running.security_settings, permissions)
                case ChangeAcceptor():
                    acceptors = running.acceptors
                case ChangeBrokerConnection(before=None):
                    del connections[change.name]
                case ChangeBrokerConnection(before=before) if before is not None:
                    connections[change.name] = before
        return evolve(
            wanted,
            address_settings=settings,
            security_settings=permissions,
            acceptors=acceptors,
            broker_connections=tuple(connections.values()),
            diverts=diverts_after(running, wanted, missed),
            settings=evolve(wanted.settings, **kept[BrokerSettings]),
            login=evolve(wanted.login, **kept[LoginConfig]),
            **kept[BrokerConfig],
        )


def _put_back(match: str, running: Any, values: dict[str, Any]) -> None:
    if match in running:
        values[match] = running[match]
    else:
        values.pop(match, None)


def plan(running: BrokerConfig, wanted: BrokerConfig) -> Plan:
    """Compare two configurations. Raises InvalidRequest for a match of `wanted` that is not legal."""
    is_start = running is EMPTY
    # Matches are interpreted with the wildcards that the broker was built with.
    is_same_syntax = is_start or (
        running.settings.wildcards == wanted.settings.wildcards
        and running.settings.literal_match_markers == wanted.settings.literal_match_markers
    )
    changes = [
        *_options(running, wanted, is_start),
        *_options(running.settings, wanted.settings, is_start),
        *_options(running.login, wanted.login, is_start),
        *_settings(running, wanted, not is_same_syntax),
        *_permissions(running, wanted, not is_same_syntax),
        *_acceptors(running, wanted, is_start),
        *removed_diverts(running, wanted),
        *released_alternates(running.exchanges, wanted.exchanges),
        *_addresses(running, wanted),
        *exchange_changes(running.exchanges, wanted.exchanges, lambda: repository_of(wanted)),
        *wanted_diverts(running, wanted),
        *_broker_connections(running, wanted),
        *_hosts(running, wanted),
    ]
    return Plan(running, wanted, tuple(changes))


def _options(running: Options, wanted: Options, is_start: bool) -> Iterator[Change]:
    owner = type(wanted)
    names = {option.attribute: option.name for option in options_of(owner)}
    for field in fields(owner):
        attribute = field.name
        before, after = getattr(running, attribute), getattr(wanted, attribute)
        if attribute not in _NOT_OPTIONS and before != after:
            yield ChangeOption(
                owner=owner,
                attribute=attribute,
                name=names.get(attribute, attribute.replace("_", "-")),
                before=before,
                after=after,
                needs_restart=not is_start and attribute not in AT_RUN_TIME,
            )


def _settings(running: BrokerConfig, wanted: BrokerConfig, needs_restart: bool) -> Iterator[Change]:
    nothing = AddressSettings()
    for match in running.address_settings:
        if match not in wanted.address_settings:
            yield RemoveAddressSettings(match=match, needs_restart=needs_restart)
    for match, after in wanted.address_settings.items():
        before = running.address_settings.get(match)
        if before != after:
            yield SetAddressSettings(match=match, before=before or nothing, after=after, needs_restart=needs_restart)


def _permissions(running: BrokerConfig, wanted: BrokerConfig, needs_restart: bool) -> Iterator[Change]:
    for match in running.security_settings:
        if match not in wanted.security_settings:
            yield RemovePermissions(match=match, needs_restart=needs_restart)
    for match, grants in wanted.security_settings.items():
        if running.security_settings.get(match) != grants:
            yield SetPermissions(match=match, grants=grants, needs_restart=needs_restart)


def _acceptors(running: BrokerConfig, wanted: BrokerConfig, is_start: bool) -> Iterator[Change]:
    # The place in the file where an acceptor is declared makes no difference.
    before = {each.name: evolve(each, file="", line=0) for each in running.acceptors}
    after = {each.name: evolve(each, file="", line=0) for each in wanted.acceptors}
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield ChangeAcceptor(name=name, before=before.get(name), after=after.get(name), needs_restart=not is_start)


def _broker_connections(running: BrokerConfig, wanted: BrokerConfig) -> Iterator[Change]:
    before = {each.options.name: each for each in running.broker_connections}
    after = {each.options.name: each for each in wanted.broker_connections}
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield ChangeBrokerConnection(name=name, before=before.get(name), after=after.get(name))


def _addresses(running: BrokerConfig, wanted: BrokerConfig) -> Iterator[Change]:
    """Yield deletions first: a queue may have moved, and names of queues are unique in the broker."""
    deletions = list(_deletions(running, wanted))
    yield from deletions
    gone = {(type(deletion), deletion.name) for deletion in deletions}
    existing = {each.name: each for each in running.addresses if (DeleteAddress, each.name) not in gone}
    queues = {
        queue.name: queue
        for address in existing.values()
        for queue in address.queues
        if (DeleteQueue, queue.name) not in gone
    }
    for address in declared_addresses(wanted):
        there = existing.get(address.name)
        if there is None:
            yield CreateAddress(name=address.name, routing_types=address.routing_types)
        elif there.routing_types != address.routing_types:
            bound = {queue.routing_type for queue in there.queues if queue.routing_type is not None}
            if there.routing_types != address.routing_types | bound:
                yield ChangeAddress(name=address.name, routing_types=address.routing_types)
        for queue in address.queues:
            change = _queue(queues.get(queue.name), queue)
            if change is not None:
                yield change


def _queue(before: QueueConfig | None, after: QueueConfig) -> Change | None:
    if before is None:
        return CreateQueue(queue=after)
    if before.address != after.address or before.durable != after.durable or not is_as_declared(after, before):
        return KeepQueue(before=before, after=after)
    if any(differs(before, after, attribute) for attribute in CHANGEABLE):
        return ChangeQueue(before=before, after=after)
    return None


def _deletions(running: BrokerConfig, wanted: BrokerConfig) -> Iterator[DeleteAddress | DeleteQueue]:
    """Yield deletions of what `wanted` no longer declares, where its settings say FORCE."""
    if not running.addresses or not may_delete(wanted):
        return
    repository = repository_of(wanted)
    addresses = {address.name for address in declared_addresses(wanted)}
    queues = {queue.name for address in wanted.addresses for queue in address.queues}
    for address in running.addresses:
        settings = repository.resolve(address.name)
        if address.name not in addresses and settings.config_delete_addresses is DeletionPolicy.FORCE:
            yield DeleteAddress(name=address.name)
        elif settings.config_delete_queues is DeletionPolicy.FORCE:
            for queue in address.queues:
                if queue.configuration_managed and queue.name not in queues:
                    yield DeleteQueue(name=queue.name, address=address.name)


def _hosts(running: BrokerConfig, wanted: BrokerConfig) -> Iterator[Change]:
    """Yield what differs in virtual hosts: in new and changed ones, and in those that are no longer wanted."""
    before: dict[str, VirtualHostSection] = {each.options.name.lower(): each for each in running.virtual_hosts}
    for section in wanted.virtual_hosts:
        name = section.options.name
        was = before.pop(name.lower(), None)
        # A name keeps the letters that it was created with.
        options = section.options if was is None else evolve(section.options, name=was.options.name)
        if was is None or was.options != options:
            yield HostChange(name=name, before=None if was is None else was.options, after=options)
        for change in plan(EMPTY if was is None else was.contents, section.contents).changes:
            # Options of the whole broker are compared once, for the broker.
            if not isinstance(change, ChangeOption):
                yield InHost(host=name, change=change, needs_restart=change.needs_restart)
    for gone in before.values():
        yield HostChange(name=gone.options.name, before=gone.options, after=None)


def may_delete(wanted: BrokerConfig) -> bool:
    """Tell whether any settings of a configuration delete what it does not declare."""
    return any(
        DeletionPolicy.FORCE in (settings.config_delete_queues, settings.config_delete_addresses)
        for settings in wanted.address_settings.values()
    )
