"""Message groups: all messages of a group go to one consumer, in order, while it lasts (artemis-model §3.6.2).

A group has no owner at first. The consumer that gets its first message, in the usual rotation, owns it until the
consumer leaves, a message closes the group, or groups are assigned again. Then the group has no owner, and its messages
wait until everything of it that was delivered is settled or back in the queue: at no time do two consumers have
unsettled messages of one group, so its order is kept.

Consumers share one scan of the queue (`cursors/group_cursor`). Waiting messages that it has passed are listed
(`group_lists`).
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.cursors.cursor import Cursor, ScanBudget
from artemis_py.core.queues.cursors.group_cursor import (
    BEHIND,
    HIDDEN,
    NO_KEY,
    PASS,
    TAKE,
    GroupCursor,
    GroupScan,
    group_cursor_of,
    key_of,
)
from artemis_py.core.queues.page import END
from artemis_py.core.queues.reference import CLAIMED, Reference
from artemis_py.core.queues.rules.assignment import Assignment
from artemis_py.core.queues.rules.group_lists import GroupLists
from artemis_py.core.queues.rules.group_table import Group, GroupTable

if TYPE_CHECKING:
    from artemis_py.core.queues.consumer import Consumer
    from artemis_py.core.queues.queue import Queue

# Values of JMSXGroupSeq that close a group: -1, and what it is as the unsigned number of AMQP.
_CLOSING: Final = (-1, 0xFFFFFFFF)


class Groups(Assignment):
    """Gives each message of a group to the owner of the group."""

    def __init__(self, queue: "Queue", buckets: int) -> None:
        super().__init__()
        self.is_by_message = True
        self.buckets: int = buckets
        """Number of hashes of group ids; -1: each id is a group."""
        self.scan: GroupScan = GroupScan(self)
        self._queue: Queue = queue
        self.table: GroupTable = GroupTable(queue, buckets)
        self._loose: Group = Group("")
        """Listed messages that belong to no group: they came back after the scan had passed."""
        self.lists: GroupLists = GroupLists(queue, self.table)
        self._in_flight: dict[int, Group] = {}
        """Groups of unsettled deliveries, by sequence."""
        self._cursors: dict[int, GroupCursor] = {}
        """The cursors of attached consumers, by their ids."""
        self._examined_below: int = 0
        """The queue's next sequence when the scan was last exhausted."""
        self._is_paused: bool = False
        """Whether nothing is delivered until everything is settled, because groups are to be assigned again."""

    # -- which consumer ----------------------------------------------------------------------------------------

    def make_cursor(self, consumer: "Consumer") -> Cursor:
        """Return a cursor that shares the scan, or walks by itself if the consumer has a selector."""
        cursor = GroupCursor(self, consumer.filter is not None)
        if not consumer.browse:
            self._cursors[consumer.id] = cursor
            if cursor.is_selective:
                self._set_alone(cursor)
        return cursor

    def begin(self, queue: "Queue") -> None:
        """Put the resting consumers back into their rings if there is something to examine."""
        if self.lists.is_exhausted and self._examined_below == queue.next_sequence:
            return
        self.lists.is_exhausted = False
        if self.lists.resting:
            resting, self.lists.resting = self.lists.resting, {}
            for consumer in resting:
                queue.dispatch.enter(consumer)

    def rests(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Let the consumer rest if it shares the scan, which has found nothing."""
        cursor = group_cursor_of(consumer)
        if cursor is None or cursor.own is not None or not self.lists.is_exhausted:
            return False
        self.lists.resting[consumer] = None
        return True

    def may_take(self, queue: "Queue", consumer: "Consumer") -> bool:
        """Tell whether groups are not about to be assigned again."""
        return not self._is_paused

    def may_have(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> bool:
        """Tell whether the message belongs to a group of the consumer, to a free one, or to none."""
        name = self.table.name_of(reference)
        group = None if name is None else self.table.groups.get(name)
        if group is None:
            return True
        owner = self.table.owner_of(group)
        return group.in_flight == 0 if owner is None else owner is consumer

    def examine(self, consumer: "Consumer", reference: Reference, is_cold: bool) -> int:
        """Decide about the next message of the scan, for a consumer that shares it."""
        if self.lists.group_of(reference.sequence) is not None:
            return PASS
        name = self.table.name_of(reference)
        group = None if name is None else self.table.groups.get(name)
        is_hidden = reference.hidden_from is not None and consumer.id in reference.hidden_from
        if group is None:
            return self._take_or_hide(consumer, is_hidden)
        owner = self.table.owner_of(group)
        if owner is consumer and not is_hidden:
            return TAKE
        if owner is consumer:
            self._disown(group)
            group = self.table.take(group.name)
        elif owner is not None:
            cursor = group_cursor_of(owner)
            if cursor is None or cursor.own is not None:
                return PASS
            if self.lists.is_full(cursor.listed):
                self.scan.late = cursor
                self._set_alone(cursor)
                return BEHIND
        elif group.in_flight == 0:
            return self._take_or_hide(consumer, is_hidden)
        elif self.lists.is_full(group.listed):
            group.is_incomplete = True
            return PASS
        self.lists.add(group, reference, is_cold)
        return PASS

    def _take_or_hide(self, consumer: "Consumer", is_hidden: bool) -> int:
        if not is_hidden:
            return TAKE
        self._go_alone(consumer)
        return HIDDEN

    def _go_alone(self, consumer: "Consumer") -> None:
        """Let a consumer walk by itself, because a message that others may have is hidden from it."""
        cursor = group_cursor_of(consumer)
        if cursor is not None:
            cursor.become_selective()
            self._set_alone(cursor)

    def _set_alone(self, cursor: GroupCursor) -> None:
        if cursor not in self.lists.alone:
            self.lists.alone.append(cursor)
        # A cursor may be in front of the scan, and may have passed messages of any group.
        self.table.keeps_all = True

    def rejoined(self, cursor: GroupCursor) -> None:
        """Note that a cursor that was behind shares the scan again."""
        self._unset_alone(cursor)

    def _unset_alone(self, cursor: GroupCursor) -> None:
        if cursor in self.lists.alone:
            self.lists.alone.remove(cursor)
        self.table.keeps_all = len(self.lists.alone) > 0

    def find(self, consumer: "Consumer", cursor: GroupCursor, budget: ScanBudget) -> Reference | None:
        """Return the next message for a consumer that shares the scan."""
        queue = self._queue
        while True:
            key = self.lists.first_ready(consumer, cursor)
            first = self.lists.first_free()
            key = min(key, first)
            found = self.scan.find(consumer, cursor, key, budget)
            if cursor.is_selective:
                return cursor.next(consumer, budget)
            if found is not None or budget.left <= 0:
                return found
            if min(self.lists.first_ready(consumer, cursor), self.lists.first_free()) < key:
                # The scan listed something that comes earlier.
                continue
            if key == NO_KEY:
                self.lists.is_exhausted = True
                self._examined_below = queue.next_sequence
                return None
            found = self.lists.bring(queue, key, budget)
            group = self.lists.group_of(key & END)
            if found is None and group is not None:
                # It cannot be read now.
                return None
            if found is not None and (found.hidden_from is None or consumer.id not in found.hidden_from):
                return found
            if found is not None and group is not None:
                if self.table.owner_of(group) is consumer:
                    self._disown(group)
                else:
                    self._go_alone(consumer)
                    return cursor.next(consumer, budget)

    # -- what happens to messages ------------------------------------------------------------------------------

    def delivered(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """Make the consumer the owner of the message's group, if the group has none."""
        consumer.mark = None
        consumer.is_first_of_group = False
        name = self.table.name_of(reference)
        if name is not None:
            group = self.table.take(name)
            is_closing = reference.message.lookup("JMSXGroupSeq") in _CLOSING
            if self.table.owner_of(group) is None:
                consumer.mark = queue.settings.group_first_key
                consumer.is_first_of_group = True
                if not is_closing and group_cursor_of(consumer) is not None:
                    self._own(group, consumer)
            group.in_flight += 1
            self._in_flight[reference.sequence] = group
            if is_closing:
                self._disown(group)
        if self.lists.group_of(reference.sequence) is not None:
            self.lists.remove(reference.sequence)

    def settled(self, queue: "Queue", reference: Reference) -> None:
        """Let a group without an owner go on if this was the last delivery of it."""
        group = self._in_flight.pop(reference.sequence, None)
        if group is not None:
            group.in_flight -= 1
            if group.in_flight == 0 and self.table.owner_of(group) is None:
                self._release(group)
        if self._is_paused and queue.delivering_count == 0:
            self._is_paused = False
            self.reset_all()

    def adopted(self, queue: "Queue", consumer: "Consumer", reference: Reference) -> None:
        """Give the group to a consumer that took over its deliveries."""
        group = self._in_flight.get(reference.sequence)
        if group is None or consumer.is_closed or group_cursor_of(consumer) is None:
            return
        owner = self.table.owner_of(group)
        if owner is None or (owner is not consumer and group.in_flight == 1):
            if owner is not None:
                self._disown(group)
            self._own(group, consumer)

    def came_back(self, queue: "Queue", reference: Reference) -> None:
        """List a message that returned behind the place of the scan; the cursors of others find it as well."""
        backlog = queue.backlog
        priority = backlog.priority_of(reference)
        name = self.table.name_of(reference)
        group = self._loose if name is None else self.table.groups.get(name)
        owner = None if group is None else self.table.owner_of(group)
        if group is not None and owner is not None and reference.hidden_from is not None:
            if owner.id in reference.hidden_from:
                # It must not get it, so another consumer has to get the group.
                self._disown(group)
                group = self.table.groups.get(group.name)
        place = self.scan.places[priority]
        if place is None or place.sequence < reference.sequence:
            self.lists.is_exhausted = False
            if self.lists.alone:
                for cursor in self.lists.alone:
                    cursor.go_back(key_of(priority, reference.sequence), reference)
            queue.dispatch.mark_ready()
            return
        if group is None:
            assert name is not None
            group = self.table.take(name)
        self.lists.add(group, reference, False)

    def entered(self, queue: "Queue", reference: Reference) -> None:
        """Remember where a listed message is in memory."""
        self.lists.entered(reference)

    def removed(self, queue: "Queue", reference: Reference) -> None:
        """Forget a listed message that left the queue."""
        group = self.lists.group_of(reference.sequence)
        if group is not None:
            self.lists.remove(reference.sequence)
            if group.listed == 0 and group is not self._loose and self.table.is_free(group):
                self.table.drop(group)

    def emptied(self, queue: "Queue") -> None:
        """Forget all listed messages."""
        self._forget_listed()

    def _forget_listed(self) -> None:
        self.lists.clear()
        for cursor in self._cursors.values():
            cursor.ready = []
            cursor.listed = 0
            cursor.reset()
        self.scan.go_back(None)
        self.lists.is_exhausted = False

    # -- owners ------------------------------------------------------------------------------------------------

    def _own(self, group: Group, consumer: "Consumer") -> None:
        group.owner = consumer
        group.epoch = self.table.epoch
        cursor = group_cursor_of(consumer)
        if cursor is not None:
            cursor.listed += group.listed
        if group.waiting:
            self.lists.announce(group)

    def _disown(self, group: Group) -> None:
        """Take a group from its owner."""
        owner = self.table.owner_of(group)
        group.owner = None
        cursor = None if owner is None else group_cursor_of(owner)
        if cursor is not None:
            cursor.listed -= group.listed
            if cursor.own is not None:
                self._look_again(cursor)
        if group.in_flight == 0:
            self._release(group)
        else:
            self._retreat()

    def _retreat(self) -> None:
        """Have cursors that walk by themselves examine again what is behind the shared scan.

        They may have passed messages that others owned. What the shared scan has passed is listed.
        """
        for cursor in self.lists.alone:
            if cursor.own is not None:
                cursor.own.go_back(self.scan)
                self._queue.dispatch.mark_ready()

    def _look_again(self, cursor: GroupCursor) -> None:
        """Examine again what the shared scan left to a consumer that walks by itself."""
        self.scan.go_back(None if cursor.is_selective else cursor.own)
        for other in self.lists.alone:
            if other is not cursor and other.own is not None:
                other.own.reset()
        self.lists.is_exhausted = False
        self._queue.dispatch.mark_ready()

    def _release(self, group: Group) -> None:
        """Let any consumer have the messages of a group that has no owner and no delivery."""
        self._retreat()
        if group.is_incomplete:
            group.is_incomplete = False
            self._start_over()
        if group.waiting:
            self.lists.announce(group)
            if self.lists.alone:
                for key in group.waiting:
                    self.lists.send_back(key)
        else:
            self.table.drop(group)

    def _start_over(self) -> None:
        """Examine the whole queue again; what is listed stays listed."""
        self.scan.go_back(None)
        for cursor in self.lists.alone:
            if cursor.own is not None:
                cursor.own.reset()
        self.lists.is_exhausted = False
        self._queue.dispatch.mark_ready()

    def joined(self, queue: "Queue", consumer: "Consumer") -> None:
        """Assign all groups again if the attributes say so."""
        if not queue.settings.group_rebalance or not self.table.groups:
            return
        if queue.settings.group_rebalance_pause_dispatch and queue.delivering_count > 0:
            self._is_paused = True
        else:
            self.reset_all()

    def left(self, queue: "Queue", consumer: "Consumer") -> None:
        """Let others have the consumer's groups, each once its deliveries are settled or back."""
        cursor = self._cursors.pop(consumer.id, None)
        self.lists.resting.pop(consumer, None)
        if cursor is None:
            return
        self._unset_alone(cursor)
        if cursor.own is not None:
            self._look_again(cursor)
        self._retreat()
        self._offer(cursor)
        self.table.sweep()

    def reset(self, name: str) -> bool:
        """Take a group from its owner; False if it has none."""
        group = self.table.groups.get(name)
        if group is None or self.table.owner_of(group) is None:
            return False
        self._disown(group)
        return True

    def reset_all(self) -> int:
        """Take all groups from their owners; return how many groups were known."""
        count = len(self.table.groups)
        self.table.epoch += 1
        for cursor in self._cursors.values():
            cursor.listed = 0
            self._offer(cursor)
        if self.lists.alone:
            self._start_over()
        self.lists.is_exhausted = False
        self._queue.dispatch.mark_ready()
        self.table.sweep()
        return count

    def _offer(self, cursor: GroupCursor) -> None:
        """Announce what is listed for groups that a consumer no longer owns."""
        ready, cursor.ready = cursor.ready, []
        if cursor.is_selective:
            # Nothing is announced to it, because it walks by itself.
            ready = [group.waiting[0] for group in self.lists.groups()]
        for key in ready:
            group = self.lists.group_of(key & END)
            if group is not None and group.waiting[0] == key and self.table.is_free(group):
                self._release(group)

    # -- beginning and end -------------------------------------------------------------------------------------

    def began(self, queue: "Queue") -> None:
        """Find the groups of the deliveries that consumers already have."""
        for consumer in queue.consumers + queue.holders:
            for reference in consumer.outstanding.all():
                self._found(reference, consumer)
        for reference in queue.aside.values():
            if reference.state == CLAIMED:
                self._found(reference, None)

    def _found(self, reference: Reference, consumer: "Consumer | None") -> None:
        name = self.table.name_of(reference)
        if name is None:
            return
        group = self.table.groups.get(name)
        if group is None:
            group = self.table.take(name)
            if consumer is not None and consumer.id in self._cursors:
                self._own(group, consumer)
        elif group.owner is not consumer:
            group.owner = None
        group.in_flight += 1
        self._in_flight[reference.sequence] = group

    def ended(self, queue: "Queue") -> None:
        """Let go of the consumers and of the memory."""
        self._forget_listed()
        self.table.clear()
        for consumer in self.lists.resting:
            queue.dispatch.enter(consumer)
        self.lists.resting = {}
