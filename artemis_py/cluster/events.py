"""What the mesh reports: members that come and go, and what must never happen."""

from attrs import frozen

from artemis_py.core.runtime.events import Event


@frozen
class MeshStarted(Event):
    """This broker connects to others, and lets them in."""

    cluster: str


@frozen
class MeshStopped(Event):
    """This broker has ended its connections to others, and makes and takes none."""

    cluster: str


@frozen
class PeerUp(Event):
    """Messages may go to another broker, and come from it."""

    cluster: str
    node_id: str
    name: str
    peer: str


@frozen
class PeerDown(Event):
    """The connection to another broker ended; what was on its way is in doubt until it is back."""

    cluster: str
    node_id: str
    name: str
    reason: str
    in_doubt: int
    """Number of messages that are claimed for it."""


@frozen
class TablesDiffer(Event):
    """This broker's tables do not say what the other one has: everything is told again."""

    cluster: str
    name: str


@frozen
class ChannelGap(Event):
    """Another broker's store is older than what it had confirmed, or this one's older than what the other has seen."""

    cluster: str
    name: str
    detail: str


@frozen
class NotCopied(Event):
    """Subscriptions at other brokers miss a message; reported once for each address and reason."""

    cluster: str
    address: str
    reason: str


@frozen
class NotRetained(Event):
    """A retained message of another broker was not kept here; subscribers here will not find it."""

    cluster: str
    topic: str
    reason: str


@frozen
class NamesNotTold(Event):
    """Clients here have more temporary addresses, under names that they chose, than other brokers are told of."""

    cluster: str
    limit: int


@frozen
class TakenAside(Event):
    """A message from another broker could not be put into its queue, and went to the dead-letter address."""

    cluster: str
    queue: str
    reason: str


@frozen
class LargeNotMoved(Event):
    """A large message stays at its broker: its body cannot be read there, or not be kept where it was to go."""

    cluster: str
    queue: str
    name: str
    """Name of the other broker."""
    reason: str


@frozen
class KeptElsewhere(Event):
    """A consumer here gets nothing of what another broker has in a queue, because that queue needs one broker.

    Or the other way round, if `is_here`: consumers elsewhere get nothing of the queue of this broker.
    """

    cluster: str
    queue: str
    name: str
    """Name of the other broker."""
    is_here: bool


@frozen
class PeerParting(Event):
    """Another broker is being drained, stays after all, or has left."""

    cluster: str
    node_id: str
    name: str
    state: str
    """A word of `departures.Parting`."""


@frozen
class DrainChanged(Event):
    """This broker is being drained, is empty, has left the mesh, or stays after all."""

    cluster: str
    state: str
    """A word of `departures.Parting`."""
    remaining: int
    """Messages that are left in queues of the mesh."""


@frozen
class MemberForgotten(Event):
    """A member was forgotten, here or at another broker, by the word of an operator or because it has left."""

    cluster: str
    node_id: str
    name: str
    in_doubt: int
    """Number of messages that were on their way to it, and are back in their queues."""
    returned: int
    """Number of messages that waited for it, and go into queues of this broker."""
