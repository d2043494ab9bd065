"""Retained messages in a mesh: every node keeps those of all nodes, and all end with the same ones.

What is retained or deleted at one node is told to the others when it is stored. Two nodes compare what they have when
they connect, and each minute:

    both          digests of 256 parts of all topics           ─►
    one of them   stamps of all topics of a part that differs  ─►   the node with the lower id
    the other     topics that it lacks                         ─►
    both          what is newer at them                        ─►

A message is told in pieces, in turn with everything else that nodes tell each other, and is not delivered to anybody:
subscribers have had a copy. Nothing is confirmed: the node where a message was retained has it in its store, and a
break of the connection is followed by another comparison.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from artemis_py.cluster.events import NotRetained
from artemis_py.cluster.hello import RETAINED
from artemis_py.cluster.records import RetainedDigest, RetainedPiece, RetainedStamps, RetainedWanted, ToldRetained
from artemis_py.cluster.registers import BUCKETS, Register, Registers, Stamp
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import MissingFormat, decode_with_durability, encode_with_durability
from artemis_py.core.services.retained import Newcomer, RetainedMessages, RetainedWatcher
from artemis_py.errors import DamagedValue, LimitExceeded, ProtocolError

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

PIECE_BYTES: Final = 65_536
"""Octets of a message that are told at once, so that the largest message does not hold up the smallest record."""
TURN_BYTES: Final = 262_144
"""Octets of messages that are told to one peer in one iteration of the loop."""
STAMPS: Final = 500
"""Stamps in one record, which has less than 16 MiB."""
MAX_TOPIC_CHARS: Final = 4_096
"""Length of the longest topic that is told; messages of longer ones stay at their node."""
MAX_MESSAGE_BYTES: Final = 1 << 28
"""Octets of the largest message that a peer may tell: MQTT has none that is larger."""

MAX_QUESTIONS: Final = 1_000
"""Questions of one peer that wait for an answer."""

_GONE: Final = 1
_FIRST: Final = 2
_LAST: Final = 4


class Telling:
    """What one peer is to be told, and what has come from it in part."""

    def __init__(self) -> None:
        self.topics: dict[str | int, None] = {}
        """Topics whose registers the peer does not have, and questions that are answered behind them."""
        self.copies: dict[int, int] = {}
        """Number of the last copy that was there when a question came."""
        self.topic: str = ""
        self.stamp: Stamp = (0, 0)
        self.octets: bytes = b""
        """The message that is being told, with its topic and stamp; empty: none is."""
        self.offset: int = 0
        """How many of its octets were told."""
        self.coming: list[bytes] = []
        """The pieces of a message that has come in part."""
        self.coming_bytes: int = 0
        self.listed: set[str] = set()
        """Topics of the part whose stamps the peer is telling."""


class RetainedTopics(RetainedWatcher):
    """The retained messages of this node, and what peers know of them."""

    def __init__(self, mesh: "Mesh") -> None:
        self.registers: Final = Registers(mesh.storage, mesh.node_id)
        self.told_bytes: int = 0
        """Octets of messages and stamps that peers were told in this run."""
        self._mesh: Final = mesh
        self._messages: RetainedMessages | None = None
        self._tellings: Final[dict[Peer, Telling]] = {}
        self._unstored: Final[dict[str, int]] = {}
        """Topics with changes that are not in the store, and how many: nobody is told of what this node may forget."""
        self._versions: Final[dict[str, tuple[Register, Message | None]]] = {}
        """What is in the store of such topics, if it was stored since. A topic may change without a pause."""

    @property
    def messages(self) -> RetainedMessages:
        """All retained messages of this broker."""
        assert self._messages is not None
        return self._messages

    def load(self, retained: RetainedMessages) -> None:
        """Read what an earlier run left of stamps; `retained` has its messages, which all nodes share from now on."""
        self._messages = retained
        registers = self.registers
        registers.load()
        now_ms = self._mesh.now_ms
        for topic in registers.topics():
            register = registers.get(topic)
            if register is not None and not register.is_gone and retained.get(topic) is None:
                # It has expired.
                registers.set(topic, register.stamp, True, now_ms)
        search = retained.search(self._mesh.domain.options.wildcards.any_words)
        while not search.is_done:
            for message in search.next(1000, 1000):
                if self._is_shared(message.address) and registers.get(message.address) is None:
                    registers.adopt(message.address)
        retained.watcher = self

    def _is_shared(self, topic: str) -> bool:
        mesh = self._mesh
        is_covered = mesh.config.max_hops > 0 and mesh.config.scope.covers(topic) and not mesh.is_reserved(topic)
        return is_covered and len(topic) <= MAX_TOPIC_CHARS

    # -- what clients here do ----------------------------------------------------------------------------------------

    def kept(self, topic: str) -> None:
        """Tell peers of a message that was retained here; see `RetainedWatcher`."""
        self._stamp(topic, False)

    def removed(self, topic: str) -> None:
        """Tell peers that a client here deleted a message, perhaps one that has not come here yet."""
        self._stamp(topic, True)

    def introduce(self, newcomer: Newcomer) -> bool:
        """Have a new subscription wait for what is on its way to this node; see `RetainedWatcher`."""
        return self._mesh.newcomers.introduce(newcomer)

    def expired(self, topic: str) -> None:
        """Note that a message has expired; peers see that for themselves."""
        register = self.registers.get(topic)
        if register is not None:
            self.registers.set(topic, register.stamp, True, self._mesh.now_ms)

    def _stamp(self, topic: str, is_gone: bool) -> None:
        self._mesh.newcomers.changed_here(topic)
        if self._is_shared(topic):
            self.registers.stamp(topic, self._mesh.now_ms, is_gone)
            self._tell_when_stored(topic)

    def _tell_when_stored(self, topic: str) -> None:
        register = self.registers.get(topic)
        if register is not None:
            message = None if register.is_gone else self.messages.get(topic)
            self._unstored[topic] = self._unstored.get(topic, 0) + 1
            self._mesh.storage.when_durable(partial(self._stored, topic, register, message))

    def _stored(self, topic: str, register: Register, message: Message | None) -> None:
        self._unstored[topic] -= 1
        if self._unstored[topic]:
            self._versions[topic] = (register, message)
        else:
            del self._unstored[topic]
            self._versions.pop(topic, None)
        for peer in self._tellings:
            self._tell(peer, topic)

    # -- connections ---------------------------------------------------------------------------------------------------

    def tell_digests(self, peer: "Peer") -> None:
        """Have a peer compare what it has with what is here."""
        if self._telling(peer) is not None:
            peer.say(RetainedDigest(self.registers.digests()))

    def _telling(self, peer: "Peer") -> Telling | None:
        """Return what there is to tell a peer, which may be up earlier than this side; None if it wants nothing."""
        telling = self._tellings.get(peer)
        hello, mesh = peer.hello, self._mesh
        if telling is None and hello is not None and RETAINED in hello.features and self._messages is not None:
            if mesh.config.max_hops and mesh.peers.get(peer.node_id) is peer:
                telling = self._tellings[peer] = Telling()
        return telling

    def peer_lost(self, peer: "Peer") -> None:
        """Tell a peer nothing more."""
        self._tellings.pop(peer, None)

    # -- what peers are told -------------------------------------------------------------------------------------------

    def _tell(self, peer: "Peer", topic: str) -> None:
        telling = self._tellings.get(peer)
        if telling is not None and peer.may_share(topic):
            telling.topics[topic] = None
            self._mesh.mark(peer)

    def compose(self, peer: "Peer") -> bool:
        """Tell a peer as much as one iteration allows; True: there is more."""
        telling = self._tellings.get(peer)
        if telling is None or not (telling.topics or telling.octets) or not peer.can_send:
            return False
        end = self.told_bytes + TURN_BYTES
        while telling.octets or telling.topics:
            if self.told_bytes >= end:
                return True
            if telling.octets:
                self._tell_piece(peer, telling)
                continue
            next_one = next(iter(telling.topics))
            del telling.topics[next_one]
            if isinstance(next_one, int):
                peer.say(ToldRetained(next_one, telling.copies.pop(next_one)))
            else:
                self._begin(peer, telling, next_one)
        return False

    def _begin(self, peer: "Peer", telling: Telling, topic: str) -> None:
        """Begin to tell the register of a topic; one without a message is a single record."""
        register, message = self._stored_version(topic)
        if register is None:
            return
        self.told_bytes += len(topic)
        if register.is_gone:
            peer.say(RetainedPiece(topic, *register.stamp, _GONE | _FIRST | _LAST, b""))
            return
        if message is not None and message.large is None and message.format.name in peer.formats:
            telling.topic, telling.stamp, telling.offset = topic, register.stamp, 0
            telling.octets = encode_with_durability(message)

    def _stored_version(self, topic: str) -> tuple[Register | None, Message | None]:
        """Return the register and the message of a topic as they are in the store."""
        if topic in self._unstored:
            return self._versions.get(topic, (None, None))
        return self.registers.get(topic), self.messages.get(topic)

    def _tell_piece(self, peer: "Peer", telling: Telling) -> None:
        start = telling.offset
        piece = telling.octets[start : start + PIECE_BYTES]
        telling.offset += len(piece)
        flags = _FIRST if start == 0 else 0
        if telling.offset >= len(telling.octets):
            flags |= _LAST
            telling.octets = b""
        peer.say(RetainedPiece(telling.topic, *telling.stamp, flags, piece))
        self.told_bytes += len(piece)

    # -- what peers tell -----------------------------------------------------------------------------------------------

    def compare(self, peer: "Peer", digests: bytes) -> None:
        """Tell a peer the stamps of each part that is not the same there, if that is up to this node."""
        if len(digests) != 8 * BUCKETS:
            raise ProtocolError("digests of retained messages are malformed")
        if self._telling(peer) is None or self._mesh.node_id > peer.node_id:
            return
        for bucket in self.registers.differing(digests):
            topics = [topic for topic in self.registers.of_bucket(bucket) if peer.may_share(topic)]
            for start in range(0, max(len(topics), 1), STAMPS):
                part = topics[start : start + STAMPS]
                stamps = [register.stamp for register in map(self.registers.get, part) if register is not None]
                is_last = start + STAMPS >= len(topics)
                self.told_bytes += sum(map(len, part)) + 20 * len(part)
                peer.say(RetainedStamps(bucket, int(is_last), tuple(part), tuple(stamps)))
                self._mesh.newcomers.compared(peer)

    def learn(self, peer: "Peer", record: RetainedStamps) -> None:
        """Ask for what is newer at a peer, and tell what is newer here."""
        telling = self._telling(peer)
        topics = record.topics or ()
        if record.bucket >= BUCKETS or len(topics) != len(record.stamps):
            raise ProtocolError("stamps of retained messages are malformed")
        if telling is None:
            return
        wanted: list[str] = []
        for topic, stamp in zip(topics, record.stamps, strict=True):
            telling.listed.add(topic)
            known = self.registers.get(topic)
            if known is None or known.stamp < stamp:
                wanted.append(topic)
            elif known.stamp > stamp:
                self._tell(peer, topic)
        if wanted:
            peer.say(RetainedWanted(tuple(wanted)))
            self._mesh.newcomers.compared(peer)
        if record.is_last:
            for topic in self.registers.of_bucket(record.bucket):
                if topic not in telling.listed:
                    self._tell(peer, topic)
            telling.listed.clear()

    def asked(self, peer: "Peer", record: RetainedWanted) -> None:
        """Tell a peer what it lacks."""
        self._telling(peer)
        for topic in record.topics or ():
            if self.registers.get(topic) is not None:
                self._tell(peer, topic)

    def asked_for_all(self, peer: "Peer", question: int) -> None:
        """Answer, as soon as a peer was told what has changed before."""
        channel = peer.copies.channel
        queue = self._mesh.forward_to(peer.node_id).queue
        waiting = 0 if queue is None else queue.waiting_count
        copies = 0 if channel is None else channel.next - 1 + waiting
        self._mesh.storage.when_durable(partial(self._plan_answer, peer, question, copies))

    def _plan_answer(self, peer: "Peer", question: int, copies: int) -> None:
        telling = self._telling(peer)
        if telling is not None:
            if len(telling.copies) >= MAX_QUESTIONS:
                # The answer to a later question is one to all before it.
                del telling.topics[telling.copies.popitem()[0]]
            telling.topics[question] = None
            telling.copies[question] = copies
            self._mesh.mark(peer)

    def take(self, peer: "Peer", piece: RetainedPiece) -> None:
        """Take a piece of what a peer tells, and keep it when it is whole and newer."""
        telling = self._telling(peer)
        if telling is None:
            return
        if piece.flags & _FIRST:
            telling.coming.clear()
            telling.coming_bytes = 0
        telling.coming.append(piece.octets)
        telling.coming_bytes += len(piece.octets)
        if telling.coming_bytes > MAX_MESSAGE_BYTES:
            raise ProtocolError("a retained message is larger than any can be")
        if not piece.flags & _LAST:
            return
        octets = b"".join(telling.coming)
        telling.coming.clear()
        telling.coming_bytes = 0
        if not self._is_shared(piece.topic) or not peer.may_share(piece.topic):
            return
        known = self.registers.get(piece.topic)
        stamp = (piece.time_ms, piece.node)
        if known is not None and known.stamp >= stamp:
            return
        if piece.flags & _GONE:
            self.messages.drop(piece.topic)
            self._note(piece.topic, Register(stamp, True))
            self._mesh.newcomers.told(peer, piece.topic, None)
        else:
            self._keep(peer, piece.topic, Register(stamp, False), octets)

    def _keep(self, peer: "Peer", topic: str, register: Register, octets: bytes) -> None:
        mesh = self._mesh
        try:
            message = decode_with_durability(octets, mesh.formats)
        except (DamagedValue, ValueError) as cause:
            raise ProtocolError(f"a retained message is malformed: {cause}") from cause
        if isinstance(message.format, MissingFormat) or message.address != topic:
            raise ProtocolError("a retained message of another format or topic")
        if 0 < message.expires_ms <= mesh.now_ms:
            self.messages.drop(topic)
            register.is_gone = True
            self._note(topic, register)
            return
        if self._has_room(topic, message):
            message.id = 0
            message.origin = mesh.domain.addresses.get(topic)
            self.messages.keep(message)
            self._note(topic, register)
            self._mesh.newcomers.told(peer, topic, message)

    def _has_room(self, topic: str, message: Message) -> bool:
        try:
            self.messages.check_room(topic, message.size)
        except LimitExceeded as refusal:
            self._mesh.domain.events.emit(NotRetained(self._mesh.config.name, topic, str(refusal)))
            return False
        return True

    def _note(self, topic: str, register: Register) -> None:
        self.registers.set(topic, register.stamp, register.is_gone, self._mesh.now_ms)
        if self._mesh.config.max_hops > 1:
            self._tell_when_stored(topic)
