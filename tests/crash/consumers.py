"""The clients of the crash test that receive, and drain what is left in the end."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from zlib import crc32

from proton import Delivery, Timeout

from tests.crash.ledger import Ledger
from tests.crash.plan import (
    ALL_NEWS,
    BRIEF,
    CHURN,
    DEAD,
    EXPIRED,
    FRAGILE,
    LATER,
    LONGEST_DELAY_S,
    NEWS,
    NEWS_QUEUES,
    ONCE,
    QUEUES,
    RED,
    RED_NEWS,
    RESULTS,
    SHARED_NEWS,
    SUBSCRIBER,
    SUBSCRIPTIONS,
    WORK,
)
from tests.crash.worker import Worker
from tests.interop.proton.client import Client, Received, Receiver, Refused

CREDIT: Final = 20
TAKEN: Final = (WORK, LATER, ONCE, RESULTS, BRIEF, FRAGILE, DEAD, EXPIRED)
"""What `consume` takes from. TASKS are taken by transactions."""
CHURN_INTERVAL_S: Final = 0.03
LOOK_INTERVAL_S: Final = 0.1
"""How often a consumer without messages looks whether it is to stop."""


def consume(worker: Worker, client: Client) -> None:
    """From all queues."""
    receivers = {queue: client.receiver(queue) for queue in TAKEN}
    receivers |= {queue: client.receiver(f"{NEWS}::{queue}", ["topic"]) for queue in NEWS_QUEUES}
    take_all(worker, client, receivers)


def hurry(worker: Worker, client: Client) -> None:
    """From one queue, without waiting for confirmations, as most clients do: what it accepted may come again."""
    receiver = client.receiver(ONCE)
    receiver.flow(CREDIT)
    while worker.goes_on:
        with suppress(Timeout):
            client.connection.wait(lambda: receiver.waiting > 0, timeout=LOOK_INTERVAL_S)
        for _ in range(receiver.waiting):
            received = receiver.receive()
            id = worker.ledger.note_delivery("delivered", received, ONCE)
            worker.ledger.note("settling", id, ONCE)
            received.delivery.update(Delivery.ACCEPTED)
            received.delivery.settle()
            receiver.flow(1)


def share(worker: Worker, client: Client) -> None:
    """One of several consumers of a shared subscription."""
    take_all(worker, client, {SHARED_NEWS: open_subscription(worker.ledger, client, SHARED_NEWS)})


def subscribe(worker: Worker, client: Client) -> None:
    """Two durable subscriptions that stay; four that come and go."""
    note_subscriptions(worker.ledger, client)
    receivers = {name: open_subscription(worker.ledger, client, name) for name in (ALL_NEWS, RED_NEWS)}
    for receiver in receivers.values():
        receiver.flow(CREDIT)
    while worker.goes_on:
        take_waiting(worker, receivers)
        name = worker.random.choice(CHURN)
        receiver = open_subscription(worker.ledger, client, name)
        if worker.random.random() < 0.5:
            worker.ledger.note("unsubscribing", name)
            receiver.close()
            worker.ledger.note("unsubscribed", name)
        else:
            receiver.detach()
        time.sleep(worker.random.uniform(0, CHURN_INTERVAL_S))


def open_subscription(ledger: Ledger, client: Client, name: str) -> Receiver:
    """Attach to a durable subscription, and write down when it is certainly there."""
    ledger.note("subscribing", name)
    capabilities = ["topic", "shared", "global"] if name == SHARED_NEWS else ["topic"]
    selector = RED if name == RED_NEWS else None
    receiver = client.receiver(NEWS, capabilities, name=name, durable=True, selector=selector)
    ledger.note("subscribed", name)
    return receiver


def take_all(worker: Worker, client: Client, receivers: Mapping[str, Receiver]) -> None:
    """Take whatever comes, until the end."""
    for receiver in receivers.values():
        receiver.flow(CREDIT)
    while worker.goes_on:
        if not take_waiting(worker, receivers):
            with suppress(Timeout):
                client.connection.wait(
                    lambda: any(receiver.waiting for receiver in receivers.values()), timeout=LOOK_INTERVAL_S
                )


def take_waiting(worker: Worker, receivers: Mapping[str, Receiver]) -> int:
    """Settle what arrived, each as its fate is; returns how many there were."""
    count = 0
    for queue, receiver in receivers.items():
        accepted: list[tuple[str, Received]] = []
        number = receiver.waiting
        for _ in range(number):
            received = receiver.receive()
            id = worker.ledger.note_delivery("delivered", received, queue)
            if settle(worker, received, id, queue):
                accepted.append((id, received))
        for id, received in accepted:
            receiver.client.wait(lambda received=received: received.delivery.settled, "a settlement")  # type: ignore[misc]
            worker.ledger.note("confirmed", id, queue)
            received.delivery.settle()
        receiver.flow(number)
        count += number
    return count


def settle(worker: Worker, received: Received, id: str, queue: str) -> bool:
    """Decide about one delivery; true if it was accepted, and the broker is to confirm that."""
    delivery = received.delivery
    lot = crc32(id.encode()) % 6 if queue == FRAGILE else worker.random.randrange(10)
    if lot == 0 and queue == FRAGILE:
        delivery.update(Delivery.REJECTED)
    elif lot == 0:
        delivery.update(Delivery.RELEASED)
    elif lot == 1:
        delivery.local.failed = True
        delivery.update(Delivery.MODIFIED)
    else:
        worker.ledger.note("settling", id, queue)
        delivery.update(Delivery.ACCEPTED)
        return True
    delivery.settle()
    return False


def drain(url: str, ledger: Ledger) -> None:
    """Take everything there is, until nothing can come any more."""
    with Client(url, SUBSCRIBER) as client:
        note_subscriptions(ledger, client)
        receivers = {queue: client.receiver(queue) for queue in QUEUES}
        receivers |= {queue: client.receiver(f"{NEWS}::{queue}", ["topic"]) for queue in NEWS_QUEUES}
        receivers |= {name: open_subscription(ledger, client, name) for name in SUBSCRIPTIONS}
        last = time.monotonic() + LONGEST_DELAY_S
        while drain_once(ledger, receivers) or time.monotonic() < last:
            pass
        client.sync()


def drain_once(ledger: Ledger, receivers: Mapping[str, Receiver]) -> int:
    """Every queue to its end; returns how many messages there were."""
    count = 0
    for queue, receiver in receivers.items():
        while taken := receiver.drain():
            count += len(taken)
            for received in taken:
                ledger.note_delivery("drained", received, queue)
                received.delivery.update(Delivery.ACCEPTED)
                received.delivery.settle()
    return count


def note_subscriptions(ledger: Ledger, client: Client) -> None:
    """Write down which subscriptions the broker knows."""
    for name in (ALL_NEWS, RED_NEWS, *CHURN):
        ledger.note("found" if is_there(client, name) else "missing", name)


def is_there(client: Client, name: str) -> bool:
    """Whether the broker knows a durable subscription; asking is no subscribing."""
    try:
        client.receiver(None, name=name).detach()
    except Refused:
        return False
    return True
