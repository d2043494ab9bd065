"""One connection to another broker of the mesh (mesh §5.4 to §5.7).

    LOGIN      dialled or accepted; the other side has not said who it is
    FENCING    an older connection to the same broker is forgotten; what it brought is being committed
    RESUMING   the marks are told; claims of the former connection are settled by the peer's marks, and committed
    SYNCING    both sides tell what they have
    UP         messages may be handed over
    CLOSED     nothing of this connection counts any more; claims are in doubt until the peer has told its marks again

A connection that is UP is suspect while the peer is silent: it gets no more messages until it speaks.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.claims import OriginChannel
from artemis_py.cluster.envelope import Envelope, decode_envelope, encode_envelope, path_of
from artemis_py.cluster.hello import Hello, read_hello
from artemis_py.cluster.local_queue import LocalQueue
from artemis_py.cluster.records import (
    Channel,
    Closed,
    Demand,
    Digest,
    Gone,
    Grant,
    Instance,
    Member,
    Ready,
    Record,
    Resync,
    Seen,
    SnapshotBegin,
    SnapshotEnd,
    ToldMarks,
    decode,
    encode,
)
from artemis_py.cluster.remote_queue import RemoteQueue, RemoteQueues
from artemis_py.cluster.strict import target_of
from artemis_py.cluster.telling import Telling
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.carrier import Lane, PeerConnection
from artemis_py.core.runtime.timers import Timer
from artemis_py.errors import ProtocolError, Refusal

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh

DIGEST_MS: Final = 60_000


class PeerState(Enum):
    """How far a connection is."""

    LOGIN = "login"
    FENCING = "fencing"
    RESUMING = "resuming"
    SYNCING = "syncing"
    UP = "up"
    CLOSED = "closed"


class Peer:
    """Another broker, for as long as one connection lasts; fulfils `PeerListener`."""

    def __init__(self, mesh: "Mesh", number: int) -> None:
        self.mesh: Final = mesh
        self.number: Final = number
        """Number of the connection among those of this broker."""
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
        self.channel: OriginChannel | None = None
        self.is_suspect: bool = False
        self.telling: Telling = Telling(self)
        self.taking: Final[dict[LocalQueue, None]] = {}
        """Queues here that the peer takes from."""
        self.to_confirm: int = 0
        """Number of the last message received; 0 if all are confirmed or about to be."""
        self.handed_over: int = 0
        """Number of messages that the peer has confirmed."""
        self.taken: int = 0
        """Number of messages that were taken from the peer."""
        self.resyncs: int = 0
        """Number of times that the tables differed."""
        self._connection: PeerConnection | None = None
        self._marks_sent = False
        self._their_marks: dict[int, int] | None = None
        self._is_synced = [False, False]
        """Whether this side's snapshot was told, and whether the peer's has come."""
        self._their_channel: int | None = None
        self._records: list[Record] = []
        """What is to be told besides queues."""
        self._to_send: Final[deque[int]] = deque()
        """Numbers of messages that wait for room in the connection."""
        self._sent = 0
        """Number of the last message that was sent."""
        self._is_blocked = False
        self._batches = 0
        self._seen_due = False
        self._was_held = False
        """Whether a taker was held back by something that `may_claim` looks at."""
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
        self.mesh.admit(self)
        self.state = PeerState.FENCING
        now_ms = self.mesh.now_ms
        self._heard_ms = self._spoke_ms = self._digest_ms = now_ms
        self._timer = self.mesh.timers.at(now_ms + self.mesh.config.call_timeout_ms, self._check_sync)
        # What the former connection has brought is not in the store before this.
        self.mesh.storage.when_durable(self._fenced, self._store_failed)

    @property
    def is_dialled(self) -> bool:
        """Whether this broker made the connection."""
        return self._connection is not None and self._connection.is_dialled

    def _fenced(self) -> None:
        if self.state is PeerState.FENCING:
            self.state = PeerState.RESUMING
            self._marks_sent = True
            self._say(ToldMarks(self.mesh.marks.of(self.node_id)))
            self._resume()

    def _resume(self) -> None:
        """Settle what was on its way to the peer, when both sides know that nothing else is."""
        if self.state is not PeerState.RESUMING or self._their_marks is None:
            return
        self.channel = self.mesh.resume(self, self._their_marks)
        self._sent = self.channel.next - 1
        self.mesh.storage.when_durable(self._resumed, self._store_failed)

    def _resumed(self) -> None:
        if self.state is not PeerState.RESUMING or self.channel is None or self._their_marks is None:
            return
        self.state = PeerState.SYNCING
        unknown = [(id, 0) for id in self._their_marks if id != self.channel.id and not self.mesh.knows_channel(id)]
        if unknown:
            self._say(Closed(tuple(unknown)))
        self._say(Channel(self.channel.id, self.channel.next))
        self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        self._say(SnapshotBegin())
        for member in self.mesh.members.values():
            if member.node_id != self.node_id:
                self._say(member.record)
        self.telling.begin(list(self.mesh.locals()))
        self.mesh.mark(self)

    def _check_up(self) -> None:
        if self.state is PeerState.SYNCING and all(self._is_synced):
            self.state = PeerState.UP
            self._plan_check()
            self.mesh.peer_up(self)
            for remote in self.remotes:
                self.mesh.demand_changed(self, remote)

    # -- time --------------------------------------------------------------------------------------------------

    def _check_sync(self) -> None:
        if self.state is not PeerState.UP:
            self.close(f"not ready after {self.mesh.config.call_timeout_ms} ms (call-timeout)")

    def _plan_check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.mesh.timers.at(self.mesh.now_ms + max(self.mesh.config.check_period_ms // 3, 1), self._check)

    def _check(self) -> None:
        if self.state is not PeerState.UP:
            return
        now_ms = self.mesh.now_ms
        config = self.mesh.config
        if now_ms - self._heard_ms >= config.connection_ttl_ms:
            self.close(f"silent for {now_ms - self._heard_ms} ms (connection-ttl)")
            return
        if now_ms - self._heard_ms >= config.check_period_ms and not self.is_suspect:
            self.is_suspect = True
            self._review_takers()
        if now_ms - self._digest_ms >= DIGEST_MS and self.telling.is_over:
            self._digest_ms = now_ms
            self._say(self.telling.digest())
        elif now_ms - self._spoke_ms >= config.check_period_ms // 3:
            self._say(Seen(self._batches))
        self._plan_check()

    def _hear(self) -> None:
        self._heard_ms = self.mesh.now_ms
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
            case Seen():
                pass
            case _ if self._their_marks is None:
                raise ProtocolError("marks come before any other record")
            case Closed(channels):
                for id, _ in channels:
                    if id != self._their_channel:
                        self.mesh.marks.forget(self.node_id, id)
            case Channel(id, number):
                self._begin_channel(id, number)
            case Member():
                self.mesh.members.learn(record)
            case Resync():
                self.resyncs += 1
                self._begin_snapshot()
            case _:
                self._process_queue(record)

    def _begin_channel(self, id: int, number: int) -> None:
        self.mesh.marks.check(self.node_id, id)
        if self.mesh.marks.get(self.node_id, id) + 1 != number:
            raise ProtocolError(f"the channel continues with {number}, not behind the mark")
        self._their_channel = id

    def _process_queue(self, record: Record) -> None:
        """Process what the peer tells about one of its queues, or about one of ours."""
        remote: RemoteQueue | None = None
        match record:
            case SnapshotBegin():
                self.remotes.begin()
            case SnapshotEnd(count, digest):
                for gone in self.remotes.sweep():
                    self.mesh.demand_changed(self, gone)
                self._compare(count, digest)
                self._is_synced[1] = True
                self._check_up()
            case Digest(count, digest):
                self._compare(count, digest)
            case Instance():
                remote = self.remotes.add(record)
            case Demand():
                remote = self.remotes.set_demand(record)
            case Gone():
                remote = self.remotes.remove(record)
            case Grant():
                remote = self.remotes.grant(record)
            case Ready(id, is_ready):
                local = self.mesh.local_by_id(id)
                told = None if local is None else local.told.get(self)
                if local is not None and told is not None:
                    told.is_ready = bool(is_ready)
                    local.changed()
        if remote is not None:
            self._seen_due = True
            self.mesh.mark(self)
            if self.state is PeerState.UP:
                self.mesh.demand_changed(self, remote)

    def _compare(self, count: int, digest: int) -> None:
        if (count, digest) != (self.remotes.count, self.remotes.digest):
            self.resyncs += 1
            self.mesh.tables_differ(self)
            self._say(Resync())

    # -- messages in -------------------------------------------------------------------------------------------

    def message(self, lane: Lane, number: int, message: bytes) -> None:
        """Take a message; see `PeerListener`. Its mark is stored in the same commit."""
        if self.state in (PeerState.CLOSED, PeerState.LOGIN):
            return
        self._hear()
        try:
            self._take(lane, number, message)
        except (ProtocolError, Refusal) as error:
            self.close(str(error))

    def _take(self, lane: Lane, number: int, content: bytes) -> None:
        marks = self.mesh.marks
        channel = self._their_channel
        if channel is None or lane is not Lane.HANDOVER:
            raise ProtocolError("a message came before its channel")
        mark = marks.get(self.node_id, channel)
        if number > mark + 1:
            raise ProtocolError(f"message {number} came after {mark}")
        if number == mark + 1:
            self.mesh.arrivals.take(self, decode_envelope(content, self.mesh.formats))
            marks.set(self.node_id, channel, number)
            self.taken += 1
        self.to_confirm = number
        self.mesh.mark(self)

    def _confirm(self, number: int) -> None:
        if self.state is not PeerState.CLOSED and self._connection is not None:
            self._connection.accept(Lane.HANDOVER, number)

    # -- messages out ------------------------------------------------------------------------------------------

    @property
    def may_claim(self) -> bool:
        """Whether messages may be claimed for the peer now."""
        channel = self.channel
        allowed = (
            self.state is PeerState.UP
            and not self.is_suspect
            and not self._to_send
            and channel is not None
            and channel.bytes_claimed < self.mesh.config.confirmation_window_size_bytes
        )
        if not allowed:
            self._was_held = True
        return allowed

    def _review_takers(self) -> None:
        """Let takers that were held back look again."""
        self._was_held = False
        for local in self.taking:
            local.changed()
        self.mesh.go_on_forwarding(self)

    def claim(self, reference: Reference) -> None:
        """Claim a message; it is sent when the claim is in the store."""
        assert self.channel is not None
        if not self.channel.fresh:
            self.mesh.claiming.append(self)
        self.channel.add(reference)

    def save_claims(self) -> None:
        """Store the claims of this iteration, and send the messages after that."""
        channel = self.channel
        if channel is None or not channel.fresh:
            return
        numbers = channel.save_fresh()
        self.mesh.storage.when_durable(partial(self._send, numbers), self._store_failed)

    def _send(self, numbers: list[int]) -> None:
        if self.state is PeerState.UP:
            self._to_send.extend(numbers)
            self._pump()

    def _pump(self) -> None:
        """Send messages while the connection has room."""
        connection, channel = self._connection, self.channel
        if connection is None or channel is None:
            return
        while self._to_send and not self._is_blocked and self.state is PeerState.UP:
            number = self._sent = self._to_send.popleft()
            reference = channel.claims[number]
            address, queue = target_of(reference)
            envelope = Envelope(
                reference.message,
                address,
                queue,
                reference.delivery_count,
                reference.was_acquired,
                (*path_of(reference.message), self.mesh.node_id),
            )
            self._spoke_ms = self.mesh.now_ms
            self._is_blocked = not connection.send(Lane.HANDOVER, number, encode_envelope(envelope))
        if self._was_held and not self._to_send:
            self._review_takers()

    def accepted(self, lane: Lane, number: int) -> None:
        """Remove messages that the peer has; see `PeerListener`."""
        channel = self.channel
        if self.state is not PeerState.UP or channel is None or lane is not Lane.HANDOVER:
            return
        self._hear()
        if number > self._sent:
            self.close(f"message {number} was confirmed, and never sent")
            return
        before = channel.freed
        channel.free(number)
        self.handed_over += max(channel.freed - before, 0)
        if self._was_held:
            self._review_takers()

    def has_room(self) -> None:
        """Continue to send; see `PeerListener`."""
        if self.state is not PeerState.CLOSED:
            self._is_blocked = False
            self._pump()
            self.mesh.mark(self)

    # -- records out -------------------------------------------------------------------------------------------

    def _say(self, record: Record) -> None:
        self._records.append(record)
        self.mesh.mark(self)

    def flush(self) -> bool:
        """Tell what has changed in this iteration, and plan to confirm what came; True: there is more to tell."""
        if self.state is PeerState.CLOSED or self._connection is None:
            return False
        if self.to_confirm:
            number, self.to_confirm = self.to_confirm, 0
            self.mesh.storage.when_durable(partial(self._confirm, number), self._store_failed)
        if self._is_blocked:
            return False
        records, self._records = self._records, []
        if self.state in (PeerState.SYNCING, PeerState.UP):
            if self.telling.compose(records):
                self._is_synced[0] = True
        if self._seen_due:
            self._seen_due = False
            records.append(Seen(self._batches))
        if records:
            self._spoke_ms = self.mesh.now_ms
            self._is_blocked = not self._connection.send_control(encode(records))
            self._check_up()
        return not self.telling.is_over and not self._is_blocked

    def tell_member(self, member: Member) -> None:
        """Tell about a member that was not known when the snapshot was told."""
        if self.state in (PeerState.SYNCING, PeerState.UP) and member.node_id != self.node_id:
            self._say(member)

    def tell_later(self, local: LocalQueue) -> None:
        """Tell about a queue at the end of this iteration."""
        if self.state in (PeerState.SYNCING, PeerState.UP):
            self.telling.add(local)
            self.mesh.mark(self)

    # -- the end -----------------------------------------------------------------------------------------------

    def _store_failed(self, reason: str) -> None:
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
        if self._timer is not None:
            self._timer.cancel()
        self._to_send.clear()
        self.telling.clear()
        for local in self.mesh.locals():
            if self in local.told or self in local.takers:
                local.told.pop(self, None)
                taker = local.takers.get(self)
                if taker is not None:
                    local.end_taker(taker)
                local.changed()
        self.mesh.peer_lost(self, was, reason)


def _always(address: str) -> bool:
    return True
