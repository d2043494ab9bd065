"""The members of a mesh: nodes that this one is connected to, was connected to, or has heard of from others.

    records   mesh-members, id of the node   ->   JSON: name, URLs, number of its starts
              mesh-runs, id of the node      ->   u64 number of its starts, u64 random number of the last one

A member leaves only by command (`forget`).
"""

import json
from collections.abc import Callable
from struct import Struct
from typing import Final

from attrs import evolve, frozen

from artemis_py.cluster.records import Member
from artemis_py.core.queues.storage import Storage
from artemis_py.errors import InvalidRequest

MEMBERS: Final = "mesh-members"
"""Space of the records of members."""

RUNS: Final = "mesh-runs"
"""Space of the records of their last starts; earlier builds would not know a member with one value more."""

MAX_MEMBERS: Final = 1000
"""Members that are remembered: a mesh has a hundred at most."""

_RUN: Final = Struct(">QQ")


@frozen
class KnownMember:
    """Another node of the mesh, connected or not."""

    node_id: str
    name: str
    urls: tuple[str, ...]
    incarnation: int
    """Number of its starts, as it said itself; 0 if only others have named it."""
    run: int = 0
    """Random number of that start (`starts`); 0 if it is not known."""

    @property
    def record(self) -> Member:
        """What peers are told about it."""
        return Member(self.node_id, self.name, self.urls)


class Members:
    """All members but this node, by id."""

    def __init__(self, storage: Storage, own_id: str) -> None:
        self.on_member: Callable[[KnownMember], None] = _ignore
        """Told of each node that is heard of, and of changes, to dial it."""
        self.on_new: Callable[[KnownMember], None] = _ignore
        """Told of each node that was not known, to tell peers."""
        self.is_forgotten: Callable[[str], bool] = _never
        """Tells whether a node is a member only by its own word."""
        self._storage: Final = storage
        self._own_id: Final = own_id
        self._members: Final[dict[str, KnownMember]] = {}

    def load(self) -> None:
        """Read what an earlier run left."""
        for key, value in self._storage.load_records(MEMBERS):
            try:
                name, urls, incarnation = json.loads(value)
                known = KnownMember(key.decode(), str(name), tuple([str(url) for url in urls]), int(incarnation))
            except (ValueError, TypeError):
                # It tells who it is when it is back.
                continue
            self._members[known.node_id] = known
        for key, value in self._storage.load_records(RUNS):
            member = self._members.get(key.decode(errors="replace"))
            # A build that does not keep it may have met the node since.
            if member is not None and len(value) == _RUN.size and _RUN.unpack(value)[0] == member.incarnation:
                self._members[member.node_id] = evolve(member, run=_RUN.unpack(value)[1])

    def values(self) -> list[KnownMember]:
        """Return all members."""
        return list(self._members.values())

    def get(self, node_id: str) -> KnownMember | None:
        """Return the member of this id."""
        return self._members.get(node_id)

    def find(self, text: str) -> KnownMember:
        """Return the member of this id or name. Raises InvalidRequest."""
        known = self._members.get(text)
        if known is not None:
            return known
        found = [each for each in self._members.values() if each.name == text]
        if len(found) > 1:
            ids = ", ".join(sorted(each.node_id for each in found))
            raise InvalidRequest(f"{len(found)} members have the name '{text}'; give the id: {ids}")
        if not found:
            raise InvalidRequest(f"the mesh has no other member '{text}'")
        return found[0]

    def accept(self, member: KnownMember) -> None:
        """Let a member come back whose store is older than it was, by the word of an operator."""
        self.remember(evolve(member, incarnation=0, run=0))

    def learn(self, member: Member) -> None:
        """Note a member that a peer knows; what it says of itself counts more."""
        is_new = member.node_id not in self._members and not self.is_forgotten(member.node_id)
        if is_new and len(self._members) < MAX_MEMBERS:
            self.remember(KnownMember(member.node_id, member.name, member.urls or (), 0))

    def remember(self, member: KnownMember) -> None:
        """Note a member, or what has changed about it."""
        known = self._members.get(member.node_id)
        if member == known or member.node_id == self._own_id:
            return
        self._members[member.node_id] = member
        value = json.dumps([member.name, list(member.urls), member.incarnation]).encode()
        self._storage.save_record(MEMBERS, member.node_id.encode(), value)
        self._storage.save_record(RUNS, member.node_id.encode(), _RUN.pack(member.incarnation, member.run))
        if known is None:
            self.on_new(member)
        self.on_member(member)

    def forget(self, member: KnownMember) -> None:
        """Forget a member."""
        del self._members[member.node_id]
        self._storage.save_record(MEMBERS, member.node_id.encode(), None)
        self._storage.save_record(RUNS, member.node_id.encode(), None)


def _ignore(member: KnownMember) -> None:
    pass


def _never(node_id: str) -> bool:
    return False
