"""Queues and addresses that are to be created."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from attrs import NOTHING, evolve, frozen

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.address_settings import ResolvedSettings
from artemis_py.core.settings.declaration import Kind, check_kinds, with_partial
from artemis_py.core.settings.queue_settings import (
    RESOLVED_ATTRIBUTES,
    Mutability,
    Place,
    QueueSettings,
    queue_attribute,
    queue_attributes_of,
)


@frozen(kw_only=True, init=False, field_transformer=with_partial(RESOLVED_ATTRIBUTES))
class QueueConfig:
    """A queue to be created.

    It also has a field for each attribute of `QueueSettings`; None leaves the decision to the settings of the address.
    """

    name: str = queue_attribute(
        Kind.TEXT,
        NOTHING,
        "Unique in the whole broker.",
        place=Place.STRUCTURE,
        mutability=Mutability.FIXED,
    )
    address: str = queue_attribute(
        Kind.TEXT,
        NOTHING,
        "The address it is bound to.",
        place=Place.STRUCTURE,
        mutability=Mutability.FIXED,
    )
    routing_type: RoutingType | None = queue_attribute(  # noqa: RUF009  it makes a field
        RoutingType,
        None,
        "Whether it shares the messages of the address with others, or gets all of them.",
        place=Place.STRUCTURE,
    )
    durable: bool = queue_attribute(
        Kind.BOOLEAN,
        True,
        "Whether the queue and its durable messages survive a restart.",
        place=Place.ELEMENT,
        mutability=Mutability.FIXED,
    )
    filter: str | None = queue_attribute(
        Kind.TEXT,
        None,
        "Selector that messages must satisfy to get in.",
        json="filter-string",
        place=Place.STRUCTURE,
    )
    user: str | None = queue_attribute(
        Kind.TEXT,
        None,
        "User that the queue belongs to: the only one that may consume from a durable subscription, apart from those "
        "that may delete it. For other queues it only informs.",
        place=Place.ELEMENT,
    )
    enabled: bool = queue_attribute(Kind.BOOLEAN, True, "A disabled queue gets no new messages.")
    configuration_managed: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "Declared in broker.xml: never deleted on its own.",
        json=None,
        place=Place.NOWHERE,
        mutability=Mutability.BROKER,
    )
    temporary: bool = False
    internal: bool = False
    auto_created: bool = False
    creator: str | None = None
    """The user whose client creates it; empty for clients without a user, None if no client does."""

    def __init__(self, *, name: str, address: str, **values: Any) -> None:
        """Raise TypeError for an unknown field, and for a value that is not of its kind."""
        check_kinds(values, RESOLVED_ATTRIBUTES)
        self.__attrs_init__(name=name, address=address, **values)

    def changed(self, **changes: Any) -> "QueueConfig":
        """Return a copy with other values for some fields; raises as the constructor does."""
        return evolve(self, **changes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Satisfy type checkers: the fields of `QueueSettings` are known at run time only."""

    def resolved(self, settings: ResolvedSettings) -> QueueSettings:
        """Return the values that apply to the queue on an address with these settings.

        Queues that set the same values share the result, as most of a hundred thousand subscriptions do.
        """
        key = (_said(self), self.auto_created, self.configuration_managed or self.temporary)
        found = settings.resolved_queues.get(key)
        if found is None:
            if len(settings.resolved_queues) >= MAX_SHARED:
                settings.resolved_queues.clear()
            found = settings.resolved_queues[key] = self._resolve(settings)
        return found

    def _resolve(self, settings: ResolvedSettings) -> QueueSettings:
        said = {name: value for name in RESOLVED_ATTRIBUTES if (value := getattr(self, name)) is not None}
        if "auto_delete" not in said:  # artemis-model §2.4
            wanted = settings.auto_delete_queues if self.auto_created else settings.auto_delete_created_queues
            said["auto_delete"] = wanted and not self.configuration_managed and not self.temporary
        return evolve(settings.queue_defaults, **said)


_said: Final = attrgetter(*RESOLVED_ATTRIBUTES)

MAX_SHARED: Final = 1000
"""Number of results that one set of address settings keeps to be shared; each is some 100 bytes."""

QUEUE_ATTRIBUTES: Final = (*queue_attributes_of(QueueConfig), *RESOLVED_ATTRIBUTES.values())
"""Every attribute that can be set for a queue."""

QUEUE_OPTIONS: Final = tuple(
    each for each in QUEUE_ATTRIBUTES if each.place is Place.ATTRIBUTE or each.place is Place.ELEMENT
)
"""The plain attributes and child elements of `<queue>` in broker.xml."""

CHANGEABLE: Final = frozenset(each.attribute for each in QUEUE_ATTRIBUTES if each.mutability is not Mutability.FIXED)
"""Fields of `QueueConfig` that can be changed for an existing queue."""


@frozen(kw_only=True)
class AddressConfig:
    """An address of broker.xml with its queues."""

    name: str
    routing_types: frozenset[RoutingType]
    queues: tuple[QueueConfig, ...] = ()
