"""Management for a client that reads queues by the sequence numbers of messages: the resource `reader`.

It needs no permission to manage. `heads` and `find` describe queues that the client may browse; `acknowledgeUpTo` and
`acknowledge` need the permission to consume from each queue they name.
"""

import json
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES
from artemis_py.core.queues.acknowledging import acknowledge_below, acknowledge_numbers
from artemis_py.core.queues.cursors.range_reader import first_sequence, first_since
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.services.leases import MAX_LEASE_S, Lease, Leases
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, LimitExceeded, NoSuchQueue
from artemis_py.management.control import MAX_NAMES, Control, Kind, Operation, Parameter, Row, free, proposal
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.finding import find, nothing, read_ranges

READER: Final = "reader"

MAX_ACKNOWLEDGED: Final = 5000
"""Most messages that one request acknowledges: about 25 ms if all are on disk only."""

MAX_SEARCHED: Final = 100
"""Most queues that one request searches for a time: about 2 ms each if all messages are on disk."""

MAX_HOLDER_CHARS: Final = 200

WANTED = Parameter("wanted", Kind.OBJECT)
POSITIONS = Parameter("positions", Kind.OBJECT)
NUMBERS = Parameter("numbers", Kind.OBJECT)


class ReaderControl(Control):
    """One client's view of the queues it reads, for the duration of one request."""

    def __init__(self, domain: Domain, facts: BrokerFacts, leases: Leases, session: Session) -> None:
        super().__init__(READER)
        self._domain: Final = domain
        self._facts: Final = facts
        self._leases: Final = leases
        self._session: Final = session

    def heads(self, wanted: Mapping[str, object]) -> str:
        """Return where queues begin and end, for `{"queues": [names]}` or `{"addresses": [names or patterns]}`.

        The result is JSON text. With `"time": milliseconds since 1970`, each queue has `since`, the number of the first
        message that arrived then or later; only addresses with `enable-ingress-timestamp` know that. With `"lease":
        {"holder": text, "seconds": number}`, the holder has exclusive use of the queues for that time (`Leases`); this
        needs the permission to consume.

        Like every reply, this one waits until all that it reports is on disk. Raises NoSuchQueue for a named queue that
        does not exist, InUse, NotAuthorized, InvalidRequest or LimitExceeded.
        """
        queues = [self._find(name) for name in _texts(wanted, "queues")]
        patterns = _texts(wanted, "addresses")
        if patterns:
            queues += self._matching(patterns)
        if len(queues) > MAX_NAMES:
            raise LimitExceeded(f"{len(queues)} queues are more than the {MAX_NAMES} of one reply")
        for queue in queues:
            self._session.check(Permission.BROWSE, queue.address.name, queue.name)
        time_ms = _time_ms(wanted, queues)
        if "lease" in wanted:
            self._lease(wanted["lease"], queues)
        for queue in queues:
            # Treated like a queue whose consumer has just left: the reader returns for the next messages.
            queue.swept = False
            queue.consumer_removed_steady_ms = self._domain.dispatcher.steady_ms
        rows = [_head(queue) for queue in queues]
        if time_ms is not None:
            for row, queue in zip(rows, queues, strict=True):
                row["since"] = first_since(queue, time_ms)
        return json.dumps({"node": self._facts.node_id, "queues": rows})

    def _lease(self, wanted: object, queues: list[Queue]) -> None:
        match wanted:
            case {"holder": str() as holder, "seconds": int() | float() as seconds} if (
                0 < seconds <= MAX_LEASE_S and seconds is not True
            ):
                pass
            case _:
                raise InvalidRequest(f"a lease must have a holder, and seconds above 0 up to {MAX_LEASE_S:.0f}")
        if not 0 < len(holder) <= MAX_HOLDER_CHARS:
            raise InvalidRequest(f"the holder of a lease must have 1 to {MAX_HOLDER_CHARS} characters")
        for queue in queues:
            self._session.check_consumer(queue)
        steady_ms = self._domain.dispatcher.steady_ms
        client = f"user '{self._session.subject.name}' at {self._session.peer}"
        self._leases.take(queues, Lease(holder, client, steady_ms + int(seconds * 1000)), steady_ms)
        for queue in queues:
            self._keep(queue)

    def _keep(self, queue: Queue) -> None:
        """Prevent deletion of an unused queue: a reader relies on its numbers, even while it is empty."""
        if queue.settings.auto_delete:
            self._domain.update_queue(queue.name, {"auto_delete": False})

    def release(self, wanted: Mapping[str, object]) -> int:
        """End leases of a holder, for `{"queues": [names], "holder": text}`; return how many. Raises InvalidRequest.

        A client that knows the holder's name may end its leases. Queues that the holder has no lease on are ignored.
        """
        holder = wanted.get("holder")
        if not isinstance(holder, str):
            raise InvalidRequest("holder must be text")
        found = [self._domain.find_queue(name) for name in _texts(wanted, "queues")]
        return self._leases.release([queue for queue in found if queue is not None], holder)

    def acknowledge_up_to(self, positions: Mapping[str, object]) -> str:
        """Acknowledge messages below a number in each queue, for `{"queues": [[name, queue id, number], ...]}`.

        An optional fourth member is the number to begin at; messages below that stay. Repeating a request has no
        further effect. A queue is skipped if it was deleted, even if a new one has its name, or if `"node"` names
        another broker. The result is JSON text: the number of acknowledged messages by queue, and whether that was
        all. A request acknowledges no more than MAX_ACKNOWLEDGED, so that the broker's other clients do not wait.

        Raises NotAuthorized or InvalidRequest, also for a number that the queue has not reached: the client cannot
        have read the messages that will arrive below it.
        """
        items = positions.get("queues")
        if not isinstance(items, list):
            raise InvalidRequest("positions must have the member queues, an array")
        is_here = self._is_here(positions)
        found: list[tuple[Queue, int, int]] = []
        for item in items:
            match item:
                case [str() as name, int() as queue_id, int() as sequence, *rest] if not rest or (
                    len(rest) == 1 and type(rest[0]) is int
                ):
                    queue = self._domain.find_queue(name)
                    if is_here and queue is not None and queue.id == queue_id:
                        self._session.check_consumer(queue)
                        if sequence > queue.next_sequence:
                            raise InvalidRequest(
                                f"queue '{queue.name}' ends before {queue.next_sequence}: there is no {sequence} to "
                                "acknowledge up to"
                            )
                        self._keep(queue)
                        found.append((queue, sequence, rest[0] if rest else 0))
                case _:
                    raise InvalidRequest(
                        "a position is an array of queue, queue id and number, and perhaps the number to begin at"
                    )
        left = MAX_ACKNOWLEDGED
        counts: dict[str, int] = {}
        for queue, sequence, start in found:
            counts[queue.name] = acknowledge_below(queue, sequence, left, start)
            left -= counts[queue.name]
        return json.dumps({"acknowledged": counts, "complete": left > 0})

    def acknowledge(self, numbers: Mapping[str, object]) -> int:
        """Acknowledge single messages, for `{"queue": name, "queueId": id, "sequences": [numbers]}`; return how many.

        Messages that are no longer in the queue, or are with a consumer, are skipped. Nothing is acknowledged if the
        queue was deleted, even if a new one has its name, or if `"node"` names another broker. Raises NotAuthorized,
        InvalidRequest, or LimitExceeded if the lowest and the highest number are MAX_ACKNOWLEDGED or more apart,
        because all messages between them must be looked at.
        """
        match numbers:
            case {"queue": str() as name, "queueId": int() as queue_id, "sequences": [*sequences]}:
                wanted = {sequence for sequence in sequences if type(sequence) is int}
            case _:
                raise InvalidRequest("numbers must have the members queue, queueId and sequences, an array")
        if not sequences or len(wanted) != len(sequences):
            raise InvalidRequest("sequences must be an array of different whole numbers")
        if max(wanted) - min(wanted) >= MAX_ACKNOWLEDGED:
            raise LimitExceeded(f"the numbers of one request must be within {MAX_ACKNOWLEDGED}")
        queue = self._domain.find_queue(name)
        if queue is None or queue.id != queue_id or not self._is_here(numbers):
            return 0
        self._session.check_consumer(queue)
        self._keep(queue)
        return acknowledge_numbers(queue, wanted)

    def find(self, wanted: Mapping[str, object]) -> Steps | str:
        """Find messages by number, for `{"queue": name, "queueId": id, "ranges": [[from, to], ...]}`.

        With `"selector": text`, only the messages that it selects are named and counted. The result is JSON text:
        `there` lists the lowest numbers in the queue, each with its place; `count` is the number of messages found;
        `expired` is the number of messages that are in the queue but have expired; `left` says how many messages have
        left the queue in each way since the broker started. `queueId` is null if the queue was deleted, even if a new
        one has its name. Raises NotAuthorized, InvalidRequest, InvalidFilter, LimitExceeded, or StoreError if messages
        cannot be read.
        """
        match wanted:
            case {"queue": str() as name, "queueId": int() as queue_id}:
                ranges = read_ranges(wanted.get("ranges"))
            case _:
                raise InvalidRequest("what is wanted must have the members queue, queueId and ranges")
        selector = wanted.get("selector")
        if selector is not None and not isinstance(selector, str):
            raise InvalidRequest("selector must be text")
        queue = self._domain.find_queue(name)
        if queue is None or queue.id != queue_id or not self._is_here(wanted):
            return nothing(self._facts.node_id)
        self._session.check(Permission.BROWSE, queue.address.name, queue.name)
        return find(queue, self._facts.node_id, ranges, None if selector is None else parse_filter(selector))

    def _is_here(self, wanted: Mapping[str, object]) -> bool:
        """Tell whether a request is meant for this broker: another broker's queues may have the same names and ids."""
        return wanted.get("node") in (None, self._facts.node_id)

    def _find(self, name: str) -> Queue:
        queue = self._domain.find_queue(name)
        if queue is None:
            raise NoSuchQueue(f"queue '{name}' does not exist{proposal(name, self._domain.queues)}")
        return queue

    def _matching(self, patterns: Iterable[str]) -> list[Queue]:
        """Return the queues of all addresses that match a name or pattern, if the client may browse them."""
        wildcards = self._domain.options.wildcards
        access, subject = self._domain.access, self._session.subject
        return [
            queue
            for address in self._domain.addresses.values()
            if not address.internal and any(wildcards.matches(pattern, address.name) for pattern in patterns)
            for queue in queues_of(address)
            if access.allows(subject, Permission.BROWSE, address.name, queue.name)
        ]

    operations: ClassVar[Mapping[str, Row]] = {
        "heads": free(Operation(heads, WANTED)),
        "release": free(Operation(release, WANTED)),
        "acknowledgeUpTo": free(Operation(acknowledge_up_to, POSITIONS)),
        "acknowledge": free(Operation(acknowledge, NUMBERS)),
        "find": free(Operation(find, WANTED)),
    }


def _head(queue: Queue) -> dict[str, object]:
    return {
        "address": queue.address.name,
        "queue": queue.name,
        "queueId": queue.id,
        "first": first_sequence(queue),
        "next": queue.next_sequence,
        "skipped": queue.skipped,
        "messageCount": queue.message_count,
        "averageBytes": _average_bytes(queue),
    }


def _average_bytes(queue: Queue) -> int:
    """Return the average size in bytes of a waiting message, without its overhead in memory; 0 if none waits."""
    count = queue.backlog.count
    return max(queue.backlog.size_bytes // count - MESSAGE_OVERHEAD_BYTES, 1) if count > 0 else 0


def _time_ms(wanted: Mapping[str, object], queues: list[Queue]) -> int | None:
    """Return the time to search for. Raises InvalidRequest if it is malformed or not recorded; LimitExceeded."""
    time_ms = wanted.get("time")
    if time_ms is None:
        return None
    if type(time_ms) is not int:
        raise InvalidRequest("time must be a whole number, milliseconds since 1970")
    if len(queues) > MAX_SEARCHED:
        raise LimitExceeded(
            f"{len(queues)} queues are more than the {MAX_SEARCHED} that one request searches for a time"
        )
    for queue in queues:
        if not queue.address.settings.enable_ingress_timestamp:
            raise InvalidRequest(
                f"when messages of '{queue.address.name}' arrived is not known: its address-setting needs "
                "enable-ingress-timestamp"
            )
    return time_ms


def _texts(wanted: Mapping[str, object], name: str) -> list[str]:
    items = wanted.get(name, [])
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise InvalidRequest(f"{name} must be an array of texts")
    return items
