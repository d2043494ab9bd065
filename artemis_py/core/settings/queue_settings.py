"""The attributes of a queue, each declared once, and the values that finally apply to a queue.

A declaration has everything that other parts need to know about an attribute: its place in broker.xml, its name in the
JSON of management, the right to change it, the address setting that applies if the queue has no value.
docs/configuration.md ("A new setting, a new attribute of queues") lists those parts.
"""

from enum import Enum
from typing import Any, Final

from attrs import frozen

from artemis_py.core.settings.declaration import FIRST_RELEASE, Kind, Option, declarations_of, option


class Place(Enum):
    """Place of a queue attribute in broker.xml."""

    ATTRIBUTE = "an attribute of <queue>"
    ELEMENT = "an element in <queue>"
    STRUCTURE = "a form of its own, such as the element around the queue"
    NOWHERE = "not in broker.xml"


class Mutability(Enum):
    """Right to change an attribute of an existing queue; the values say who has it."""

    FIXED = "nobody"
    BROKER = "broker.xml at a start, and the broker itself"
    EVERYBODY = "every client that may change the queue"


@frozen(kw_only=True)
class QueueAttribute(Option):
    """One attribute of a queue."""

    json: str | None
    """Name in the JSON of management; None: not visible there."""
    place: Place
    mutability: Mutability
    setting: Option | None
    """Address setting that applies if the queue has no value."""
    in_file: object
    """Value for a queue of broker.xml that has none; None: the address setting applies there too."""

    @property
    def shown(self) -> str:
        """Name under which management shows the attribute, as in `getMaxConsumers`."""
        words = (self.json or self.name).removesuffix("-string").split("-")
        return "".join(word.capitalize() for word in words)


def queue_attribute(
    kind: Kind | type[Enum],
    default: object,
    help: str,
    *,
    name: str | None = None,
    json: str | None = "",
    place: Place = Place.ATTRIBUTE,
    mutability: Mutability = Mutability.EVERYBODY,
    setting: str | None = None,
    in_file: object = None,
    minimum: float | None = None,
    maximum: float | None = None,
    since: str = FIRST_RELEASE,
) -> Any:  # an attrs field, whatever the annotation beside it says
    """Declare a queue attribute; see `QueueAttribute`. Without `json` its name in JSON is that in broker.xml.

    `setting` names the address setting that applies if the queue has no value; it needs no declaration of its own.
    """
    return option(
        kind,
        default,
        help,
        name=name,
        minimum=minimum,
        maximum=maximum,
        since=since,
        json=json,
        place=place,
        mutability=mutability,
        setting=setting,
        in_file=in_file,
    )


def queue_attributes_of(owner: type) -> tuple[QueueAttribute, ...]:
    """Return the attributes declared in an attrs class, in order."""
    return tuple(_queue_attribute(declared) for declared in declarations_of(owner))


def _queue_attribute(declared: dict[str, Any]) -> QueueAttribute:
    if declared["json"] == "":
        declared["json"] = declared["name"]
    name = declared["setting"]
    if name is not None:
        shared = {key: declared[key] for key in ("kind", "default", "minimum", "maximum", "since")}
        declared["setting"] = Option(
            name=name, attribute=name.replace("-", "_"), help=_help_of_setting(declared), **shared
        )
    return QueueAttribute(**declared)


def _help_of_setting(declared: dict[str, Any]) -> str:
    help: str = declared["help"]
    text = f"For queues that do not say otherwise: {help[0].lower()}{help[1:]}"
    if declared["in_file"] is not None:
        value = str(declared["in_file"]).lower()
        text += f" Does not apply to queues declared in broker.xml, as in Artemis: their default is `{value}`."
    return text


class RingEviction(Enum):
    """Message that a full ring removes to make room."""

    OLDEST = "the oldest message"
    HEAD = "the head of the queue"
    """As in Artemis: the oldest message of the highest priority that waits."""


@frozen(kw_only=True)
class QueueSettings:
    """Values that apply to one queue, with defaults from its address; delays in milliseconds (artemis-model §2.2).

    The settings of an address contain one of these, with the defaults.
    """

    max_consumers: int = queue_attribute(
        Kind.COUNT,
        -1,
        "Consumers that may share the queue; -1: no limit, 0: none.",
        setting="default-max-consumers",
    )
    exclusive: bool = queue_attribute(
        Kind.BOOLEAN, False, "Deliver to one consumer at a time.", setting="default-exclusive-queue"
    )
    purge_on_no_consumers: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "Keep messages only while the queue has consumers.",
        setting="default-purge-on-no-consumers",
        in_file=False,
    )
    consumers_before_dispatch: int = queue_attribute(
        Kind.COUNT,
        0,
        "Consumers to wait for before the first delivery.",
        setting="default-consumers-before-dispatch",
        minimum=0,
    )
    delay_before_dispatch_ms: int = queue_attribute(
        Kind.MILLISECONDS,
        -1,
        "Deliver after this time even if consumers are missing; -1: wait for them.",
        name="delay-before-dispatch",
        setting="default-delay-before-dispatch",
    )
    group_buckets: int = queue_attribute(
        Kind.COUNT,
        -1,
        "Groups whose ids have the same hash share an owner: the number of different hashes; -1: each group has an "
        "owner of its own, 0: group ids mean nothing.",
        setting="default-group-buckets",
    )
    group_rebalance: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "When a consumer attaches, all groups lose their owners, so that it gets its share of them.",
        setting="default-group-rebalance",
    )
    group_rebalance_pause_dispatch: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "With `group-rebalance`: deliver nothing until consumers have settled what they have.",
        setting="default-group-rebalance-pause-dispatch",
    )
    group_first_key: str | None = queue_attribute(
        Kind.TEXT,
        None,
        "Property that is set to true on the first message that a new owner of a group gets, or a new consumer of an "
        "exclusive queue.",
        setting="default-group-first-key",
    )
    last_value: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "Keep only the last message of each key, which is in property `_AMQ_LVQ_NAME` or `last-value-key`.",
        mutability=Mutability.FIXED,
        setting="default-last-value-queue",
    )
    last_value_key: str | None = queue_attribute(
        Kind.TEXT,
        None,
        "Property with the key of a message; a queue that has this keeps last values.",
        mutability=Mutability.FIXED,
        setting="default-last-value-key",
    )
    non_destructive: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "Each consumer gets every message, and acknowledging removes nothing.",
        setting="default-non-destructive",
    )
    ring_size: int = queue_attribute(
        Kind.COUNT,
        -1,
        "Messages that may wait: when one more arrives, another is removed; -1: no limit.",
        setting="default-ring-size",
        in_file=-1,
    )
    ring_eviction: RingEviction = queue_attribute(  # noqa: RUF009  it makes a field
        RingEviction,
        RingEviction.OLDEST,
        "Message that a full ring removes. OLDEST: the one that has waited longest; HEAD: the next to be delivered, "
        "which is the oldest of the highest priority, as in Artemis.",
        setting="default-ring-eviction",
    )
    # The reference does not call these three changeable, and Artemis' updateQueue ignores them: the creator decides.
    # The broker itself turns auto-delete off when a reader that will come back takes a lease.
    auto_delete: bool = queue_attribute(
        Kind.BOOLEAN,
        False,
        "Delete the queue once it is unused. Unset: `auto-delete-queues` of the address decides if it was created on "
        "demand, `auto-delete-created-queues` if by name.",
        place=Place.NOWHERE,
        mutability=Mutability.BROKER,
    )
    auto_delete_delay_ms: int = queue_attribute(
        Kind.MILLISECONDS,
        0,
        "How long the queue must have been without consumers before it is deleted.",
        name="auto-delete-delay",
        place=Place.NOWHERE,
        mutability=Mutability.BROKER,
        setting="auto-delete-queues-delay",
        minimum=0,
    )
    auto_delete_message_count: int = queue_attribute(
        Kind.COUNT,
        0,
        "With more messages than this it is not deleted; -1: the number does not matter.",
        place=Place.NOWHERE,
        mutability=Mutability.BROKER,
        setting="auto-delete-queues-message-count",
    )


RESOLVED_ATTRIBUTES: Final = {each.attribute: each for each in queue_attributes_of(QueueSettings)}
"""The attributes that have defaults from the address, by field."""

DEFAULT_QUEUE_SETTINGS: Final = QueueSettings()
