"""The groups that a queue knows, and which consumer owns each of them."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from zlib import crc32

from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.accounts import GROUP_BYTES
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# Groups that a queue remembers though nothing of them waits or is unsettled: about 80 MB. Beyond that, or if half of
# the memory for tables is used, those that came first are forgotten: their next message may go to another consumer.
KEPT_GROUPS: Final = 250_000


class Group:
    """What is known about one group, or about one bucket of groups."""

    __slots__ = ("epoch", "in_flight", "is_incomplete", "listed", "name", "owner", "waiting")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.owner: Consumer | None = None
        """See `GroupTable.owner_of`: it may have left, or the groups may have been assigned again."""
        self.epoch: int = 0
        """The epoch of the table in which the owner was chosen."""
        self.in_flight: int = 0
        """Number of deliveries that are not settled."""
        self.listed: int = 0
        """Number of messages that are listed."""
        self.waiting: list[int] = []
        """Keys of listed messages, as a heap. The first one is listed; others may be out of date."""
        self.is_incomplete: bool = False
        """Whether the scan passed messages of it that are not listed."""


class GroupTable:
    """The groups of one queue, by name."""

    def __init__(self, queue: "Queue", buckets: int) -> None:
        self._queue: Queue = queue
        self.buckets: int = buckets
        """Number of hashes of group ids; -1: each id is a group."""
        self.groups: OrderedDict[str, Group] = OrderedDict()
        self.epoch: int = 0
        """Increased when all groups lose their owners."""
        self.keeps_all: bool = False
        """Whether no group that has an owner may be forgotten."""
        self._is_sweeping: bool = False
        self._must_sweep: bool = False

    def name_of(self, reference: Reference) -> str | None:
        """Return the name of a message's group or bucket; None if it belongs to no group."""
        if not reference.message.has_group:
            return None
        id = reference.message.lookup("JMSXGroupID")
        if not isinstance(id, str) or not id:
            return None
        if self.buckets > 0:
            # Not `hash`, which differs from run to run.
            return str(crc32(id.encode("utf-8", "surrogatepass")) % self.buckets)
        return id

    def owner_of(self, group: Group) -> "Consumer | None":
        """Return the owner of a group; None if it has none, or none any more."""
        owner = group.owner
        return None if owner is None or owner.is_closed or group.epoch != self.epoch else owner

    def is_free(self, group: Group) -> bool:
        """Tell whether any consumer may have the next message of a group."""
        return group.in_flight == 0 and self.owner_of(group) is None

    def owners(self, limit: int = 1 << 60) -> list[tuple[str, "Consumer"]]:
        """Return the groups that have owners, with their owners; `limit` of them at most."""
        found: list[tuple[str, Consumer]] = []
        for name, group in self.groups.items():
            owner = self.owner_of(group)
            if owner is not None:
                if len(found) >= limit:
                    break
                found.append((name, owner))
        return found

    def take(self, name: str) -> Group:
        """Return the group of this name, which is added if it is not known."""
        group = self.groups.get(name)
        if group is not None:
            return group
        tables = self._queue.dispatcher.tables
        if (len(self.groups) >= KEPT_GROUPS or tables.is_tight) and not self.keeps_all:
            self._make_room()
        tables.occupy(GROUP_BYTES + len(name))
        group = self.groups[name] = Group(name)
        return group

    def _make_room(self) -> None:
        """Forget the groups that came first if they are idle. Two are tried, so that many idle ones become fewer."""
        for _ in range(min(2, len(self.groups))):
            name, group = self.groups.popitem(last=False)
            if self._is_idle(group):
                self._queue.dispatcher.tables.vacate(GROUP_BYTES + len(name))
            else:
                self.groups[name] = group

    def _is_idle(self, group: Group) -> bool:
        """Tell whether nothing of the group waits or is unsettled, as far as the scan has come."""
        return not group.in_flight and not group.listed and not group.is_incomplete

    def drop(self, group: Group) -> None:
        """Forget a group."""
        if self.groups.pop(group.name, None) is not None:
            self._queue.dispatcher.tables.vacate(GROUP_BYTES + len(group.name))

    def clear(self) -> None:
        """Forget all groups."""
        for name in self.groups:
            self._queue.dispatcher.tables.vacate(GROUP_BYTES + len(name))
        self.groups.clear()

    def sweep(self) -> None:
        """Forget the groups that have no owner any more, in slices."""
        self._must_sweep = True
        if not self._is_sweeping:
            self._queue.dispatcher.slices.start(self._forget_unowned())

    def _forget_unowned(self) -> Steps:
        self._is_sweeping = True
        left = SLICE_MESSAGES
        while self._must_sweep:
            self._must_sweep = False
            for name in list(self.groups):
                group = self.groups.get(name)
                if group is not None and group.listed == 0 and not group.is_incomplete and self.is_free(group):
                    self.drop(group)
                left -= 1
                if left == 0:
                    left = SLICE_MESSAGES
                    yield None
        self._is_sweeping = False
        return None
