"""Diverts of a configuration: what differs, what that means for users, and how a running broker follows.

A divert keeps no messages, so one that a configuration does not have any more is removed at once, without a setting
that allows it. Diverts that administrators made stay, unless the configuration has one of the same name, or the
settings of their address say `config-delete-diverts=FORCE`. Diverts made by code (`create_divert`) stay in any case.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.resolving import repository_of
from artemis_py.core.routing.circles import circles
from artemis_py.core.routing.divert import Divert, create_divert, remove_divert, update_divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.undeliverable import BOTH_TYPES
from artemis_py.core.services.diverts import ManagedDiverts
from artemis_py.core.settings.address_settings import DeletionPolicy
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS, DivertConfig
from artemis_py.core.settings.queue_config import AddressConfig
from artemis_py.deployment.changes import Change, text_of
from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)


@frozen(kw_only=True)
class DivertChange(Change):
    """One difference between the diverts of two configurations."""

    divert: DivertConfig
    """The divert that is wanted, or that is removed."""

    @property
    def element(self) -> str:
        return f'divert "{self.divert.name}"'


@frozen(kw_only=True)
class CreateDivert(DivertChange):
    """A divert is new."""

    @property
    def consequence(self) -> str:
        divert = self.divert
        if divert.exclusive:
            return f'takes messages from address "{divert.address}" to "{divert.forwarding_address}"'
        return f'copies messages of address "{divert.address}" to "{divert.forwarding_address}"'


@frozen(kw_only=True)
class ChangeDivert(DivertChange):
    """A divert has other values."""

    before: DivertConfig

    @property
    def consequence(self) -> str:
        names = [
            ("filter", "filter"),
            ("transformer", "transformer"),
            *[(option.attribute, option.name) for option in DIVERT_OPTIONS],
        ]
        values = [(name, getattr(self.before, each), getattr(self.divert, each)) for each, name in names]
        return ", ".join(
            f"{name} {text_of(before)} becomes {text_of(after)}" for name, before, after in values if before != after
        )


@frozen(kw_only=True)
class RemoveDivert(DivertChange):
    """A divert is no longer in the configuration."""

    @property
    def consequence(self) -> str:
        return f'messages of address "{self.divert.address}" no longer go to "{self.divert.forwarding_address}"'


def declared_addresses(config: BrokerConfig) -> tuple[AddressConfig, ...]:
    """Return the addresses of a configuration, and those that only its diverts name, for both routing types."""
    names = {address.name for address in config.addresses}
    others = dict.fromkeys(divert.address for divert in config.diverts if divert.address not in names)
    return (*config.addresses, *[AddressConfig(name=name, routing_types=BOTH_TYPES) for name in others])


def removed_diverts(running: BrokerConfig, wanted: BrokerConfig) -> Iterator[Change]:
    """Yield the removals, which come before everything that may need the name of a divert."""
    names = {divert.name for divert in wanted.diverts}
    for divert in running.diverts:
        if divert.name not in names:
            yield RemoveDivert(divert=divert)


def wanted_diverts(running: BrokerConfig, wanted: BrokerConfig) -> Iterator[Change]:
    """Yield the other changes, which come after those of addresses, because a divert needs its address."""
    existing = {divert.name: divert for divert in running.diverts}
    for divert in wanted.diverts:
        before = existing.get(divert.name)
        if before is None:
            yield CreateDivert(divert=divert)
        elif before != divert:
            yield ChangeDivert(before=before, divert=divert)


def diverts_after(running: BrokerConfig, wanted: BrokerConfig, missed: Iterable[Change]) -> tuple[DivertConfig, ...]:
    """Return the diverts in force after all changes except the `missed` ones."""
    before = {divert.name: divert for divert in running.diverts}
    after = {divert.name: divert for divert in wanted.diverts}
    for change in missed:
        if isinstance(change, DivertChange):
            name = change.divert.name
            if name in before:
                after[name] = before[name]
            else:
                after.pop(name, None)
    return tuple(after.values())


def existing_diverts(domain: Domain, diverts: Iterable[DivertConfig], wanted: BrokerConfig) -> tuple[DivertConfig, ...]:
    """Return the diverts that a domain has under the names of these, as they are, and those that `wanted` removes.

    A divert of an administrator gives way to a queue of its name, because it has no messages to lose.
    """
    names = dict.fromkeys(divert.name for divert in diverts)
    managed = managed_diverts(domain)
    if managed:
        settings = repository_of(wanted)
        queues = {queue.name for address in wanted.addresses for queue in address.queues}
        for divert in managed:
            policy = settings.resolve(divert.address.name).config_delete_diverts
            if policy is DeletionPolicy.FORCE or divert.name in queues:
                names[divert.name] = None
    found = [domain.others.get(name) for name in names]
    return tuple([divert.config for divert in found if isinstance(divert, Divert)])


def managed_diverts(domain: Domain) -> list[Divert]:
    """Return the diverts that administrators made."""
    return [each for each in domain.others.values() if isinstance(each, Divert) and each.keeper is not None]


def adopt_diverts(domain: Domain, diverts: Iterable[DivertConfig]) -> None:
    """Have the configuration decide about its diverts from now on, even if an administrator made them."""
    for config in diverts:
        divert = domain.others.get(config.name)
        if isinstance(divert, Divert) and divert.keeper is not None:
            divert.keeper.divert_removed(divert)


def restore_diverts(diverts: ManagedDiverts) -> None:
    """Make the diverts that administrators made in earlier runs, and log those that cannot be made."""
    for problem in diverts.restore():
        LOGGER.error("stored divert is not used: %s", problem)


def warn_of_circles(domain: Domain, config: BrokerConfig) -> None:
    """Log the circles to which diverts of administrators belong; the reader of broker.xml warns of the others."""
    managed = managed_diverts(domain)
    names = {divert.name for divert in managed}
    if not names:
        return
    for way in circles([*config.diverts, *[divert.config for divert in managed]], domain.options.wildcards):
        if not names.isdisjoint(way):
            LOGGER.warning("diverts form a circle, a message goes through each of them once: %s", " -> ".join(way))


def make_divert_change(domain: Domain, change: DivertChange) -> None:
    """Make a change, whatever became of the divert since the plan was made. Raises Refusal."""
    existing = domain.others.get(change.divert.name)
    if isinstance(change, RemoveDivert):
        if isinstance(existing, Divert):
            remove_divert(domain, existing)
    elif isinstance(existing, Divert):
        update_divert(domain, existing, change.divert)
    else:
        create_divert(domain, change.divert)
