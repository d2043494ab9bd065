"""Management of one queue: the resource `queue.<name>`."""

import json
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.queues import bulk
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.rules.groups import Groups
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.management.control import Control, Kind, Operation, Parameter, Row, edit, view
from artemis_py.management.message_bodies import BODY_OPERATIONS
from artemis_py.management.message_control import COUNT_PART, FILTER, MESSAGE_OPERATIONS, REMOVE_PART
from artemis_py.management.queue_attributes import SHOWN
from artemis_py.management.sending import SEND

GROUP = Parameter("groupID", Kind.TEXT)

# Groups in one answer: it is built at once, in some 10 ms.
LISTED_GROUPS: Final = 10_000


def _of_queue(read: Callable[[Queue], object]) -> Callable[["QueueControl"], object]:
    return lambda control: read(control.queue)


class QueueControl(Control):
    """One queue, for the duration of one request."""

    def __init__(self, queue: Queue, session: Session) -> None:
        super().__init__(f"queue.{queue.name}")
        self.queue = queue
        self.session = session

    @property
    def destination(self) -> Address:
        """The address that messages are sent to; see `sending`."""
        return self.queue.address

    @property
    def queue_name(self) -> str:
        """Queue that messages are sent to."""
        return self.queue.name

    def check_content(self, permission: Permission) -> None:
        """Raise NotAuthorized, and report it, if the client lacks a permission on the queue."""
        self.session.check(permission, self.queue.address.name, self.queue.name)

    def lacks_content(self, permission: Permission) -> str | None:
        """Return the address of the queue if the client lacks a permission on it."""
        address = self.queue.address.name
        return None if self.session.may(permission, address, self.queue.name) else address

    def pause(self) -> None:
        """Pause deliveries; messages still arrive."""
        self.queue.pause()

    def resume(self) -> None:
        """Resume deliveries."""
        self.queue.resume()

    def enable(self) -> None:
        """Accept new messages again."""
        self.session.domain.update_queue(self.queue.name, {"enabled": True})

    def disable(self) -> None:
        """Stop accepting new messages; they are not routed to this queue."""
        self.session.domain.update_queue(self.queue.name, {"enabled": False})

    def remove_all(self) -> Steps:
        """Discard all messages that are not with a consumer; the result is their number."""
        return bulk.empty(self.queue)

    def remove(self, filter: str | None) -> Steps:
        """Discard the messages that `filter` accepts and that are not with a consumer; the result is their number."""
        return bulk.remove(self.queue, parse_filter(filter)) if filter else bulk.empty(self.queue)

    def count(self, filter: str | None = None) -> int | Steps:
        """Count the waiting messages that `filter` accepts; without a filter, all messages of the queue."""
        if not filter:
            return self.queue.message_count
        return bulk.count(self.queue, parse_filter(filter))

    @property
    def groups(self) -> Groups | None:
        """The queue's rule for message groups; None if no message of a group came, or groups mean nothing here."""
        rule = self.queue.assignment
        return rule if isinstance(rule, Groups) else None

    def reset_group(self, name: str) -> None:
        """Take a group from its owner; the next consumer gets it when its deliveries are settled."""
        if self.groups is not None:
            self.groups.reset(name)

    def reset_all_groups(self) -> None:
        """Take all groups from their owners."""
        if self.groups is not None:
            self.groups.reset_all()

    def list_groups(self) -> str:
        """Return the groups that have owners, and the ids of these consumers, as JSON text."""
        owners = [] if self.groups is None else self.groups.table.owners(LISTED_GROUPS)
        return json.dumps([{"groupID": name, "consumerID": owner.id} for name, owner in owners])

    attributes: ClassVar = {
        **{name: _of_queue(read) for name, read in SHOWN.items()},
        "ID": lambda control: control.queue.id,
        "Temporary": lambda control: control.queue.temporary,
        "AutoCreated": lambda control: control.queue.auto_created,
        "Paused": lambda control: control.queue.paused,
        "MessageCount": lambda control: control.queue.message_count,
        "ConsumerCount": lambda control: control.queue.consumer_count,
        "DeliveringCount": lambda control: control.queue.delivering_count,
        "ScheduledCount": lambda control: control.queue.scheduled_count,
        "MessagesAdded": lambda control: control.queue.messages_added,
        "MessagesAcknowledged": lambda control: control.queue.messages_acknowledged,
        "MessagesExpired": lambda control: control.queue.messages_expired,
        "MessagesKilled": lambda control: control.queue.messages_killed,
        "MessagesReplaced": lambda control: control.queue.messages_replaced,
        "GroupCount": lambda control: 0 if control.groups is None else len(control.groups.table.groups),
    }

    operations: ClassVar[Mapping[str, Row]] = {
        "pause": edit(Operation(pause)),
        "resume": edit(Operation(resume)),
        "enable": edit(Operation(enable)),
        "disable": edit(Operation(disable)),
        "removeAllMessages": edit(Operation(remove_all)),
        "purge": edit(Operation(remove_all)),
        **MESSAGE_OPERATIONS,
        **BODY_OPERATIONS,
        "sendMessage": SEND,
        "removeMessages": edit(Operation(remove, FILTER), REMOVE_PART),
        "countMessages": view(Operation(count), Operation(count, FILTER), COUNT_PART),
        "resetGroup": edit(Operation(reset_group, GROUP)),
        "resetAllGroups": edit(Operation(reset_all_groups)),
        "listGroupsAsJSON": view(Operation(list_groups)),
    }
