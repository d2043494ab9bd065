"""Requests of the driver to the broker: heads of queues, missing messages, acknowledgements, commits.

Requests are sent to the management address in the form that docs/management.md describes. The resource `reader`
needs no permission to manage the broker.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from attrs import frozen

from artemis_amqp.client import (
    ACCEPTED_CODE,
    SETTLED,
    Described,
    Properties,
    ReceiverLink,
    Rejected,
    SenderLink,
    SenderLinkHandler,
    Source,
    Symbol,
    Target,
    ULong,
    encode,
    encode_value,
    read_application_properties,
)
from artemis_py.spark.connection import Connection, failed
from artemis_py.spark.decoding import Rows
from artemis_py.spark.errors import ConnectionLost, Elsewhere, Refused
from artemis_py.spark.receiving import Arrivals, Range

logger: Final = logging.getLogger(__name__)

MANAGEMENT_ADDRESS: Final = "activemq.management"
READER: Final = "reader"
WRITER: Final = "writer"
RANGES_PER_REQUEST: Final = 1000

REPLY_PERMISSIONS: Final = "it needs createAddress, createNonDurableQueue and consume"

_UNSETTLED: Final = 0
_GLOBAL_SUBSCRIPTION: Final = (Symbol("topic"), Symbol("shared"), Symbol("global"))
_DURABLE_NEVER: Final = 2


@frozen(kw_only=True)
class Head:
    """State of a queue at one moment."""

    address: str
    queue: str
    queue_id: int
    first: int
    """Lowest sequence number in the queue; equals `next` if the queue is empty."""
    next: int
    """Sequence number of the next message to arrive."""
    average_bytes: int = 0
    """Average size of a message in octets, as encoded in the broker; 0 if none waits."""
    since: int = 0
    """Number of the first message that arrived at the requested time or later."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Ranges of numbers, from and to, of which a crash of the broker may have skipped the last ones, all behind the
    last one that was given."""

    def never_given(self, start: int, stop: int) -> int:
        """Return how many of the missing numbers from `start` up to `stop` may never have been given; `stop` was."""
        return _never_given(self.skipped, start, stop)


@frozen(kw_only=True)
class Found:
    """A queue's answer about some numbers."""

    exists: bool
    """Whether the queue that was meant exists; if not, none of its messages do."""
    count: int = 0
    """Number of messages in the queue that have not expired."""
    there: tuple[tuple[int, str], ...] = ()
    """Lowest numbers of them, each with its place."""
    expired: int = 0
    """Number of messages in the queue that have expired."""
    left: str = ""
    """Text that says how messages left the queue."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Skipped ranges, as in `Head`."""

    def never_given(self, start: int, stop: int) -> int:
        """Return as `Head.never_given`."""
        return _never_given(self.skipped, start, stop)

    def skipped_around(self, number: int) -> int:
        """Return the first number behind the skipped range that contains `number`; `number` itself if none does."""
        return next((end for begin, end in self.skipped if begin < number < end), number)


def _never_given(skipped: Iterable[tuple[int, int]], start: int, stop: int) -> int:
    return sum(end - max(start, begin) for begin, end in skipped if start < end <= stop)


@frozen(kw_only=True)
class Heads:
    """The queues of one broker."""

    node: str
    """Id of the broker, which survives restarts."""
    queues: tuple[Head, ...]


@frozen(kw_only=True)
class Lease:
    """Exclusive use of queues by one reader."""

    holder: str
    duration_s: float


class _Requests(SenderLinkHandler):
    """Handler of the link that sends requests: it records refusals."""

    def __init__(self) -> None:
        self.refusal: Exception | None = None

    def on_credit(self, link: SenderLink) -> None:
        """Do nothing: the credit is checked when a request is to be sent."""

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Record a refusal: a refused request gets no reply."""
        if state != ACCEPTED_CODE:
            self.refusal = failed(state.error if isinstance(state, Rejected) else None, "management request refused")


class Management:
    """Requests over one connection, one at a time."""

    def __init__(self, connection: Connection, timeout_s: float) -> None:
        """Attach the links for requests and replies. Raises Refused, ConnectionLost."""
        self._connection: Final = connection
        self._timeout_s: Final = timeout_s
        self._numbers: Final = count(1)
        try:
            receiver, answer = connection.attach(Source(dynamic=True), Target(), False, SETTLED)
        except Refused as error:
            # Else only the random name of a queue would be known that the user has never heard of.
            raise Refused(f"no temporary queue for replies ({REPLY_PERMISSIONS}): {error}") from None
        assert isinstance(receiver, ReceiverLink)
        self._replies: Final = Arrivals()
        self._receiver: Final = receiver
        receiver.handler = self._replies
        assert answer.source is not None
        self._reply_to: Final = answer.source.address
        sender, _ = connection.attach(Source(), Target(address=MANAGEMENT_ADDRESS), True, _UNSETTLED)
        assert isinstance(sender, SenderLink)
        self._requests: Final = _Requests()
        self._sender: Final = sender
        sender.handler = self._requests

    def call(self, resource: str, operation: str, *parameters: object, is_long: bool = False) -> Any:
        """Return the result of one operation; a long one is waited for while the connection lasts.

        Raises Refused with the broker's reason, ConnectionLost.
        """
        connection, sender = self._connection, self._sender
        deadline = time.monotonic() + self._timeout_s
        what = f"no reply to {operation} of {resource}"
        connection.wait(lambda: sender.can_send or not sender.is_attached, deadline, what)
        connection.check(sender)
        self._receiver.grant(1)
        sender.send(b"", self._request(resource, operation, parameters), None, False)
        while not self._is_answered():
            if time.monotonic() >= deadline:
                if not is_long:
                    raise ConnectionLost(f"{what} in time")
                logger.warning("the broker is not done yet: operation=%s of=%s", operation, parameters[:2])
                deadline += self._timeout_s
            connection.exchange(max(0.0, deadline - time.monotonic()))
        if self._requests.refusal is not None:
            raise self._requests.refusal
        connection.check(sender)
        return _result(self._replies.take()[0], f"{operation} of {resource}")

    def _is_answered(self) -> bool:
        return bool(self._replies.payloads) or self._requests.refusal is not None or not self._sender.is_attached

    def _request(self, resource: str, operation: str, parameters: Sequence[object]) -> bytes:
        properties: dict[object, object] = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
        return (
            encode(Properties(message_id=ULong(next(self._numbers)), reply_to=self._reply_to))
            + encode_value(Described(ULong(0x74), properties))
            + encode_value(Described(ULong(0x77), json.dumps(list(parameters))))
        )

    def heads(
        self,
        queues: Iterable[str] = (),
        addresses: Iterable[str] = (),
        time_ms: int | None = None,
        lease: Lease | None = None,
    ) -> Heads:
        """Return heads of queues by name, and of addresses by name or pattern. Raises Refused if a name is unknown.

        A time can be requested for up to 100 queues, and is refused if the broker does not record arrival times. A
        lease is taken or renewed, and refused if another holder has one of the queues.
        """
        wanted: dict[str, object] = {"queues": list(queues), "addresses": list(addresses)}
        if time_ms is not None:
            wanted["time"] = time_ms
        if lease is not None:
            wanted["lease"] = {"holder": lease.holder, "seconds": lease.duration_s}
        answer = json.loads(self.call(READER, "heads", wanted))
        return Heads(
            node=answer["node"],
            queues=tuple(
                Head(
                    address=row["address"],
                    queue=row["queue"],
                    queue_id=row["queueId"],
                    first=row["first"],
                    next=row["next"],
                    average_bytes=row["averageBytes"],
                    since=row.get("since", 0),
                    skipped=tuple((begin, end) for begin, end in row["skipped"]),
                )
                for row in answer["queues"]
            ),
        )

    def release(self, queues: Iterable[str], holder: str) -> None:
        """End the leases of a holder."""
        self.call(READER, "release", {"queues": list(queues), "holder": holder})

    def find(self, part: Range, ranges: Sequence[tuple[int, int]], selector: str | None) -> Found:
        """Return what the queue of `part` has of some numbers, counting only messages that a selector matches.

        Raises Refused, Elsewhere if the broker is not the one that gave the numbers, ConnectionLost.
        """
        found = Found(exists=True)
        for index in range(0, len(ranges), RANGES_PER_REQUEST):
            some = [list(bounds) for bounds in ranges[index : index + RANGES_PER_REQUEST]]
            wanted = {"queue": part.queue, "queueId": part.queue_id, "ranges": some}
            if selector is not None:
                wanted["selector"] = selector
            if part.node:
                wanted["node"] = part.node
            answer = json.loads(self.call(READER, "find", wanted, is_long=True))
            if part.node not in ("", answer["node"]):
                raise Elsewhere(f"this is broker {answer['node']}, the numbers are those of {part.node}")
            if answer["queueId"] is None:
                return Found(exists=False)
            left = answer["left"]
            found = Found(
                exists=True,
                count=found.count + answer["count"],
                there=(*found.there, *((number, place) for number, place in answer["there"])),
                expired=found.expired + answer["expired"],
                left=f"{left['acknowledged']} were acknowledged, {left['expired']} expired and {left['killed']} were "
                "removed or became dead letters",
                skipped=tuple((begin, end) for begin, end in answer["skipped"]),
            )
        return found

    def acknowledge(self, positions: Iterable[tuple[str, int, int, int]], node: str) -> None:
        """Acknowledge messages below one number and not below another; a position is queue, queue id and these two.

        A repetition has no effect. A broker other than `node` does nothing. Raises Refused, also for a number that was
        never given.
        """
        wanted = {"queues": [list(position) for position in positions], "node": node}
        while not json.loads(self.call(READER, "acknowledgeUpTo", wanted))["complete"]:
            pass  # A request does a part of it.

    def acknowledge_numbers(self, part: Range, sequences: Sequence[int]) -> int:
        """Acknowledge single messages, whose numbers must be within 5,000; return how many existed. Raises Refused."""
        wanted = {"queue": part.queue, "queueId": part.queue_id, "sequences": list(sequences)}
        if part.node:
            wanted["node"] = part.node
        return int(self.call(READER, "acknowledge", wanted))

    def commit_epoch(self, writer: str, epoch: int, attempts: Mapping[str, int]) -> bool:
        """Have the broker route the messages of the attempts; False if it did before. Raises Refused, ConnectionLost.

        The time depends on the number of messages, and on consumers that make room if the address is full.
        """
        return bool(self.call(WRITER, "commitEpoch", writer, epoch, dict(attempts), is_long=True))

    def last_epoch(self, writer: str) -> int:
        """Return the last epoch that a writer has committed, -1 if none. Raises Refused, ConnectionLost."""
        return int(self.call(WRITER, "lastEpoch", writer))

    def abort_epoch(self, writer: str, epoch: int) -> None:
        """Have the broker drop what is staged for an epoch. Raises Refused, ConnectionLost."""
        self.call(WRITER, "abortEpoch", writer, epoch)

    def abort_attempts(self, writer: str, epoch: int, attempts: Iterable[str]) -> None:
        """Have the broker drop what these attempts have staged. Raises Refused, ConnectionLost."""
        self.call(WRITER, "abortEpoch", writer, epoch, list(attempts))


def subscribe(connection: Connection, address: str, subscription: str) -> str:
    """Create the durable subscription if it is missing; return the name of its queue. Raises Refused, ConnectionLost.

    It is a shared, global, durable subscription as any AMQP client creates one: it outlives the link that created it,
    which is detached and not closed, and belongs to no container.
    """
    name = f"{subscription}.{address}"
    source = Source(address=address, durable=_DURABLE_NEVER, expiry_policy="never", capabilities=_GLOBAL_SUBSCRIPTION)
    link, _ = connection.attach(source, Target(), False, SETTLED, name=name)
    connection.detach(link, closes=False)
    return f"{name}:global"


def _result(payload: bytes, what: str) -> Any:
    rows = Rows(frozenset(("body", "message")))
    rows.add(payload)
    message, body = rows.columns["message"][0], rows.columns["body"][0]
    if not isinstance(message, bytes) or not isinstance(body, bytes):
        raise ConnectionLost(f"{what}: the reply is empty")
    result = json.loads(body)[0]
    if read_application_properties(message).get("_AMQ_OperationSucceeded") is not True:
        raise Refused(f"{what}: {result}")
    return result
