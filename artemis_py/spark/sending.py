"""Sending the messages of one task: links, credit, unsettled messages, and recovery from a broken connection.

Decides when a message counts as sent: when the broker accepted it, which for a durable one means that it is on disk.
Messages that are not accepted when a connection breaks are sent again over the next one, in the same order. That may
cause duplicates, unless the messages carry ids by which the broker recognises them, or go to a stage, of which the
broker says how many messages it has.

The option `onReject` decides about a rejected message; one that is given back is sent again, with growing delays.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from artemis_amqp.client import (
    ACCEPTED_CODE,
    Accepted,
    AmqpError,
    Rejected,
    SenderLink,
    SenderLinkHandler,
    Source,
    Symbol,
    Target,
)
from artemis_amqp.engine.extensions import REFUSED, STAGE, STAGED
from artemis_py.spark.connection import MAX_RETRY_DELAY_S, Broker, Connection
from artemis_py.spark.encoding import Encoded
from artemis_py.spark.errors import ConnectionLost, Refused, SendFailed
from artemis_py.spark.options import WriteOptions
from artemis_py.spark.rejected import marked, reason_of

logger: Final = logging.getLogger(__name__)

BURST: Final = 256
"""Messages given to the engine before the socket is served: a few writes of some ten KiB."""
TURNS_PER_SECOND: Final = 10
"""Number of bursts per second with a rate, so that it is even."""
MAX_LINKS: Final = 64
"""Links kept open at once; beyond that the least recently used is closed."""
MIXED: Final = 2
_TOO_LARGE: Final = "amqp:link:message-size-exceeded"
_LINK_REFUSED: Final = "amqp:precondition-failed"
_CAPABILITIES: Final = {"anycast": Symbol("queue"), "multicast": Symbol("topic")}


class StageName:
    """Name of the stage in which a task's messages wait for their commit."""

    def __init__(self, writer: str, epoch: int, attempt: str) -> None:
        self.writer: Final[str] = writer
        self.epoch: Final[int] = epoch
        self.attempt: Final[str] = attempt


class Sender(SenderLinkHandler):
    """Sender for one thread; without `flush` before `close`, unsettled messages may be lost."""

    # Long because the state of links, messages, stages and rejections is declared here, each with its meaning.
    def __init__(self, options: WriteOptions, stage: StageName | None = None) -> None:
        """Prepare; with a `stage` messages are kept for the commit of its epoch, if the broker has stages."""
        self._options: Final = options
        self._stage: Final = stage
        self._broker: Final = Broker(options.connection)
        self._connection: Connection | None = None
        self._links: Final[dict[str, SenderLink]] = {}
        self._unsettled: Final[dict[int, Encoded]] = {}
        """Messages that are not accepted yet, in the order of sending."""
        self._uncertain: set[int] = set()
        """Numbers of messages that were unsettled when a connection broke, until their stage says what it has."""
        self._to_send: deque[int] = deque()
        self.number = 0
        """Number of messages given to `send` so far, which is the number of the last one."""
        self._since_turn = 0
        rate = options.max_messages_per_second
        self._burst: Final = BURST if rate is None else min(max(int(rate / TURNS_PER_SECOND), 1), BURST)
        self._refusal: SendFailed | None = None
        self._tries = options.connection.retries
        self._delay_s = options.connection.retry_delay_s
        self._started_at = time.monotonic()
        self._heard_at = self._started_at
        self._is_heard = False
        """Whether the broker gave credit or an answer since `_heard_at` was last set."""
        self._is_accepting = False
        """Whether it accepted a message since the delays of retries were last reset."""
        self._pause_until = 0.0
        self._pause_s = self._delay_s
        self._given_back_at: float | None = None
        """Time since which the broker has given messages back and accepted none."""
        self._closed_addresses: Final[dict[str, Refused]] = {}
        """Addresses of the column that refused a link, with onReject=deadletter."""
        self.staged: Final[dict[str, int]] = {}
        """Number of accepted messages by attempt; each address has its own attempt."""
        self._attempts: Final[dict[str, str]] = {}
        """Names of attempts by address."""
        self._refused: Final[dict[str, int]] = {}
        """Number of messages that came back, rejected or not, by attempt."""
        self.accepted = 0
        """Number of accepted messages, including those for the error address."""
        self.dropped = 0
        """Number of messages that were rejected and dropped, with onReject=drop."""
        self.diverted = 0
        """Number of messages that were rejected and sent to the error address."""
        self.rejected: Final[set[int]] = set()
        """Numbers of the messages that were rejected and dropped."""

    def send(self, messages: Iterable[Encoded]) -> None:
        """Send messages in order. Raises SendFailed, ConnectionLost when the retries are used up, Refused."""
        limit = self._options.max_message_bytes
        for message in messages:
            self.number += 1
            self._unsettled[self.number] = message
            if limit is not None and len(message.bare) > limit:
                text = f"message {self.number} of the task has {len(message.bare)} bytes, maxMessageBytes is {limit}"
                self._turn_away(self.number, AmqpError(_TOO_LARGE, text))
            else:
                self._to_send.append(self.number)
            self._since_turn += 1
            if self._since_turn >= self._burst or len(self._unsettled) >= self._options.max_in_flight:
                self._since_turn = 0
                self._run(self._options.max_in_flight)
                self._keep_pace()

    def flush(self) -> None:
        """Wait until all messages are accepted. Raises as `send` does."""
        self._run(0)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- the loop ----------------------------------------------------------------------------------------------

    def _run(self, limit: int) -> None:
        """Send and wait until everything is sent, and fewer messages than `limit` are unsettled; 0: none is left."""
        # Rows may take long to come: the broker counts as silent only while we wait for it.
        self._heard_at = time.monotonic()
        while True:
            try:
                connection = self._connected()
                self._hand_over()
                connection.exchange(0.0)
                while not self._is_done(limit):
                    self._check(connection)
                    connection.exchange(0.1 if self._to_send else 1.0)
                    self._hand_over()
                self._check(connection)
                return
            except ConnectionLost as error:
                self._lost(error)

    def _is_done(self, limit: int) -> bool:
        if limit == 0:
            return not self._unsettled
        return not self._to_send and len(self._unsettled) < limit

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._broker.connect()
            self._heard_at = time.monotonic()
        return self._connection

    def _lost(self, error: ConnectionLost) -> None:
        """Close the connection, wait a little, and plan to send again all messages that were not accepted."""
        self.close()
        self._note_progress(time.monotonic())
        self._links.clear()
        self._uncertain = (self._uncertain & self._unsettled.keys()) | (self._unsettled.keys() - self._to_send)
        self._to_send = deque(self._unsettled)
        if self._tries == 0:
            raise error
        self._tries -= 1
        logger.warning(
            "sending broke, trying again in %.1f s: unsettled=%d %s", self._delay_s, len(self._to_send), error
        )
        time.sleep(self._delay_s)
        self._delay_s = min(2 * self._delay_s, MAX_RETRY_DELAY_S)

    def _check(self, connection: Connection) -> None:
        for link in self._links.values():
            connection.check(link)
        if self._refusal is not None:
            raise self._refusal
        now = time.monotonic()
        self._note_progress(now)
        silent_s = now - self._heard_at
        if silent_s > self._options.send_timeout_s:
            raise self._timed_out(f"neither gave credit nor answered for {silent_s:.0f} s")
        if self._given_back_at is not None and now - self._given_back_at > self._options.send_timeout_s:
            raise self._timed_out(f"has given messages back for {now - self._given_back_at:.0f} s and accepted none")

    def _note_progress(self, now: float) -> None:
        """Take into account what the broker said since the last call."""
        if self._is_heard:
            self._is_heard = False
            self._heard_at = now
        if self._is_accepting:
            self._is_accepting = False
            self._tries = self._options.connection.retries
            self._delay_s = self._pause_s = self._options.connection.retry_delay_s
            self._given_back_at = None

    def _timed_out(self, what: str) -> SendFailed:
        addresses = sorted({self._address(message) for message in self._unsettled.values()})
        return SendFailed(
            f"the broker {what} (sendTimeout); "
            f"{len(self._unsettled)} messages wait for {', '.join(addresses[:3])}: is the address full?"
        )

    def _hand_over(self) -> None:
        """Give the engine the messages that it can send now."""
        to_send, unsettled = self._to_send, self._unsettled
        if to_send and time.monotonic() < self._pause_until:
            return
        while to_send:
            number = to_send[0]
            message = unsettled.get(number)
            if message is not None:
                link = self._link_for(self._address(message))
                if link is None:
                    error = self._closed_addresses[self._address(message)]
                    self._turn_away(number, AmqpError(_LINK_REFUSED, str(error)))
                elif number in unsettled:
                    if not link.can_send:
                        return
                    link.send(message.head, message.bare, number, False)
            to_send.popleft()

    def _link_for(self, address: str) -> SenderLink | None:
        """Return the link to an address; None if the address refuses it, so that its messages are diverted."""
        if address in self._closed_addresses:
            return None
        try:
            return self._link(address)
        except Refused as error:
            # The option's address belongs to the job: if it is wrong, no row is at fault.
            if self._options.on_reject != "deadletter" or self._options.address or self._is_error_address(address):
                raise
            self._closed_addresses[address] = error
            return None

    def _link(self, address: str) -> SenderLink:
        link = self._links.pop(address, None)
        if link is None:
            if len(self._links) >= MAX_LINKS:
                self._drop_idle_link()
            link = self._attach(address)
        self._links[address] = link
        return link

    def _attach(self, address: str) -> SenderLink:
        assert self._connection is not None
        kind = None if self._is_error_address(address) else self._options.routing_type
        target = Target(address=address, capabilities=() if kind is None else (_CAPABILITIES[kind],))
        properties: dict[Symbol, object] | None = None
        if self._stage is not None:
            attempt = self._attempts.setdefault(address, f"{self._stage.attempt}:{len(self._attempts)}")
            properties = {STAGE: [self._stage.writer, self._stage.epoch, attempt]}
        link, answer = self._connection.attach(Source(), target, True, MIXED, properties=properties)
        assert isinstance(link, SenderLink)
        link.handler = self
        if self._stage is not None:
            properties = answer.properties or {}
            self._resume(address, properties.get(STAGED), properties.get(REFUSED))
        return link

    def _resume(self, address: str, staged: object, refused: object) -> None:
        """Count as accepted what the stage has: the first of the uncertain messages, because a link keeps the order."""
        if not isinstance(staged, int):
            if self._options.idempotence == "epoch":
                raise Refused("the broker has no staged writes: idempotence=epoch is not possible with it")
            return
        attempt = self._attempts[address]
        more = staged - self.staged.setdefault(attempt, 0)
        waiting = [
            number
            for number, message in self._unsettled.items()
            if number in self._uncertain and self._address(message) == address
        ]
        unheard = (refused if isinstance(refused, int) else 0) - self._refused.get(attempt, 0)
        if waiting and unheard > 0:
            raise SendFailed(
                f"the connection broke, and of {len(waiting)} messages for {address} the broker refused {unheard}: "
                "nothing tells which; the task must run again"
            )
        self._uncertain.difference_update(waiting)
        for number in waiting[:more]:
            self._accept(number)

    def _is_error_address(self, address: str) -> bool:
        return self._options.on_reject == "deadletter" and address == self._options.error_address

    def _address(self, message: Encoded) -> str:
        return message.address or self._options.address or ""

    def _accept(self, number: int) -> None:
        message = self._unsettled.pop(number, None)
        if message is None:
            return
        self.accepted += 1
        if self.staged:
            attempt = self._attempts.get(self._address(message))
            if attempt is not None and attempt in self.staged:
                self.staged[attempt] += 1

    def _drop_idle_link(self) -> None:
        """Close the least recently used link without unsettled messages; if all have some, none is closed."""
        for address, link in self._links.items():
            if not link.has_unsettled and self._connection is not None:
                del self._links[address]
                self._connection.detach(link, closes=True)
                return

    def _keep_pace(self) -> None:
        """Wait until the configured rate allows more messages."""
        per_second = self._options.max_messages_per_second
        if per_second is not None:
            ahead_s = self.number / per_second - (time.monotonic() - self._started_at)
            until = time.monotonic() + ahead_s
            while (left := until - time.monotonic()) > 0:
                try:
                    self._connected().exchange(left)
                except ConnectionLost as error:
                    self._lost(error)

    # -- from the engine ---------------------------------------------------------------------------------------

    def on_credit(self, link: SenderLink) -> None:
        """Note that the broker answers: it gave credit."""
        self._is_heard = True

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        """Process the broker's disposition of one message; `_check` draws the conclusions, once for many of them."""
        assert isinstance(token, int)
        self._is_heard = True
        if state == ACCEPTED_CODE or isinstance(state, Accepted):
            self._is_accepting = True
            self._accept(token)
            return
        message = self._unsettled.get(token)
        if message is None:
            return
        if self._stage is not None:
            attempt = self._attempts[self._address(message)]
            self._refused[attempt] = self._refused.get(attempt, 0) + 1
        if isinstance(state, Rejected):
            self._turn_away(token, state.error)
            self._given_back_at = None
        else:
            self._given_back(token)

    def _given_back(self, number: int) -> None:
        """Plan to send again, behind the others, a released or modified message: the broker could not take it now."""
        now = time.monotonic()
        if self._given_back_at is None:
            self._given_back_at = now
        if now >= self._pause_until:
            # Once for all messages that come back together.
            self._pause_until = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, MAX_RETRY_DELAY_S)
        message = self._unsettled.pop(number, None)
        if message is not None:
            self._send_later(number, message)

    def _send_later(self, number: int, message: Encoded) -> None:
        """Queue a message at the end; `_unsettled` must stay in the order of sending, on which `_resume` relies."""
        self._unsettled[number] = message
        self._to_send.append(number)

    def _turn_away(self, number: int, error: AmqpError | None) -> None:
        """Drop a rejected message, send it to the error address, or fail the task, as `onReject` says."""
        message = self._unsettled.pop(number, None)
        if message is None:
            return
        address = self._address(message)
        policy = self._options.on_reject
        if policy == "drop":
            self.dropped += 1
            self.rejected.add(number)
            logger.warning("message dropped: it was rejected: address=%s reason=%s", address, reason_of(error))
        elif policy == "deadletter" and not self._is_error_address(address):
            assert self._options.error_address is not None
            self.diverted += 1
            self._send_later(number, marked(message, address, self._options.error_address, error))
        elif self._refusal is None:
            self._refusal = _refusal(address, error, policy)


def _refusal(address: str, error: AmqpError | None, policy: str) -> SendFailed:
    if policy == "deadletter":
        return SendFailed(f"the error address {address} rejected a message as well: {reason_of(error)}")
    return SendFailed(
        f"the broker rejected a message for {address}: {reason_of(error)} "
        "(onReject=drop continues without it, onReject=deadletter sends it to another address)"
    )
