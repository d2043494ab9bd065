"""Stamps of retained messages: which of two messages of one topic is the newer one, at every node of the mesh.

Each topic is a register: a stamp, and a message or the fact that there is none. The register with the greater stamp
wins, whatever the order of arrival. A stamp is a time and a number of the node that gave it. The time is that of the
node's clock in milliseconds, but always greater than any that the node has seen: a node that replaces a message that it
knows wins, however wrong the clocks are.

    records   mesh-retained, hash of the topic (16 octets)   ->   JSON: topic, time, number of the node, is gone

Topics that were retained before their broker belonged to a mesh have no record, and the time 0.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Final

from artemis_py.core.queues.storage import Storage

REGISTERS: Final = "mesh-retained"
"""Space of the records of stamps."""

BUCKETS: Final = 256
"""Parts of all topics whose digests are compared when a node connects: of 100,000 topics, one has 390."""

GONE_MS: Final = 7 * 24 * 3_600_000
"""Time for which a node remembers that there is no message, to tell nodes that were away."""
MAX_GONE: Final = 100_000
"""Topics of which that is remembered, about 300 bytes each; beyond that those are forgotten that ended first."""

Stamp = tuple[int, int]
"""Time in ms since 1970, or later; number of the node."""

_PAIR: Final = Struct(">QQ")


class Register:
    """What is known of one topic."""

    __slots__ = ("is_gone", "stamp")

    def __init__(self, stamp: Stamp, is_gone: bool) -> None:
        self.stamp: Stamp = stamp
        self.is_gone: bool = is_gone
        """Whether there is no message: it was deleted, or has expired."""


class Registers:
    """The registers of this node, in the store and in memory."""

    def __init__(self, storage: Storage, node_id: str) -> None:
        self.node: Final = int.from_bytes(blake2b(node_id.encode(), digest_size=8).digest(), "big")
        """Number of this node."""
        self._storage: Final = storage
        self._registers: Final[dict[str, Register]] = {}
        self._gone: Final[dict[str, None]] = {}
        """Topics without a message, those that ended first in front."""
        self._buckets: Final[list[dict[str, None]]] = [{} for _ in range(BUCKETS)]
        self._digests: Final = [0] * BUCKETS
        self._last_ms: int = 0

    def __len__(self) -> int:
        return len(self._registers)

    def load(self) -> None:
        """Read what an earlier run left."""
        found: list[tuple[int, str, Register]] = []
        for key, value in self._storage.load_records(REGISTERS):
            try:
                topic, time_ms, node, is_gone = json.loads(value)
                found.append((int(time_ms), str(topic), Register((int(time_ms), int(node)), bool(is_gone))))
            except (ValueError, TypeError):
                self._storage.save_record(REGISTERS, key, None)
        for _, topic, register in sorted(found, key=_time):
            self._put(topic, register)

    def get(self, topic: str) -> Register | None:
        """Return the register of a topic."""
        return self._registers.get(topic)

    def topics(self) -> list[str]:
        """Return all topics, also those without a message."""
        return list(self._registers)

    def stamp(self, topic: str, now_ms: int, is_gone: bool) -> None:
        """Give a topic a new stamp of this node, because its message was replaced or deleted here."""
        self._last_ms = max(now_ms, self._last_ms + 1)
        self.set(topic, (self._last_ms, self.node), is_gone, now_ms)

    def set(self, topic: str, stamp: Stamp, is_gone: bool, now_ms: int) -> None:
        """Note the stamp of a topic, in the commit that stores or deletes its message."""
        self._put(topic, Register(stamp, is_gone))
        value = json.dumps([topic, *stamp, is_gone]).encode()
        self._storage.save_record(REGISTERS, _key(topic), value)
        self._forget_old(now_ms)

    def adopt(self, topic: str) -> None:
        """Note a topic that was retained before this broker belonged to a mesh."""
        self._put(topic, Register((0, self.node), False))

    def _put(self, topic: str, register: Register) -> None:
        bucket = bucket_of(topic)
        old = self._registers.get(topic)
        if old is not None:
            self._digests[bucket] ^= _hash(topic, old.stamp)
        self._registers[topic] = register
        self._buckets[bucket][topic] = None
        self._digests[bucket] ^= _hash(topic, register.stamp)
        self._last_ms = max(self._last_ms, register.stamp[0])
        self._gone.pop(topic, None)
        if register.is_gone:
            self._gone[topic] = None

    def _forget_old(self, now_ms: int) -> None:
        """Forget that topics have no message, a few at a time."""
        for topic in list(_first(self._gone, 2)):
            stamp = self._registers[topic].stamp
            if len(self._gone) <= MAX_GONE and stamp[0] > now_ms - GONE_MS:
                return
            del self._gone[topic]
            del self._registers[topic]
            bucket = bucket_of(topic)
            del self._buckets[bucket][topic]
            self._digests[bucket] ^= _hash(topic, stamp)
            self._storage.save_record(REGISTERS, _key(topic), None)

    # -- comparing -------------------------------------------------------------------------------------------------

    def digests(self) -> bytes:
        """Return the digests of all buckets, 8 octets each."""
        return b"".join([digest.to_bytes(8, "big") for digest in self._digests])

    def differing(self, digests: bytes) -> list[int]:
        """Return the buckets whose digest at another node is not the one here."""
        own = self.digests()
        return [bucket for bucket in range(BUCKETS) if own[8 * bucket :][:8] != digests[8 * bucket :][:8]]

    def of_bucket(self, bucket: int) -> list[str]:
        """Return the topics of a bucket."""
        return list(self._buckets[bucket])


def bucket_of(topic: str) -> int:
    """Return the bucket of a topic."""
    return blake2b(topic.encode(), digest_size=1).digest()[0]


def _time(found: tuple[int, str, Register]) -> int:
    return found[0]


def _first(topics: dict[str, None], count: int) -> Iterator[str]:
    for topic, _ in zip(topics, range(count), strict=False):
        yield topic


def _hash(topic: str, stamp: Stamp) -> int:
    content = _PAIR.pack(*stamp) + topic.encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _key(topic: str) -> bytes:
    return blake2b(topic.encode(), digest_size=16).digest()
