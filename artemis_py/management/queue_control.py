"""Management of one queue: the resource `queue.<name>`."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from artemis_py.core.queues import bulk
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.background import Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.management.control import Control, Kind, Operation, Parameter
from artemis_py.management.queue_attributes import SHOWN

FILTER = Parameter("filter", Kind.TEXT_OR_NULL)


def _of_queue(read: Callable[[Queue], object]) -> Callable[["QueueControl"], object]:
    return lambda control: read(control.queue)


class QueueControl(Control):
    """One queue, for the duration of one request."""

    def __init__(self, queue: Queue, session: Session) -> None:
        super().__init__(f"queue.{queue.name}")
        self.queue = queue
        self.session = session

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
    }

    operations: ClassVar[Mapping[str, tuple[Operation, ...]]] = {
        "pause": (Operation(pause),),
        "resume": (Operation(resume),),
        "enable": (Operation(enable),),
        "disable": (Operation(disable),),
        "removeAllMessages": (Operation(remove_all),),
        "purge": (Operation(remove_all),),
        "removeMessages": (Operation(remove, FILTER),),
        "countMessages": (Operation(count), Operation(count, FILTER)),
    }
