"""Management of the messages of one queue: operations of the resource `queue.<name>`, named as in Artemis.

Each has the forms of Artemis, which treat all selected messages and answer with their number, and one that takes a JSON
object and treats part of the queue: it answers with JSON text that says where to continue (`next`). A client that
repeats it shows progress, and may stop. The numbers of messages are their sequences in the queue.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from artemis_py.core.queues.reference import PRIORITIES, Reference
from artemis_py.core.queues.treating import Selection, Treatment, treat, whole
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.errors import InvalidRequest, NoSuchQueue, Refusal
from artemis_py.management.control import Kind, Operation, Parameter, Row, browsing, edit, view
from artemis_py.management.message_facts import message_facts
from artemis_py.management.message_treatments import Copy, Count, Expire, Kill, Move, Remove, Retry

if TYPE_CHECKING:
    from artemis_py.management.queue_control import QueueControl

EXAMINED: Final = 20_000
"""Messages that one request with an object examines: some 100 ms of slices, and a step in a progress bar."""

MAX_LISTED: Final = 1000
"""Most messages in one list. A row has some hundred octets, and the properties of the message."""

Make = Any
"""Function that makes the treatment of one request: takes the control, and the name of another queue if needed."""

FILTER: Final = Parameter("filter", Kind.TEXT_OR_NULL)
ID: Final = Parameter("messageID", Kind.NUMBER)
OTHER: Final = Parameter("otherQueueName", Kind.TEXT)
REJECT: Final = Parameter("rejectDuplicates", Kind.FLAG)
FLUSH: Final = Parameter("flushLimit", Kind.NUMBER)
COUNT: Final = Parameter("messageCount", Kind.NUMBER)
PART: Final = Parameter("part", Kind.OBJECT)


class Listing(Treatment):
    """Collects rows about messages, and changes nothing."""

    def __init__(self) -> None:
        super().__init__(removes=False)
        self.rows: Final[list[dict[str, object]]] = []

    def begin(self, reference: Reference) -> bool:
        """Describe a message."""
        self.rows.append(message_facts(reference))
        return True


def _target(control: "QueueControl", name: str) -> Any:
    """Return the other queue of a move. Raises NoSuchQueue, NotAuthorized, InvalidRequest."""
    domain = control.session.domain
    queue = domain.find_queue(name)
    if queue is None:
        raise NoSuchQueue(f"queue '{name}' does not exist{control.proposed('queue', name, domain.queues)}")
    if queue is control.queue:
        raise InvalidRequest(f"'{name}' is the queue itself: name another one")
    control.session.check(Permission.SEND, queue.address.name, queue.name)
    control.session.check_reach(queue.name)
    return queue


def _remove(control: "QueueControl", other: str | None) -> Treatment:
    return Remove()


def _count(control: "QueueControl", other: str | None) -> Treatment:
    return Count()


def _expire(control: "QueueControl", other: str | None) -> Treatment:
    return Expire()


def _kill(control: "QueueControl", other: str | None) -> Treatment:
    return Kill()


def _retry(control: "QueueControl", other: str | None) -> Treatment:
    return Retry(control.session.domain, control.session)


def _move(control: "QueueControl", other: str | None) -> Treatment:
    assert other is not None
    return Move(control.session.domain, _target(control, other))


def _copy(control: "QueueControl", other: str | None) -> Treatment:
    assert other is not None
    return Copy(control.session.domain, _target(control, other))


def _all(make: Make, control: "QueueControl", filter: str | None, other: str | None, limit: int = -1) -> Steps:
    """Treat all messages that match; the result is their number."""
    treatment = make(control, other)
    selection = whole(control.queue, parse_filter(filter) if filter else None)
    yield from _treat(control, selection, treatment, -1, limit)
    return selection.treated


def _one(make: Make, control: "QueueControl", number: int, other: str | None) -> Steps:
    """Treat the message with this number; the result is whether it was there."""
    treatment = make(control, other)
    yield from _treat(control, selection := single(number), treatment, -1, 1)
    return selection.treated > 0


def single(number: int) -> Selection:
    """Return a selection of one message, by its number."""
    return Selection(None, PRIORITIES - 1, number - 1, number)


def _treat(
    control: "QueueControl", selection: Selection, treatment: Treatment, max_examined: int, max_treated: int
) -> Steps:
    """Treat messages; a refusal says how many were treated before it."""
    try:
        yield from treat(control.queue, selection, treatment, max_examined, max_treated)
    except Refusal as refusal:
        if selection.treated:
            raise type(refusal)(f"{refusal}; done with {selection.treated} messages before that") from None
        raise
    return None


def _part(make: Make, needs_other: bool, control: "QueueControl", wanted: Mapping[str, object]) -> Steps:
    """Treat part of a queue, for `{"filter", "queue", "messageID", "messageCount", "from"}`, each of them optional.

    The result is JSON text: `count` messages were treated, `examined`, and `leftAlone`, because they cannot go where
    they should. `next` is what `from` must be in the next request; null at the end, or when `messageCount` messages
    were treated, unless they were only listed.
    """
    unknown = set(wanted) - {"filter", "queue", "messageID", "messageCount", "from"}
    if unknown:
        raise InvalidRequest(f"a part has no member {sorted(unknown)[0]!r}")
    other = wanted.get("queue")
    if needs_other != isinstance(other, str):
        raise InvalidRequest("queue must be the name of the other queue" if needs_other else "queue means nothing here")
    limit = wanted.get("messageCount", -1)
    if type(limit) is not int or limit < -1:
        raise InvalidRequest("messageCount must be a whole number")
    selection = _selection(control, wanted)
    treatment = make(control, other)
    yield from _treat(control, selection, treatment, EXAMINED, limit)
    # A list continues where its limit cut it; any other operation is done when it has reached its limit.
    is_done = selection.is_complete or (0 <= limit <= selection.treated and not isinstance(treatment, Listing))
    facts: dict[str, object] = {
        "count": selection.treated,
        "examined": selection.examined,
        "leftAlone": selection.left_alone,
        "next": None if is_done else [selection.priority, selection.position, selection.upto],
    }
    if isinstance(treatment, Listing):
        facts["messages"] = treatment.rows
    return json.dumps(facts, ensure_ascii=False)


def _selection(control: "QueueControl", wanted: Mapping[str, object]) -> Selection:
    filter = wanted.get("filter")
    if filter is not None and not isinstance(filter, str):
        raise InvalidRequest("filter must be text or null")
    parsed = parse_filter(filter) if filter else None
    number = wanted.get("messageID")
    if number is not None:
        if type(number) is not int or number < 1:
            raise InvalidRequest("messageID must be the number of a message in the queue")
        return single(number)
    match wanted.get("from"):
        case None:
            return whole(control.queue, parsed)
        case [int() as priority, int() as position, int() as upto] if 0 <= priority < PRIORITIES and position >= 0:
            selection = Selection(parsed, priority, position, min(upto, control.queue.next_sequence - 1))
            selection.first = 0
            return selection
        case _:
            raise InvalidRequest("from must be what next was in the answer before")


def _list(control: "QueueControl", filter: str | None = None) -> Steps:
    """Return rows about the first MAX_LISTED messages that match, as JSON text."""
    listing = Listing()
    selection = whole(control.queue, parse_filter(filter) if filter else None)
    yield from treat(control.queue, selection, listing, -1, MAX_LISTED)
    return json.dumps(listing.rows, ensure_ascii=False)


def _list_part(control: "QueueControl", wanted: Mapping[str, object]) -> Steps:
    limit = wanted.get("messageCount", MAX_LISTED)
    if type(limit) is not int or not 0 < limit <= MAX_LISTED:
        raise InvalidRequest(f"messageCount must be a whole number up to {MAX_LISTED}")
    return _part(lambda control, other: Listing(), False, control, {**wanted, "messageCount": limit})


def _operations(make: Make, needs_other: bool) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """Return the ways to treat one message, and those to treat many."""
    part = Operation(lambda control, wanted: _part(make, needs_other, control, wanted), PART)
    if not needs_other:
        return (
            (Operation(lambda control, number: _one(make, control, number, None), ID),),
            (
                Operation(lambda control, filter: _all(make, control, filter, None), FILTER),
                Operation(lambda control, flush, filter: _all(make, control, filter, None), FLUSH, FILTER),
                part,
            ),
        )

    def one(control: "QueueControl", number: int, other: str, reject: bool = False) -> Steps:
        return _one(make, control, number, other)

    def many(control: "QueueControl", filter: str | None, other: str, reject: bool = False) -> Steps:
        return _all(make, control, filter, other)

    def flushed(
        control: "QueueControl", flush: int, filter: str | None, other: str, reject: bool = False, limit: int = -1
    ) -> Steps:
        return _all(make, control, filter, other, limit if limit > 0 else -1)

    return (
        (Operation(one, ID, OTHER), Operation(one, ID, OTHER, REJECT)),
        (
            Operation(many, FILTER, OTHER),
            Operation(many, FILTER, OTHER, REJECT),
            Operation(flushed, FLUSH, FILTER, OTHER, REJECT),
            Operation(flushed, FLUSH, FILTER, OTHER, REJECT, COUNT),
            part,
        ),
    )


_removing: Final = _operations(_remove, False)
_expiring: Final = _operations(_expire, False)
_killing: Final = _operations(_kill, False)
_moving: Final = _operations(_move, True)
_copying: Final = _operations(_copy, True)
_retrying: Final = _operations(_retry, False)

MESSAGE_OPERATIONS: Final[Mapping[str, Row]] = {
    "listMessagesAsJSON": browsing(view(Operation(_list), Operation(_list, FILTER), Operation(_list_part, PART))),
    "removeMessage": edit(*_removing[0]),
    "expireMessage": edit(*_expiring[0]),
    "expireMessages": edit(*_expiring[1]),
    "sendMessageToDeadLetterAddress": edit(*_killing[0]),
    "sendMessagesToDeadLetterAddress": edit(*_killing[1]),
    "moveMessage": edit(*_moving[0]),
    "moveMessages": edit(*_moving[1]),
    "copyMessage": browsing(edit(*_copying[0])),
    "copyMessages": browsing(edit(*_copying[1])),
    "retryMessage": edit(*_retrying[0]),
    "retryMessages": edit(Operation(lambda control: _all(_retry, control, None, None)), *_retrying[1]),
}
"""Operations of `queue.<name>`; `copyMessages` and the forms that take an object are ours."""

REMOVE_PART: Final = Operation(lambda control, wanted: _part(_remove, False, control, wanted), PART)
COUNT_PART: Final = Operation(lambda control, wanted: _part(_count, False, control, wanted), PART)
"""Ways to call `removeMessages` and `countMessages` with an object."""
