"""The origin's half of a channel: which messages are on their way to a peer, exactly once (mesh §5.5).

A channel is a numbered sequence of messages to one peer. A message that is handed over becomes a claim: it keeps its
place in its queue and no consumer gets it. Claims are in the store before anything is sent:

    records   mesh-claims, channel u64, first number u64   ->   for each: u32 number - first, u32 queue id,
                                                                u8 priority, u64 sequence

The peer stores its mark, the last number that it has, in the commit that stores the message. After a break it tells the
mark, and one number settles what was on its way: claims up to it are removed, all others are back at their places.

A channel lives as long as one run of this broker. One that an earlier run left has claims only; it ends when the peer
has told its mark.
"""

from collections.abc import Mapping
from struct import Struct, error, iter_unpack, pack
from typing import Final

from artemis_py.core.queues.outcomes import RELEASED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.settlement import acknowledge, claim, claim_stored, end_claim, forget, give_back
from artemis_py.core.queues.storage import Storage

CLAIMS: Final = "mesh-claims"
"""Space of the records of claims."""
CHANNELS: Final = "mesh-channels"
"""Space of the records of channels: id u64 -> id of the peer's node."""

_KEY: Final = Struct(">QQ")
_ID: Final = Struct(">Q")
_CLAIM: Final = Struct(">IIBQ")
_NUMBER_BYTES: Final = 4
_SEQUENCE_OFFSET: Final = 9
_SEQUENCE_BYTES: Final = 8

LEAST_COLUMNS: Final = 16
"""Claims of one queue from which on they are packed by columns: 400 one by one take twice as long."""


class _Run:
    """Claims of one queue and priority, one after the other."""

    def __init__(self, queue_id: int, priority: int) -> None:
        self.queue_id: Final = queue_id
        self.priority: Final = priority
        self.offsets: Final[list[int]] = []
        self.sequences: Final[list[int]] = []

    def pack(self, parts: list[bytes]) -> None:
        """Add them as a record has them."""
        offsets, sequences, size = self.offsets, self.sequences, _CLAIM.size
        count = len(offsets)
        if count < LEAST_COLUMNS:
            for index in range(count):
                parts.append(_CLAIM.pack(offsets[index], self.queue_id, self.priority, sequences[index]))
            return
        block = bytearray(_CLAIM.pack(0, self.queue_id, self.priority, 0) * count)
        column = pack(f">{count}I", *offsets)
        for index in range(_NUMBER_BYTES):
            block[index::size] = column[index::_NUMBER_BYTES]
        column = pack(f">{count}Q", *sequences)
        for index in range(_SEQUENCE_BYTES):
            block[_SEQUENCE_OFFSET + index :: size] = column[index::_SEQUENCE_BYTES]
        parts.append(bytes(block))


class OriginChannel:
    """A channel to one peer, and the messages that are claimed for it."""

    def __init__(self, storage: Storage, id: int, peer_id: str) -> None:
        self.id: Final = id
        self.peer_id: Final = peer_id
        self.next: int = 1
        """Number of the next message."""
        self.freed: int = 0
        """The last number that the peer has confirmed."""
        self.claims: Final[dict[int, Reference]] = {}
        """Claimed messages by number, in order."""
        self.fresh: list[int] = []
        """Numbers that were claimed in this iteration of the loop, and are not in the store yet."""
        self.bytes_claimed: int = 0
        self.since_ms: int = 0
        """Time at which the peer was lost; 0 while it is connected."""
        self._lowest: int = 1
        """No message with a lower number is claimed."""
        self._storage: Final = storage
        self._records: Final[dict[int, int]] = {}
        """First and last number of each record of claims."""
        self._is_saved = False

    def add(self, reference: Reference) -> int:
        """Claim a message that dispatch has just given to a taker; return its number."""
        claim(reference)
        number = self.next
        self.next = number + 1
        self.claims[number] = reference
        self.bytes_claimed += reference.message.size
        self.fresh.append(number)
        return number

    def save_fresh(self) -> list[int]:
        """Store the claims of this iteration, with everything else of it; return their numbers."""
        numbers, self.fresh = self.fresh, []
        self._save(numbers[0], numbers)
        return numbers

    def _save(self, first: int, numbers: list[int]) -> None:
        """Store the record of claims that begins with this number; without claims in the store there is none."""
        parts: list[bytes] = []
        run = _Run(0, 0)
        for number in numbers:
            reference = self.claims[number]
            if reference.handle:
                queue = reference.queue
                priority = 4 if queue.internal else reference.message.priority
                if queue.id != run.queue_id or priority != run.priority:
                    run.pack(parts)
                    run = _Run(queue.id, priority)
                run.offsets.append(number - first)
                run.sequences.append(reference.sequence)
        run.pack(parts)
        if parts:
            if not self._is_saved:
                self._is_saved = True
                self._storage.save_record(CHANNELS, _ID.pack(self.id), self.peer_id.encode())
            self._storage.save_record(CLAIMS, _KEY.pack(self.id, first), b"".join(parts))
            self._records[first] = numbers[-1]
        elif first in self._records:
            self._forget_record(first)

    def free(self, upto: int) -> None:
        """Remove the messages that the peer has, up to this number."""
        # Not by a copy of all claims: many confirmations come while thousands of messages are on their way.
        number = self._lowest
        last = min(upto, self.next - 1)
        claims = self.claims
        while number <= last:
            reference = claims.get(number)
            if reference is not None:
                del claims[number]
                self.bytes_claimed -= reference.message.size
                self._take_away(reference)
            number += 1
        self._lowest = number
        self.freed = max(self.freed, upto)
        while self._records:
            first = next(iter(self._records))
            if self._records[first] > upto:
                break
            self._forget_record(first)

    def settle(self, mark: int) -> int:
        """Free what the peer has, put everything else back at its place, and continue behind the mark.

        Returns how many messages came back.
        """
        self.free(mark)
        count = len(self.claims)
        # The newest first, so that each finds its place at the head at once.
        for number in list(reversed(self.claims)):
            self._return(number, RELEASED)
        for first in list(self._records):
            self._forget_record(first)
        self.fresh = []
        self.next = self._lowest = mark + 1
        return count

    def withdraw(self, number: int, outcome: int) -> None:
        """Give one message back with this outcome; the peer is to pass over its number once that is in the store."""
        self._return(number, outcome)
        for first, last in list(self._records.items()):
            if first <= number <= last:
                self._save(first, [each for each in self.claims if first <= each <= last])

    def close(self) -> None:
        """Forget the channel, which has no claims any more."""
        if self._is_saved:
            self._is_saved = False
            self._storage.save_record(CHANNELS, _ID.pack(self.id), None)

    def _take_away(self, reference: Reference) -> None:
        """Remove a message that the peer has."""
        end_claim(reference)
        queue = reference.queue
        if queue.is_deleted:
            queue.delivering_count -= 1
            forget(reference)
        else:
            acknowledge(reference)

    def _return(self, number: int, outcome: int) -> None:
        """Give a message back."""
        reference = self.claims[number]
        del self.claims[number]
        self.bytes_claimed -= reference.message.size
        end_claim(reference)
        give_back(reference, outcome)

    def _forget_record(self, first: int) -> None:
        del self._records[first]
        self._storage.save_record(CLAIMS, _KEY.pack(self.id, first), None)

    # -- restart -----------------------------------------------------------------------------------------------

    def restore(self, first: int, value: bytes, queues: Mapping[int, Queue]) -> int:
        """Claim again what an earlier run had claimed; return how many of those messages are gone.

        A damaged record counts as one message that is gone: what it named is in its queue.
        """
        self._is_saved = True
        missing = 0
        last = first
        self._lowest = min(self._lowest, first) if self._records else first
        try:
            entries = list(iter_unpack(_CLAIM.format, value))
        except error:
            entries = []
            missing = 1
        for offset, queue_id, priority, sequence in entries:
            last = first + offset
            queue = queues.get(queue_id)
            reference = claim_stored(queue, priority, sequence) if queue is not None and priority < 10 else None
            if reference is None:
                missing += 1
                continue
            self.claims[last] = reference
            self.bytes_claimed += reference.message.size
        self._records[first] = last
        self.next = max(self.next, last + 1)
        return missing


def read_claims(key: bytes, value: bytes) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the channel of a record of claims, and queue id, priority and sequence of each claimed message.

    Raises ValueError for a damaged record.
    """
    if len(key) != _KEY.size or len(value) % _CLAIM.size:
        raise ValueError("it has a wrong length")
    places = [entry[1:] for entry in iter_unpack(_CLAIM.format, value)]
    return _KEY.unpack(key)[0], places


def load_channels(storage: Storage, queues: Mapping[int, Queue]) -> tuple[list[OriginChannel], int]:
    """Return the channels that an earlier run left, and how many of their messages are gone."""
    channels: dict[int, OriginChannel] = {}
    for key, value in storage.load_records(CHANNELS):
        if len(key) == _ID.size:
            id: int = _ID.unpack(key)[0]
            channel = OriginChannel(storage, id, value.decode(errors="replace"))
            channel._is_saved = True
            channels[id] = channel
    missing = 0
    for key, value in storage.load_records(CLAIMS):
        if len(key) != _KEY.size:
            continue
        id, first = _KEY.unpack(key)
        known = channels.get(id)
        if known is None:
            # Its messages are in their queues, and nobody knows for whom they were claimed.
            storage.save_record(CLAIMS, key, None)
            missing += 1
        else:
            missing += known.restore(first, value, queues)
    return list(channels.values()), missing
