"""What the mesh reports: members that come and go, and what must never happen."""

from attrs import frozen

from artemis_py.core.runtime.events import Event


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
class TakenAside(Event):
    """A message from another broker could not be put into its queue, and went to the dead-letter address."""

    cluster: str
    queue: str
    reason: str
