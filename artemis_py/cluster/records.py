"""Control records: what one broker tells another about itself (mesh §5.4); `record_codec` writes and reads them.

All values are absolute, so a record that comes twice or late does no harm.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from attrs import frozen

from artemis_py.core.runtime.carrier import Lane

VERSION: Final = 1
"""Version of records and envelopes that this broker speaks; it understands all from `MIN_VERSION` on."""
MIN_VERSION: Final = 1


Texts = tuple[str, ...] | None
Marks = tuple[tuple[int, int], ...]
Wants = tuple[tuple[str, int, int], ...]


@frozen
class Record:
    """Base class of all records. The fields of a subclass are its fields on the wire."""

    number: ClassVar[int] = 0


@frozen
class SnapshotBegin(Record):
    """Everything that the sender exports to the receiver follows."""

    number: ClassVar[int] = 1


@frozen
class SnapshotEnd(Record):
    """Everything was told; what was not told again does not exist any more."""

    number: ClassVar[int] = 2
    count: int
    digest: int


@frozen
class Digest(Record):
    """Number and combined hash of the records that the receiver must have of the sender now."""

    number: ClassVar[int] = 3
    count: int
    digest: int


@frozen
class Seen(Record):
    """Number of control batches that the sender has processed on this connection."""

    number: ClassVar[int] = 4
    count: int


@frozen
class Resync(Record):
    """The digest differs from what the sender has: it asks for a snapshot."""

    number: ClassVar[int] = 5


@frozen
class Member(Record):
    """A node that belongs to the mesh."""

    number: ClassVar[int] = 10
    node_id: str
    name: str
    urls: Texts


@frozen
class Load(Record):
    """How busy the sender is: its number of clients."""

    number: ClassVar[int] = 11
    clients: int


@frozen
class Leaving(Record):
    """How far the sender is with leaving the mesh: a number of `departures.Parting`."""

    number: ClassVar[int] = 13
    state: int


@frozen
class Forgotten(Record):
    """A node that is no member any more, by the word of an operator, with the number of starts it was known by."""

    number: ClassVar[int] = 14
    node_id: str
    incarnation: int
    since_ms: int


@frozen
class Sees(Record):
    """Nodes that the sender is connected with, the receiver among them."""

    number: ClassVar[int] = 15
    node_ids: Texts


@frozen
class Sight(Record):
    """Whether the sender is connected with one node now: what has changed since it told `Sees`."""

    number: ClassVar[int] = 16
    node_id: str
    is_seen: int


@frozen
class Instance(Record):
    """The queue of one name at the sender; `id` names it on this connection."""

    number: ClassVar[int] = 20
    id: int
    address: str
    queue: str
    placement: int
    filter: str


@frozen
class SharedInstance(Instance):
    """The queue of a subscription that clients of several nodes may share."""

    number: ClassVar[int] = 26
    is_durable: int
    root: int
    """How many nodes away from the receiver clients subscribed to it, or an administrator made it; 1: at the sender, 0:
    nowhere that the sender knows of, and it only collects for others."""


@frozen
class Interest(Record):
    """What subscriptions of one address, or of a pattern of addresses, want of what is published at other nodes."""

    number: ClassVar[int] = 23
    id: int
    node: str
    """Id of the node that has the subscriptions: the sender, or one behind it."""
    distance: int
    """How many nodes away from the receiver that node is; 1: it is the sender."""
    pattern: str
    wants: Texts
    """Selectors of the subscriptions; None: some have none, or there are too many."""
    durable: Texts
    """Selectors of the durable ones; None as above, empty: there are no durable ones."""


@frozen
class Demand(Record):
    """What the consumers of an instance could take."""

    number: ClassVar[int] = 21
    id: int
    wants: Wants = ()
    """For each selector: its text (empty: any message), how many nodes away the nearest such consumer is (1: it is the
    sender's own), and how many consumers there are at that distance, of which at most 64 are told."""

    @property
    def consumers(self) -> int:
        """Number of consumers; 0: there is no demand."""
        return sum([consumers for _, _, consumers in self.wants])

    @property
    def distance(self) -> int:
        """How many nodes away the nearest consumer is."""
        return min([distance for _, distance, _ in self.wants], default=0)


@frozen
class Gone(Record):
    """An instance was deleted."""

    number: ClassVar[int] = 22
    id: int


@frozen
class Ready(Record):
    """The sender has messages for the demand of the receiver, and no grant left."""

    number: ClassVar[int] = 24
    id: int
    is_ready: int


@frozen
class Grant(Record):
    """The receiver may have handed over so many messages for an instance since this connection began."""

    number: ClassVar[int] = 25
    id: int
    total: int


@frozen
class Offer(Record):
    """The sender is being drained, and the receiver may have everything of this queue of the sender (1), or not (0)."""

    number: ClassVar[int] = 27
    address: str
    queue: str
    is_offered: int


@frozen
class AskedTemporary(Record):
    """Clients of the sender send to a temporary address of the receiver: it answers, and tells when that is gone."""

    number: ClassVar[int] = 31
    address: str


@frozen
class ToldTemporary(Record):
    """A temporary address of the sender is there (1), or gone for good (0)."""

    number: ClassVar[int] = 32
    address: str
    is_there: int


@frozen
class RetainedDigest(Record):
    """Digests of the sender's retained messages, 8 octets for each part of all topics (`registers`)."""

    number: ClassVar[int] = 33
    digests: bytes


@frozen
class RetainedStamps(Record):
    """Stamps of the retained messages of one part at the sender, where the receiver has others."""

    number: ClassVar[int] = 34
    bucket: int
    is_last: int
    """Whether (1) all topics of the part were told."""
    topics: Texts
    stamps: Marks
    """For each topic the time, and the number of the node that gave it."""


@frozen
class RetainedWanted(Record):
    """Topics whose retained messages the receiver has, and the sender lacks."""

    number: ClassVar[int] = 35
    topics: Texts


@frozen
class RetainedPiece(Record):
    """A piece of a retained message; flags: 1 there is none, 2 this is the first piece, 4 the last one."""

    number: ClassVar[int] = 36
    topic: str
    time_ms: int
    node: int
    flags: int
    octets: bytes


@frozen
class AskedRetained(Record):
    """The sender has new subscriptions: it asks for all that the receiver has retained and not told yet."""

    number: ClassVar[int] = 37
    question: int


@frozen
class ToldRetained(Record):
    """What the sender had retained when it heard this question, and all before it, was told."""

    number: ClassVar[int] = 38
    question: int
    copies: int
    """Number of the last copy that was there then, on its way or waiting to be sent."""


@frozen
class ChosenName(Record):
    """A client of the sender has made a temporary address under a name of its own choice (1), or it is gone (0)."""

    number: ClassVar[int] = 39
    address: str
    is_queue: int
    """Whether it is a queue (1) or a topic (0)."""
    user: str
    """User of the client; empty: it has none."""
    is_there: int


@frozen
class Ended(Record):
    """A shared subscription was ended by a client of the sender, or of another node; `ended_ms` is when."""

    number: ClassVar[int] = 50
    queue: str
    ended_ms: int


@frozen
class ToldMarks(Record):
    """The sender has durably taken messages of each of these channels up to the number; nothing else comes first."""

    number: ClassVar[int] = 80
    marks: Marks


@frozen
class Closed(Record):
    """The sender will never use these channels again, and needs no marks of them."""

    number: ClassVar[int] = 81
    marks: Marks


@frozen
class Channel(Record):
    """Messages follow on this channel; the first has this number."""

    number: ClassVar[int] = 82
    id: int
    next: int


@frozen
class CopyChannel(Record):
    """The same for copies."""

    number: ClassVar[int] = 83
    id: int
    next: int


@frozen
class BulkRecord(Record):
    """Base class of what concerns large messages (`pieces`); only told to nodes that take these."""


@frozen
class BulkChannel(BulkRecord):
    """The same for large messages."""

    number: ClassVar[int] = 84
    id: int
    next: int


@frozen
class BulkTaken(BulkRecord):
    """The sender has all large messages up to this number in its store."""

    number: ClassVar[int] = 85
    last: int


@frozen
class BulkRefused(BulkRecord):
    """The sender cannot keep the body of this number, and waits for the word that the message is withdrawn."""

    number: ClassVar[int] = 86
    refused: int


CHANNEL_RECORDS: Final[Mapping[Lane, type[Channel | CopyChannel | BulkChannel]]] = {
    Lane.HANDOVER: Channel,
    Lane.COPIES: CopyChannel,
    Lane.BULK: BulkChannel,
}
"""What tells of the channel of each lane."""
LANE_OF: Final[Mapping[type[Record], Lane]] = {kind: lane for lane, kind in CHANNEL_RECORDS.items()}
