"""The possible differences between the configuration in force and the one that is wanted.

Each kind of change is a record that knows its consequences for the broker's users. The records of a kind of element may
be in a module of their own.
"""

from collections.abc import Mapping

from attrs import frozen

from artemis_py.config.broker_config import BrokerConnectionSection, LoginConfig
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS, AddressSettings
from artemis_py.core.settings.queue_config import CHANGEABLE, QueueConfig
from artemis_py.transport.config import AcceptorConfig


@frozen(kw_only=True)
class Change:
    """One difference between two configurations."""

    needs_restart: bool = False
    """Whether the change takes effect only at the next start, so `apply` skips it."""

    @property
    def element(self) -> str:
        """Element of broker.xml that differs, for lists and error texts."""
        raise NotImplementedError

    @property
    def consequence(self) -> str:
        """Effect on messages and clients, for an operator to read before the change is applied."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.element}: {self.consequence}{'; needs a restart' if self.needs_restart else ''}"


@frozen(kw_only=True)
class ChangeOption(Change):
    """An option of the whole broker has another value."""

    owner: type
    """Class of the option's value."""
    attribute: str
    """Name of the option's attribute in that class."""
    name: str
    """Name of the element."""
    before: object
    after: object

    @property
    def element(self) -> str:
        if self.owner is LoginConfig:
            return f"login/{self.name}"
        return self.name if self.attribute == "web" else f"core/{self.name}"

    @property
    def consequence(self) -> str:
        return f"{text_of(self.before)} becomes {text_of(self.after)}"


@frozen(kw_only=True)
class SetAddressSettings(Change):
    """A match has other settings, or is new (`before` is empty then)."""

    match: str
    before: AddressSettings
    after: AddressSettings

    @property
    def element(self) -> str:
        return f'address-setting "{self.match}"'

    @property
    def consequence(self) -> str:
        changes = []
        for option in ADDRESS_SETTINGS:
            before, after = getattr(self.before, option.attribute), getattr(self.after, option.attribute)
            if before != after:
                changes.append(f"{option.name} {text_of(before)} becomes {text_of(after)}")
        return ", ".join(changes) or "says nothing"


@frozen(kw_only=True)
class RemoveAddressSettings(Change):
    """A match of address settings is removed."""

    match: str

    @property
    def element(self) -> str:
        return f'address-setting "{self.match}"'

    @property
    def consequence(self) -> str:
        return "its addresses follow the broader matches"


@frozen(kw_only=True)
class SetPermissions(Change):
    """A match grants other permissions, or is new."""

    match: str
    grants: Mapping[Permission, frozenset[str]]

    @property
    def element(self) -> str:
        return f'security-setting "{self.match}"'

    @property
    def consequence(self) -> str:
        return "clients lose at once what they have open and are no longer allowed to have"


@frozen(kw_only=True)
class RemovePermissions(Change):
    """A match of permissions is removed."""

    match: str

    @property
    def element(self) -> str:
        return f'security-setting "{self.match}"'

    @property
    def consequence(self) -> str:
        return "the broader matches apply; clients lose at once what these do not grant"


@frozen(kw_only=True)
class ChangeAcceptor(Change):
    """An acceptor is new (no `before`), removed (no `after`), or has another URL."""

    name: str
    before: AcceptorConfig | None
    after: AcceptorConfig | None

    @property
    def element(self) -> str:
        return f'acceptor "{self.name}"'

    @property
    def consequence(self) -> str:
        if self.after is None:
            return "stops listening"
        return f"{'listens' if self.before is None else 'changes, and listens'} on {self.after.host}:{self.after.port}"


@frozen(kw_only=True)
class ChangeBrokerConnection(Change):
    """A connection to another broker is new (no `before`), removed (no `after`), or different."""

    name: str
    before: BrokerConnectionSection | None
    after: BrokerConnectionSection | None

    @property
    def element(self) -> str:
        return f'amqp-connection "{self.name}"'

    @property
    def consequence(self) -> str:
        if self.after is None:
            return "ends; what its senders have not sent stays in its queues"
        # Not what is different: it may be the password.
        return f"{'is made' if self.before is None else 'ends, and is made again,'} to {self.after.uri}"


@frozen(kw_only=True)
class CreateAddress(Change):
    """An address is new."""

    name: str
    routing_types: frozenset[RoutingType]

    @property
    def element(self) -> str:
        return f'address "{self.name}"'

    @property
    def consequence(self) -> str:
        return f"is created for {_types(self.routing_types)}"


@frozen(kw_only=True)
class ChangeAddress(Change):
    """An address has other routing types."""

    name: str
    routing_types: frozenset[RoutingType]

    @property
    def element(self) -> str:
        return f'address "{self.name}"'

    @property
    def consequence(self) -> str:
        return f"is for {_types(self.routing_types)}, and keeps a routing type that one of its queues still has"


@frozen(kw_only=True)
class DeleteAddress(Change):
    """An address is no longer in the configuration, and `config-delete-addresses` is FORCE for it."""

    name: str

    @property
    def element(self) -> str:
        return f'address "{self.name}"'

    @property
    def consequence(self) -> str:
        return "is deleted with all its queues and their messages; its consumers are detached"


@frozen(kw_only=True)
class CreateQueue(Change):
    """A queue is new."""

    queue: QueueConfig

    @property
    def element(self) -> str:
        return f'queue "{self.queue.name}"'

    @property
    def consequence(self) -> str:
        return f'is created on address "{self.queue.address}"'


@frozen(kw_only=True)
class ChangeQueue(Change):
    """A queue has other attributes; its messages and consumers stay."""

    before: QueueConfig
    after: QueueConfig

    @property
    def element(self) -> str:
        return f'queue "{self.after.name}"'

    @property
    def consequence(self) -> str:
        names = [each for each in sorted(CHANGEABLE) if differs(self.before, self.after, each)]
        changes = [
            f"{text_of(getattr(self.before, name))} becomes {text_of(getattr(self.after, name))}" for name in names
        ]
        return ", ".join(f"{name} {change}" for name, change in zip(names, changes, strict=True))


@frozen(kw_only=True)
class KeepQueue(Change):
    """A queue should have another address or durability, or keep last values; it stays as it is with its messages."""

    before: QueueConfig
    after: QueueConfig

    @property
    def element(self) -> str:
        return f'queue "{self.after.name}"'

    @property
    def consequence(self) -> str:
        return (
            f'stays on address "{self.before.address}", durable={self.before.durable}, '
            f"last-value={bool(self.before.last_value)}, so that its messages are kept; "
            "delete it to get it as configured"
        )


@frozen(kw_only=True)
class DeleteQueue(Change):
    """A queue is no longer in the configuration, and `config-delete-queues` is FORCE for its address."""

    name: str
    address: str

    @property
    def element(self) -> str:
        return f'queue "{self.name}"'

    @property
    def consequence(self) -> str:
        return f'is deleted from address "{self.address}" with its messages; its consumers are detached'


def differs(before: QueueConfig, after: QueueConfig, attribute: str) -> bool:
    """Tell whether two descriptions of a queue differ in one attribute."""
    return bool(getattr(before, attribute) != getattr(after, attribute))


def text_of(value: object) -> str:
    """Return a value as a plan shows it."""
    return "(unset)" if value is None else str(getattr(value, "value", value))


def _types(routing_types: frozenset[RoutingType]) -> str:
    return " and ".join(sorted(each.name for each in routing_types))
