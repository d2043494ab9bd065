"""Exchanges of a configuration: what differs, what that means for users, and how a virtual host follows.

Exchanges and bindings that clients and administrators made stay as they are, unless the configuration has one of the
same name: it decides about that one from then on. A binding that a configuration does not have any more is removed at
once, because it has no messages. An exchange stays, because clients may have bound queues to it, unless the address
settings of its name say `config-delete-addresses=FORCE`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from attrs import evolve, frozen

from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.exchanges.binding import ExchangeBinding
from artemis_py.core.routing.exchanges.exchange import Exchange
from artemis_py.core.routing.exchanges.exchanges import PREDECLARED, Exchanges
from artemis_py.core.settings.address_settings import DeletionPolicy
from artemis_py.core.settings.exchange_config import (
    BindingConfig,
    DeclaredExchanges,
    Destination,
    ExchangeConfig,
    ExchangeLifetime,
)
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.deployment.changes import Change, text_of
from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)


def restore_exchanges(exchanges: Exchanges) -> None:
    """Make the exchanges and bindings of earlier runs, and log those that cannot be made."""
    for problem in exchanges.restore():
        LOGGER.error("stored exchange or binding is not used: %s", problem)


# -- changes -------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class ExchangeChange(Change):
    """One difference between the exchanges or bindings of two configurations."""

    exchange: ExchangeConfig
    """The exchange that is wanted, or that is removed; that of a binding."""
    file: str = ""
    line: int = 0
    """Place of the exchange or binding; 0 if the configuration does not have it."""

    @property
    def element(self) -> str:
        return f'exchange "{self.exchange.name}"'


@frozen(kw_only=True)
class CreateExchange(ExchangeChange):
    """An exchange is new; it gets its alternate afterwards, because two may be each other's."""

    @property
    def consequence(self) -> str:
        return f"is created as a {described(self.exchange)}"


@frozen(kw_only=True)
class ChangeExchange(ExchangeChange):
    """An exchange has another alternate, or does something else with messages that reach no queue."""

    before: ExchangeConfig

    @property
    def consequence(self) -> str:
        names = ("alternate", "unroutable")
        values = [(name, getattr(self.before, name), getattr(self.exchange, name)) for name in names]
        changes = [f"{name} {text_of(one)} becomes {text_of(other)}" for name, one, other in values if one != other]
        return ", ".join(changes) or "follows the configuration from now on"


@frozen(kw_only=True)
class KeepExchange(ExchangeChange):
    """An exchange should have another type, durability or lifetime; it stays as it is with its bindings."""

    before: ExchangeConfig

    @property
    def consequence(self) -> str:
        text = f"stays a {described(self.before)}, so that its bindings are kept; delete it to get it as configured"
        if self.before.type is self.exchange.type:
            return text
        return f"{text}; bindings that the configuration has for a {self.exchange.type.value} exchange are not made"


@frozen(kw_only=True)
class RemoveExchange(ExchangeChange):
    """An exchange is no longer in the configuration, and `config-delete-addresses` is FORCE for its name."""

    @property
    def consequence(self) -> str:
        return "is deleted with all its bindings, those of clients too; queues and their messages stay"


@frozen(kw_only=True)
class SetBinding(ExchangeChange):
    """A binding is new or has other arguments."""

    binding: BindingConfig
    before: BindingConfig | None = None
    """The binding as it is; None if there is none."""

    @property
    def element(self) -> str:
        return f'binding of {self.binding.exchange} with key "{self.binding.key}"'

    @property
    def consequence(self) -> str:
        to = self.binding.destination
        if self.before is None:
            return f"leads to {to}"
        if self.before.is_like(self.binding):
            return f"to {to} follows the configuration from now on"
        return f"to {to} has the arguments {dict(self.binding.arguments)} in place of {dict(self.before.arguments)}"


@frozen(kw_only=True)
class RemoveBinding(ExchangeChange):
    """A binding is no longer in the configuration."""

    binding: BindingConfig

    @property
    def element(self) -> str:
        return f'binding of {self.binding.exchange} with key "{self.binding.key}"'

    @property
    def consequence(self) -> str:
        return f"no longer leads to {self.binding.destination}"


def described(config: ExchangeConfig) -> str:
    """Return the attributes of an exchange that never change, in words."""
    durable = "durable" if config.durable else "non-durable"
    ends = "" if config.lifetime is ExchangeLifetime.PERMANENT else ", which ends with its last binding"
    return f"{durable} {config.type.value} exchange{ends}"


# -- what differs --------------------------------------------------------------------------------------------------


def released_alternates(running: DeclaredExchanges, wanted: DeclaredExchanges) -> Iterator[Change]:
    """Yield what takes queues away from exchanges as their alternates; before addresses, so that these can go."""
    after = {exchange.name: exchange for exchange in wanted.exchanges}
    for before in running.exchanges:
        now = after.get(before.name)
        alternate = before.alternate
        if now is not None and alternate is not None and alternate.is_queue and alternate != now.alternate:
            line = _line(wanted, now)
            yield ChangeExchange(before=before, exchange=evolve(before, alternate=None), file=wanted.file, line=line)


def exchange_changes(
    running: DeclaredExchanges, wanted: DeclaredExchanges, settings: Callable[[], SettingsRepository]
) -> Iterator[Change]:
    """Yield the other changes, after those of addresses: bindings and alternates need their queues.

    What is new comes before what is removed, because an exchange may end with its last binding. `settings` makes the
    address settings that are wanted; it is called if an exchange is gone.
    """
    there = {exchange.name: exchange for exchange in running.exchanges}
    kept: set[str] = set()
    created: list[ExchangeConfig] = []
    for exchange in wanted.exchanges:
        before = there.get(exchange.name)
        if before is None:
            before = evolve(exchange, alternate=None)
            created.append(exchange)
            yield CreateExchange(exchange=before, file=wanted.file, line=_line(wanted, exchange))
        elif _fixed(before) != _fixed(exchange):
            yield KeepExchange(before=before, exchange=exchange, file=wanted.file, line=_line(wanted, exchange))
            if before.type is not exchange.type:
                kept.add(exchange.name)
    for exchange in wanted.exchanges:
        before = evolve(exchange, alternate=None) if exchange in created else there[exchange.name]
        alike = evolve(before, alternate=exchange.alternate, unroutable=exchange.unroutable, configuration_managed=True)
        if alike != before:
            yield ChangeExchange(before=before, exchange=alike, file=wanted.file, line=_line(wanted, exchange))
    yield from _bindings(running, wanted, kept)
    names = {exchange.name for exchange in wanted.exchanges}
    gone = [exchange for exchange in running.exchanges if exchange.name not in names]
    repository = settings() if gone else None
    for exchange in gone:
        if exchange.name in PREDECLARED:
            yield ChangeExchange(before=exchange, exchange=ExchangeConfig(name=exchange.name, type=exchange.type))
        elif repository is not None:
            policy = repository.resolve(exchange.name).config_delete_addresses
            if policy is DeletionPolicy.FORCE:
                yield RemoveExchange(exchange=exchange)


def _bindings(running: DeclaredExchanges, wanted: DeclaredExchanges, kept: set[str]) -> Iterator[Change]:
    """Yield the changes of bindings, except those of the exchanges in `kept`."""
    there = {binding.identity: binding for binding in running.bindings}
    managed = {exchange.name: exchange for exchange in [*running.exchanges, *wanted.exchanges]}
    identities = set()
    for binding in wanted.bindings:
        identities.add(binding.identity)
        before = there.get(binding.identity)
        if binding.exchange not in kept and (before is None or not before.is_declared or not before.is_like(binding)):
            source = managed[binding.exchange]
            yield SetBinding(exchange=source, binding=binding, before=before, file=wanted.file, line=binding.line)
    for identity, binding in there.items():
        if identity not in identities and binding.exchange not in kept:
            yield RemoveBinding(exchange=managed[binding.exchange], binding=binding)


def _fixed(config: ExchangeConfig) -> tuple[object, ...]:
    """Return what cannot change."""
    return config.type, config.durable, config.lifetime


def _line(wanted: DeclaredExchanges, exchange: ExchangeConfig) -> int:
    return wanted.lines.get(exchange.name, 0)


# -- a virtual host that follows -----------------------------------------------------------------------------------


def existing_exchanges(domain: Domain, wanted: DeclaredExchanges) -> DeclaredExchanges:
    """Return the exchanges and bindings of a host that a plan to `wanted` may change, whoever made them."""
    exchanges = domain.exchanges
    names = {exchange.name for exchange in wanted.exchanges} | {each.source.name for each in exchanges.declared}
    found = [each.config for each in exchanges if each.name in names or each.config.configuration_managed]
    bindings = dict.fromkeys(exchanges.declared)
    for config in wanted.bindings:
        source = exchanges.find(config.exchange)
        binding = None if source is None else source.bindings.get(_identity(config))
        if binding is not None:
            bindings[binding] = None
    return DeclaredExchanges(exchanges=tuple(found), bindings=tuple(_config_of(each) for each in bindings))


def make_exchange_change(domain: Domain, change: ExchangeChange) -> None:
    """Make a change, whatever became of the exchange since the plan was made. Raises Refusal."""
    exchanges = domain.exchanges
    existing = exchanges.find(change.exchange.name)
    if isinstance(change, RemoveExchange):
        if existing is not None:
            exchanges.delete(existing, force=True)
    elif isinstance(change, RemoveBinding):
        if existing is not None:
            exchanges.unbind(existing, change.binding.key, change.binding.destination)
    elif isinstance(change, KeepExchange):
        LOGGER.warning("stored exchange differs from broker.xml: %s", change)
    elif isinstance(change, SetBinding):
        # It may have ended with a queue that was deleted before.
        source = exchanges.declare(change.exchange) if existing is None else existing
        config = change.binding
        arguments = dict(config.arguments)
        exchanges.bind(source, config.key, config.destination, arguments, replace=True, is_declared=True)
    elif existing is None:
        exchanges.declare(change.exchange)
    else:
        _follow(exchanges, existing, change.exchange)


def _follow(exchanges: Exchanges, exchange: Exchange, config: ExchangeConfig) -> None:
    changed = evolve(
        exchange.config,
        alternate=config.alternate,
        unroutable=config.unroutable,
        configuration_managed=config.configuration_managed,
    )
    exchanges.update(exchange, changed)


def _identity(config: BindingConfig) -> tuple[str, bool, str]:
    return config.key, config.destination.is_queue, config.destination.name


def _config_of(binding: ExchangeBinding) -> BindingConfig:
    key, is_queue, name = binding.identity
    return BindingConfig(
        exchange=binding.source.name,
        destination=Destination(name, is_queue),
        key=key,
        arguments=tuple(binding.arguments.items()),
        is_declared=binding.is_declared,
    )
