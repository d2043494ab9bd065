"""The OpenWire clients of the crash test: threads that outlive the broker and behave as the failover transport does.

Each connects again under its old names whenever the broker went away, sends again what was not answered, under the
same message ids, and replays its open transaction. Only the outcome of a commit that was not answered is unknown to
its client; that transaction has happened as a whole or not at all.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Final

from attrs import define

from artemis_openwire.engine.commands import (
    ActiveMQTextMessage,
    DataArrayResponse,
    ExceptionResponse,
    MessageDispatch,
    TransactionInfo,
)
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTopic,
    ConnectionId,
    LocalTransactionId,
    TransactionId,
    XATransactionId,
)
from tests.interop.openwire_client import OpenWireClient, acknowledgement, text_content

HOST: Final = "127.0.0.1"
RECONNECT_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.02
"""Between two steps of a producer: consumers shall keep up."""
LONGEST_DOUBT_S: Final = 0.3
"""Between the phases of a branch: some kills come then."""
LOOK_S: Final = 0.05

BEGIN: Final = 0
PREPARE: Final = 1
COMMIT: Final = 2
COMMIT_PREPARED: Final = 3
ROLLBACK: Final = 4
RECOVER: Final = 5
FORGET: Final = 6
END: Final = 7

ORDERS: Final = ActiveMQQueue(physical_name="orders")
DONE: Final = ActiveMQQueue(physical_name="done")
STOCK: Final = ActiveMQQueue(physical_name="stock")
SOLD: Final = ActiveMQQueue(physical_name="sold")
PAIR: Final = (ActiveMQQueue(physical_name="pair.a"), ActiveMQQueue(physical_name="pair.b"))
NEWS: Final = ActiveMQTopic(physical_name="news")


def text_of(dispatch: MessageDispatch) -> str:
    """The text of a delivered message."""
    message = dispatch.message
    assert isinstance(message, ActiveMQTextMessage)
    assert message.content is not None
    return message.content[4:].decode()


class Worker(threading.Thread):
    """A client that connects again."""

    def __init__(self, port: Callable[[], int], name: str, seed: int) -> None:
        """`port`: that of the broker, now."""
        super().__init__(name=name, daemon=True)
        self.random: Final = random.Random(f"{seed} {name}")
        self.violations: Final[list[str]] = []
        self.stopping: Final = threading.Event()
        self.ready: Final = threading.Event()
        self._port: Final = port
        self._connections = 0

    def run(self) -> None:
        """Work, and connect again when the broker goes away."""
        while not self.is_finished():
            try:
                is_again = self._connections > 0
                with OpenWireClient(
                    HOST, self._port(), f"ID:{self.name}:1", fault_tolerant=True, failover_reconnect=is_again
                ) as client:
                    self._connections += 1
                    self.resume(client)
                    self.ready.set()
                    while not self.is_finished():
                        self.work(client)
            except OSError:
                time.sleep(RECONNECT_PAUSE_S)
            except AssertionError as error:
                self.violations.append(f"{self.name}: {error}")
                return

    def is_finished(self) -> bool:
        """Told to stop, and nothing is open."""
        return self.stopping.is_set()

    def resume(self, client: OpenWireClient) -> None:
        """Restore what was open."""

    def work(self, client: OpenWireClient) -> None:
        """One step."""
        raise NotImplementedError

    def step(self, transaction: TransactionId, kind: int) -> TransactionInfo:
        """A step of a transaction."""
        connection = ConnectionId(value=f"ID:{self.name}:1")
        return TransactionInfo(connection_id=connection, transaction_id=transaction, type=kind)

    def local(self, number: int) -> LocalTransactionId:
        """The name of a local transaction."""
        return LocalTransactionId(value=number, connection_id=ConnectionId(value=f"ID:{self.name}:1"))

    def pause(self) -> None:
        """Let the others have the machine."""
        time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))


class Producer(Worker):
    """Numbers from 1; each is sent until it is answered, and must be there once."""

    WINDOW: Final = 8

    def __init__(
        self, port: Callable[[], int], name: str, seed: int, destination: ActiveMQDestination, limit: int | None = None
    ) -> None:
        super().__init__(port, name, seed)
        self.destination: Final = destination
        self.acknowledged = 0
        self._limit: Final = limit
        self._open: Final[list[int]] = []
        self._numbers: Final = count(1)

    def is_finished(self) -> bool:
        is_enough = self._limit is not None and self.acknowledged >= self._limit
        return (is_enough or self.stopping.is_set()) and not self._open

    def sent(self) -> set[str]:
        """All texts that must have arrived once this worker has ended."""
        return {f"{self.name}/{number}" for number in range(1, self.acknowledged + 1)}

    def resume(self, client: OpenWireClient) -> None:
        self._send(client)

    def work(self, client: OpenWireClient) -> None:
        self._open.extend(next(self._numbers) for _ in range(self.random.randint(1, self.WINDOW)))
        self._send(client)
        self.pause()

    def _send(self, client: OpenWireClient) -> None:
        """Send what is open, and wait for all answers."""
        begun = []
        for number in self._open:
            content = text_content(f"{self.name}/{number}")
            begun.append(client.begin(client.message(self.destination, content, number)))
        for command in begun:
            answer = client.answer(command)
            assert not isinstance(answer, ExceptionResponse), answer
            del self._open[0]
            self.acknowledged += 1


class Transactor(Worker):
    """Sends to two queues in local transactions; an open one is replayed after a reconnection, under the same ids."""

    def __init__(self, port: Callable[[], int], name: str, seed: int) -> None:
        super().__init__(port, name, seed)
        self.outcomes: Final[dict[str, str]] = {}
        """`committed`, `rolled back` or `unknown`, by the text of its messages, which has their number."""
        self._transaction = 0
        self._open: list[int] = []
        self._numbers: Final = count(1)

    def _text(self) -> str:
        return f"{self.name}/{self._transaction}/{len(self._open)}"

    def resume(self, client: OpenWireClient) -> None:
        if self._open:
            self._send(client, self._open)

    def work(self, client: OpenWireClient) -> None:
        if not self._open:
            self._transaction += 1
            self._open = [next(self._numbers) for _ in range(self.random.randint(2, 6))]
            self._send(client, self._open)
        is_commit = self.random.random() < 0.8
        text = self._text()
        self.outcomes[text] = "unknown" if is_commit else "rolled back"
        self._open = []
        client.done(self.step(self.local(self._transaction), COMMIT if is_commit else ROLLBACK))
        if is_commit:
            self.outcomes[text] = "committed"
        self.pause()

    def _send(self, client: OpenWireClient, numbers: list[int]) -> None:
        transaction = self.local(self._transaction)
        client.done(self.step(transaction, BEGIN))
        for index, number in enumerate(numbers):
            content = text_content(self._text())
            client.begin(client.message(PAIR[index % 2], content, number, transaction_id=transaction))


class Mover(Worker):
    """Takes from one queue and sends to another, both in one local transaction."""

    MOST: Final = 4

    def __init__(self, port: Callable[[], int], name: str, seed: int) -> None:
        super().__init__(port, name, seed)
        self.committed = 0
        self._transaction = 0
        self._numbers: Final = count(1)
        self._again: list[MessageDispatch] = []
        """What was rolled back: the broker leaves it to the client to deliver that again."""

    def resume(self, client: OpenWireClient) -> None:
        self._again = []
        client.consume(ORDERS, prefetch=self.random.choice((1, 10)))

    def work(self, client: OpenWireClient) -> None:
        taken = self._take(client)
        if not taken:
            return
        self._transaction += 1
        transaction = self.local(self._transaction)
        client.done(self.step(transaction, BEGIN))
        for dispatch in taken:
            content = text_content(text_of(dispatch))
            client.begin(client.message(DONE, content, next(self._numbers), transaction_id=transaction))
            client.begin(acknowledgement(dispatch, transaction))
        if self.random.random() < 0.9:
            client.done(self.step(transaction, COMMIT))
            self.committed += len(taken)
        else:
            client.done(self.step(transaction, ROLLBACK))
            self._again = taken

    def _take(self, client: OpenWireClient) -> list[MessageDispatch]:
        taken, self._again = self._again, []
        wait_s = LOOK_S
        while len(taken) < self.MOST and (dispatch := client.next_dispatch(wait_s)) is not None:
            taken.append(dispatch)
            wait_s = 0.001
        return taken


class Subscriber(Worker):
    """Takes everything from a durable subscription; what was confirmed must not come again."""

    def __init__(self, port: Callable[[], int], name: str, seed: int) -> None:
        super().__init__(port, name, seed)
        self.deliveries: Final[Counter[str]] = Counter()
        self._confirmed: Final[set[str]] = set()
        self._newest: Final[Counter[str]] = Counter()

    def resume(self, client: OpenWireClient) -> None:
        client.consume(NEWS, subscription_name="s")

    def work(self, client: OpenWireClient) -> None:
        dispatch = client.next_dispatch(LOOK_S)
        if dispatch is None:
            return
        text = text_of(dispatch)
        if text in self._confirmed:
            self.violations.append(f"P3 {text} came again at {self.name} after its acknowledgement was confirmed")
        sender, _, number = text.rpartition("/")
        if not self.deliveries[text] and int(number) < self._newest[sender]:
            self.violations.append(f"P5 {text} came behind number {self._newest[sender]} at {self.name}")
        self._newest[sender] = max(self._newest[sender], int(number))
        self.deliveries[text] += 1
        client.done(acknowledgement(dispatch))
        self._confirmed.add(text)


@define
class Branch:
    """One branch, as the log of its transaction manager has it."""

    xid: XATransactionId
    text: str
    """Of the message that it takes from one queue and sends, with its own number, to another."""
    state: str = "working"
    """`working`, `preparing`, `prepared`, `ending` or `ended`."""
    is_commit: bool = False
    """The decision, which holds once the branch is prepared; without one it is rolled back."""

    @property
    def result(self) -> str:
        """Text of the message that it sends."""
        return f"{self.text}@{self.xid.global_transaction_id!r}"


class Manager(Worker):
    """A transaction manager with a log that survives the broker: recovers what is in doubt whenever it connects."""

    def __init__(self, port: Callable[[], int], name: str, seed: int) -> None:
        super().__init__(port, name, seed)
        self.branches: Final[list[Branch]] = []
        self.recovered = 0
        """Branches that were in doubt when the broker died."""
        self._numbers: Final = count(1)

    def is_finished(self) -> bool:
        return self.stopping.is_set() and all(branch.state == "ended" for branch in self.branches)

    def resume(self, client: OpenWireClient) -> None:
        response = client.answer(client.begin(self.step(self._xid(0), RECOVER)))
        assert isinstance(response, DataArrayResponse), response
        listed = {xid for xid in response.data or () if isinstance(xid, XATransactionId)}
        for branch in self.branches:
            if branch.state == "ended":
                assert branch.xid not in listed, f"P6 {branch} has ended, and is listed as prepared"
            elif branch.xid in listed:
                self.recovered += 1
                self._end(client, branch)
            else:
                assert branch.state != "prepared", f"P1 {branch} was prepared and is lost"
                # Not prepared: gone with the broker. On its way to its end: it has ended.
                branch.is_commit &= branch.state == "ending"
                branch.state = "ended"
        client.consume(STOCK, prefetch=1)

    def work(self, client: OpenWireClient) -> None:
        dispatch = None if self.stopping.is_set() else client.next_dispatch(LOOK_S)
        if dispatch is None:
            return
        branch = Branch(self._xid(len(self.branches) + 1), text_of(dispatch))
        self.branches.append(branch)
        client.done(self.step(branch.xid, BEGIN))
        content = text_content(branch.result)
        client.begin(client.message(SOLD, content, next(self._numbers), transaction_id=branch.xid))
        client.begin(acknowledgement(dispatch, branch.xid))
        client.done(self.step(branch.xid, END))
        branch.state = "preparing"
        client.done(self.step(branch.xid, PREPARE))
        branch.is_commit = self.random.random() < 0.8
        branch.state = "prepared"
        time.sleep(self.random.uniform(0, LONGEST_DOUBT_S))
        self._end(client, branch)
        if not branch.is_commit:
            # The message waits at the client that had it. This one connects again, so that anybody gets it.
            raise ConnectionResetError

    def _end(self, client: OpenWireClient, branch: Branch) -> None:
        branch.state = "ending"
        client.done(self.step(branch.xid, COMMIT_PREPARED if branch.is_commit else ROLLBACK))
        branch.state = "ended"

    def _xid(self, number: int) -> XATransactionId:
        return XATransactionId(
            format_id=7, global_transaction_id=f"{self.name}/{number}".encode(), branch_qualifier=b"b"
        )


def content_of(client: OpenWireClient, queue: ActiveMQQueue) -> list[str]:
    """Texts of all messages that wait in a queue, or are with a consumer; they stay there."""
    number = next(_BROWSERS)
    client.consume(queue, number, prefetch=1_000_000, browser=True)
    texts = []
    while (dispatch := client.next_dispatch()) is not None and dispatch.message is not None:
        texts.append(text_of(dispatch))
    assert dispatch is not None, "a browser did not come to its end"
    client.leave(number)
    return texts


_BROWSERS: Final = count(1)
