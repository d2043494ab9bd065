"""One connection to another broker of the mesh (mesh §5.4 to §5.7); `peer_state` has its states."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.cluster.chosen_names import OwnName
from artemis_py.cluster.hearing import Hearing
from artemis_py.cluster.hello import BLOCKS, BULK, COPIES, Hello, connection_key, read_hello
from artemis_py.cluster.interests import Announced
from artemis_py.cluster.lanes import Incoming, Outgoing
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.peer_state import PeerState as PeerState
from artemis_py.cluster.pieces import IncomingBulk, OutgoingBulk
from artemis_py.cluster.record_codec import decode, encode
from artemis_py.cluster.records import (
    CHANNEL_RECORDS,
    LANE_OF,
    BulkChannel,
    BulkRecord,
    Channel,
    ChosenName,
    Closed,
    CopyChannel,
    Ended,
    Interest,
    Member,
    Record,
    Resync,
    Seen,
    SharedInstance,
    SnapshotBegin,
    ToldMarks,
)
from artemis_py.cluster.remote_queue import RemoteQueues
from artemis_py.cluster.telling import Telling
from artemis_py.cluster.visit import Visit
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.runtime.carrier import Lane, PeerConnection
from artemis_py.core.runtime.timers import Timer
from artemis_py.errors import ProtocolError, Refusal

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

DIGEST_MS: Final = 60_000

# Asked for each message: compiled, a name of an enumeration is looked up each time.
_UP: Final = PeerState.UP
_CLOSED: Final = PeerState.CLOSED
_LOGIN: Final = PeerState.LOGIN


@mypyc_attr(allow_interpreted_subclasses=True)
class Peer:
    """Another broker, for as long as one connection lasts; fulfils `PeerListener`."""

    def __init__(self, mesh: "Mesh", number: int) -> None:
        self.mesh: Final = mesh
        self.number: Final = number
        """Number of the connection among those of this broker."""
        self.connected: frozenset[int] = frozenset()
        """What this broker has told of its connections, if it dialled this one; see `Hello.connected`."""
        self.state: PeerState = PeerState.LOGIN
        self.hello: Hello | None = None
        self.node_id: str = ""
        self.may_share: Callable[[str], bool] = _always
        """Tells whether the peer has the right to messages of an address (mesh §4.18)."""
        self.label: str = "mesh"
        """Name of the peer's consumers here, for management."""
        self.formats: frozenset[str] = frozenset()
        """Formats of messages that the peer can read."""
        self.remotes: Final = RemoteQueues()
        # Lanes are not final: compiled, that would keep tests from planting faults into them.
        self.handover: Outgoing = Outgoing(self, Lane.HANDOVER)
        """Messages of queues that the peer takes from."""
        self.copies: Outgoing = Outgoing(self, Lane.COPIES)
        """What waits for the peer in the queue of its own (`strict.StoreAndForward`)."""
        self.bulk: OutgoingBulk = OutgoingBulk(self)
        """Large messages of both kinds."""
        self.incoming_bulk: IncomingBulk = IncomingBulk(self)
        self.incoming: Final = {lane: Incoming(self, lane) for lane in (Lane.HANDOVER, Lane.COPIES)}
        self.incoming[Lane.BULK] = self.incoming_bulk
        self.has_copies: bool = False
        """Whether the peer knows of subscriptions; an earlier version does not."""
        self.has_bulk: bool = False
        """Whether the peer takes large messages; an earlier version does not."""
        self.has_blocks: bool = False
        """Whether the peer takes several messages at once; an earlier version does not."""
        self.is_suspect: bool = False
        self.visit: Final = Visit()
        self.telling: Telling = Telling(self)
        self._hearing: Final = Hearing(self)
        self.taking: Final[dict[LocalQueue, None]] = {}
        """Queues here that the peer takes from."""
        self.taken: int = 0
        """Number of messages that were taken from the peer."""
        self.resyncs: int = 0
        """Number of times that the tables differed."""
        self._connection: PeerConnection | None = None
        self._dispatcher: Final[Dispatcher] = mesh.domain.dispatcher
        self._marks_sent = False
        self._their_marks: dict[int, int] | None = None
        self._is_synced = [False, False]
        """Whether this side's snapshot was told, and whether the peer's has come."""
        self._records: list[Record] = []
        """What is to be told besides queues."""
        self._is_blocked = False
        self._is_marked = False
        """Whether it is known that a message has come in this iteration."""
        self._batches = 0
        """Number of batches of records that have come."""
        self._applied = 0
        """Number of the last of them that is in the store, with everything before it."""
        self._seen_due = False
        self._told = 0
        """Number of batches of records that were sent."""
        self.told_news = 0
        """Number of the last of them that told of subscriptions."""
        self.seen = 0
        """Number of the last of them that the peer has applied."""
        self._heard_ms = 0
        self._spoke_ms = 0
        self._digest_ms = 0
        self._timer: Timer | None = None

    # -- opening -----------------------------------------------------------------------------------------------

    def opened(self, connection: PeerConnection, hello: Mapping[str, object]) -> None:
        """Begin; see `PeerListener`. Raises PeerRefused."""
        self._connection = connection
        self.hello = read_hello(hello)
        self.node_id = self.hello.node_id
        self.label = f"mesh:{self.hello.node_name}"
        self.formats = frozenset(self.hello.formats)
        self.has_copies = COPIES in self.hello.features
        self.has_bulk = self.has_copies and BULK in self.hello.features
        self.has_blocks = BLOCKS in self.hello.features
        self.mesh.admit(self)
        self.state = PeerState.FENCING
        now_ms = self._dispatcher.steady_ms
        self._heard_ms = self._spoke_ms = self._digest_ms = now_ms
        self._timer = self._dispatcher.after(self.mesh.config.call_timeout_ms, self._check_sync)
        # What the former connection has brought is not in the store before this.
        self.mesh.storage.when_durable(self._fenced, self.store_failed)

    @property
    def key(self) -> int:
        """What stands for this connection in `Hello.connected`."""
        assert self.hello is not None
        return connection_key(self.node_id, self.hello.run, self.hello.connection)

    @property
    def is_dialled(self) -> bool:
        """Whether this broker made the connection."""
        return self._connection is not None and self._connection.is_dialled

    @property
    def is_up(self) -> bool:
        """Whether messages may go to the peer, and come from it."""
        return self.state is _UP

    @property
    def is_taking(self) -> bool:
        """Whether further messages may be claimed for the peer."""
        return self.state is _UP and not self.is_suspect

    @property
    def forwarding(self) -> Outgoing:
        """The lane of what waits for the peer in the queue of its own: an earlier version has one lane only."""
        return self.copies if self.has_copies else self.handover

    @property
    def may_claim(self) -> bool:
        """Whether messages may be handed over now."""
        return self.handover.may_claim

    @property
    def handed_over(self) -> int:
        """Number of messages that the peer has confirmed."""
        return sum(each.confirmed for each in self.lanes)

    @property
    def in_doubt(self) -> int:
        """Number of messages that are claimed for the peer."""
        return sum(len(each.channel.claims) for each in self.lanes if each.channel is not None)

    def _fenced(self) -> None:
        if self.state is PeerState.FENCING:
            self.state = PeerState.RESUMING
            self._marks_sent = True
            self.say(ToldMarks(self.mesh.marks.of(self.node_id)))
            self._resume()

    def _resume(self) -> None:
        """Settle what was on its way to the peer, when both sides know that nothing else is."""
        if self.state is not PeerState.RESUMING or self._their_marks is None:
            return
        self.mesh.handed_over += self.mesh.channels.settle(self, self._their_marks)
        for outgoing in self.lanes:
            outgoing.begin(self.mesh.channels.to(self.node_id, outgoing.lane))
        self.mesh.storage.when_durable(self._resumed, self.store_failed)

    @property
    def lanes(self) -> tuple[Outgoing, ...]:
        """The lanes that both brokers know."""
        known = 3 if self.has_bulk else 2 if self.has_copies else 1
        return (self.handover, self.copies, self.bulk)[:known]

    def _resumed(self) -> None:
        if self.state is not PeerState.RESUMING or self.handover.channel is None or self._their_marks is None:
            return
        self.state = PeerState.SYNCING
        unknown = [(id, 0) for id in self._their_marks if not self.mesh.channels.knows(id)]
        if unknown:
            self.say(Closed(tuple(unknown)))
        for outgoing in self.lanes:
            if outgoing.channel is not None:
                self.say(CHANNEL_RECORDS[outgoing.lane](outgoing.channel.id, outgoing.channel.next))
        self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        self.say(SnapshotBegin())
        for record in self.mesh.departures.introduction(self):
            self.say(record)
        mesh = self.mesh
        self.telling.begin(list(mesh.locals()), list(mesh.interests.announced()), mesh.chosen_names.own())
        for ended in self.mesh.shells.ended():
            self.tell(ended)
        self.mesh.mark(self)

    def _check_up(self) -> None:
        if self.state is PeerState.SYNCING and all(self._is_synced):
            self.state = PeerState.UP
            self._plan_check()
            self.mesh.peer_up(self)
            self._hearing.up()

    # -- time --------------------------------------------------------------------------------------------------

    def _check_sync(self) -> None:
        if self.state is not PeerState.UP:
            self.close(f"not ready after {self.mesh.config.call_timeout_ms} ms (call-timeout)")

    def _plan_check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._dispatcher.after(max(self.mesh.config.check_period_ms // 3, 1), self._check)

    def _check(self) -> None:
        if self.state is not PeerState.UP:
            return
        now_ms = self._dispatcher.steady_ms
        config = self.mesh.config
        if now_ms - self._heard_ms >= config.connection_ttl_ms:
            self.close(f"silent for {now_ms - self._heard_ms} ms (connection-ttl)")
            return
        if now_ms - self._heard_ms >= config.check_period_ms and not self.is_suspect:
            self.is_suspect = True
            self._review_takers()
        if now_ms - self._digest_ms >= DIGEST_MS and self.telling.is_over:
            self._digest_ms = now_ms
            self.say(self.telling.digest())
            self.mesh.retained.tell_digests(self)
        elif now_ms - self._spoke_ms >= config.check_period_ms // 3:
            self.say(Seen(self._applied))
        self._plan_check()

    def _hear(self) -> None:
        self._heard_ms = self._dispatcher.steady_ms
        if self.is_suspect:
            self.is_suspect = False
            self._review_takers()

    # -- records in --------------------------------------------------------------------------------------------

    def control(self, records: bytes) -> None:
        """Process records; see `PeerListener`."""
        if self.state in (PeerState.CLOSED, PeerState.LOGIN):
            return
        self._hear()
        self._batches += 1
        try:
            for record in decode(records):
                self._process(record)
        except ProtocolError as error:
            self.close(str(error))

    def _process(self, record: Record) -> None:
        match record:
            case ToldMarks(marks):
                if self._their_marks is not None:
                    raise ProtocolError("marks are told once, first of all")
                self._their_marks = dict(marks)
                self._resume()
            case Seen(count):
                self._note_seen(count)
            case _ if self._their_marks is None:
                raise ProtocolError("marks come before any other record")
            case Closed(channels):
                current = {each.channel for each in self.incoming.values()}
                for id, _ in channels:
                    if id not in current:
                        self.mesh.marks.forget(self.node_id, id)
            case Channel(id, number) | CopyChannel(id, number) | BulkChannel(id, number):
                self.incoming[LANE_OF[type(record)]].begin(id, number)
            case BulkRecord():
                self.bulk.heard(record)
            case Member():
                self.mesh.members.learn(record)
            case Resync():
                self.resyncs += 1
                self._begin_snapshot()
            case _:
                self._hearing.process(record)

    def _note_seen(self, count: int) -> None:
        if count > self._told:
            raise ProtocolError(f"the peer has seen batch {count}, which was never sent")
        self.seen = max(self.seen, count)
        self.mesh.announcements.seen(self)

    def news_came(self) -> None:
        """Tell the peer, when what it has told is in the store, that it is known here."""
        self._seen_due = True
        self.mesh.mark(self)

    def synced(self) -> None:
        """Note that the peer has told all that it has."""
        self._is_synced[1] = True
        self._check_up()

    def tables_differ(self) -> None:
        """Ask the peer to tell everything again."""
        self.resyncs += 1
        self.mesh.tables_differ(self)
        self.say(Resync())

    # -- messages in -------------------------------------------------------------------------------------------

    def message(self, lane: Lane, number: int, message: bytes) -> None:
        """Take a message; see `PeerListener`. Its mark is stored in the same commit, at the end of the read."""
        if self.state is _CLOSED or self.state is _LOGIN:
            return
        self._hear()
        try:
            self._take(lane, number, message)
        except (ProtocolError, Refusal) as error:
            self.close(str(error))

    def has_read(self) -> None:
        """Store the marks of what was taken; see `PeerListener`."""
        for incoming in self.incoming.values():
            incoming.save_mark()

    def _take(self, lane: Lane, number: int, content: bytes) -> None:
        if not self._is_marked:
            self._is_marked = True
            self.mesh.mark(self)
        self.incoming[lane].receive(number, content)

    def confirm(self, lane: Lane, number: int) -> None:
        """Tell the peer that everything up to a number is in the store."""
        if self.state is not PeerState.CLOSED and self._connection is not None:
            self._connection.accept(lane, number)

    # -- messages out ------------------------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """Whether the connection has room."""
        return self._connection is not None and not self._is_blocked and self.state is _UP

    def send(self, lane: Lane, number: int, content: bytes) -> None:
        """Send a message."""
        assert self._connection is not None
        self._spoke_ms = self._dispatcher.steady_ms
        self._is_blocked = not self._connection.send(lane, number, content)

    def send_frame(self, number: int, content: bytes) -> None:
        """Send a part of a large message. There are few of them, so the other lanes need not wait for their room."""
        assert self._connection is not None
        self._spoke_ms = self._dispatcher.steady_ms
        self._connection.send(Lane.BULK, number, content)

    def _review_takers(self) -> None:
        for outgoing in self.lanes:
            outgoing.review()

    def accepted(self, lane: Lane, number: int) -> None:
        """Remove messages that the peer has; see `PeerListener`."""
        outgoing = self.handover if lane is Lane.HANDOVER else self.copies if lane is Lane.COPIES else self.bulk
        if self.state is not PeerState.UP or outgoing.channel is None:
            return
        self._hear()
        try:
            outgoing.accepted(number)
            self.bulk.pump()
        except ProtocolError as error:
            self.close(str(error))

    def has_room(self) -> None:
        """Continue to send; see `PeerListener`."""
        if self.state is not PeerState.CLOSED:
            self._is_blocked = False
            for outgoing in self.lanes:
                outgoing.pump()
            self.mesh.mark(self)

    # -- records out -------------------------------------------------------------------------------------------

    def say(self, record: Record) -> None:
        """Tell a record at the end of this iteration."""
        self._records.append(record)
        self.mesh.mark(self)

    def flush(self) -> bool:
        """Tell what has changed in this iteration, and plan to confirm what came; True: there is more to tell."""
        self._is_marked = False
        if self.state is PeerState.CLOSED or self._connection is None:
            return False
        has_unmet = self._hearing.meet()
        for incoming in self.incoming.values():
            incoming.plan_confirmation()
        if self._seen_due:
            self._seen_due = False
            # What the peer was promised to be known must not be forgotten by a crash.
            self.mesh.storage.when_durable(partial(self._say_seen, self._batches), self.store_failed)
        if self._is_blocked:
            return has_unmet
        records, self._records = self._records, []
        count = len(records)
        if self.state in (PeerState.SYNCING, PeerState.UP):
            if self.telling.compose(records):
                self._is_synced[0] = True
        has_news = any(isinstance(each, Interest | SharedInstance | ChosenName) for each in records[count:])
        if records:
            self._spoke_ms = self._dispatcher.steady_ms
            self._told += 1
            if has_news:
                self.told_news = self._told
            self._is_blocked = not self._connection.send_control(encode(records))
            self._check_up()
        return has_unmet or (not self.telling.is_over and not self._is_blocked)

    def _say_seen(self, batch: int) -> None:
        self._applied = batch
        if self.state in (PeerState.SYNCING, PeerState.UP):
            self.say(Seen(batch))

    def tell(self, record: Record) -> None:
        """Tell something besides queues that has changed since the snapshot was told."""
        if self.state in (PeerState.SYNCING, PeerState.UP) and (self.has_copies or not isinstance(record, Ended)):
            self.say(record)

    def tell_later(self, changed: LocalQueue | Announced | OwnName) -> None:
        """Tell about a queue, subscriptions, or a name, at the end of this iteration."""
        if self.state in (PeerState.SYNCING, PeerState.UP):
            self.telling.add(changed)
            self.mesh.mark(self)

    # -- the end -----------------------------------------------------------------------------------------------

    def store_failed(self, reason: str) -> None:
        self.close(f"the store has failed: {reason}")

    def close(self, reason: str, is_duplicate: bool = False) -> None:
        """End the connection."""
        if self._connection is not None and self.state is not PeerState.CLOSED:
            self._connection.close(reason, is_duplicate)
            self.lost(reason)

    def lost(self, reason: str) -> None:
        """Forget the connection; see `PeerListener`. What was on its way is in doubt."""
        if self.state is PeerState.CLOSED:
            return
        was = self.state
        self.state = PeerState.CLOSED
        self.has_read()
        if self._timer is not None:
            self._timer.cancel()
        for outgoing in (self.handover, self.copies, self.bulk):
            outgoing.end()
        self.incoming_bulk.end()
        concerned = [*self.telling.audience, *self.taking]
        self.telling.clear()
        self._hearing.clear()
        for local in concerned:
            local.peer_lost(self)
        for announced in self.mesh.interests.announced():
            announced.told.pop(self, None)
        self.mesh.peer_lost(self, was, reason)


def _always(address: str) -> bool:
    return True
