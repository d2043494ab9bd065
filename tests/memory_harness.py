"""What a domain holds, looked up from the queues' side: the accounts must say the same."""

from collections.abc import Iterable

from artemis_py.core.messages.account import MessageAccount
from artemis_py.core.messages.message import REFERENCE_BYTES, Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import CLAIMED, COLD, PRIORITIES, Reference
from artemis_py.core.queues.tail import Tail
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.retained import RetainedMessages
from artemis_py.core.sessions.session import Session


def references_of(queue: Queue) -> list[Reference]:
    """All references of a queue that are in memory, but those a transaction has claimed."""
    found: list[Reference] = []
    tails: list[Tail | None] = [*queue.backlog.tails, queue.schedule._tail]
    for priority in range(PRIORITIES):
        reference = queue.backlog.lists[priority].head
        while reference is not None:
            found.append(reference)
            reference = reference.next
    found += queue.schedule.waiting()
    for tail in tails:
        if tail is not None:
            found += [reference for reference in tail.recent if reference.state == COLD]
    for consumer in queue.consumers:
        if not consumer.browse:
            found += consumer.outstanding.all()
    return found


def held(
    domain: Domain,
    others: Iterable[Message] = (),
    sessions: Iterable[Session] = (),
    retained: RetainedMessages | None = None,
) -> dict[Message, int]:
    """How often each message is held: by queues, open transactions, as a retained one, and as `others` says."""
    count: dict[Message, int] = {}
    messages = [reference.message for queue in domain.queues.values() for reference in references_of(queue)]
    for session in sessions:
        for transaction in session.transactions.values():
            messages += [message for message, _ in transaction._sends]
            for settlement in transaction._settlements:
                if settlement.reference.state == CLAIMED:
                    messages.append(settlement.reference.message)
    nodes = [] if retained is None else [retained._root]
    while nodes:
        node = nodes.pop()
        nodes += [] if node.children is None else node.children.values()
        messages += [] if node.message is None else [node.message]
    for message in [*messages, *others]:
        count[message] = count.get(message, 0) + 1
    return count


def check_held(
    domain: Domain,
    others: Iterable[Message] = (),
    beside: int = 0,
    sessions: Iterable[Session] = (),
    retained: RetainedMessages | None = None,
) -> None:
    """Each account says what is held: a message once, and every reference to it beyond the first.

    `beside` is what the broker's account has on top: the tree of retained messages.
    """
    sizes: dict[MessageAccount, int] = {}
    counts: dict[MessageAccount, int] = {}
    for message, references in held(domain, others, sessions, retained).items():
        assert message.references == references
        origin = message.origin
        assert origin is not None
        sizes[origin] = sizes.get(origin, 0) + message.size + (references - 1) * REFERENCE_BYTES
        counts[origin] = counts.get(origin, 0) + 1
    for address in domain.addresses.values():
        on_disk = (0, 0) if address.pages else (address.paged_bytes, address.paged_count)
        expected = (sizes.get(address, 0) + on_disk[0], counts.get(address, 0) + on_disk[1])
        assert (address.account.size_bytes, address.account.message_count) == expected, address.name
    assert domain.account.size_bytes == sum(sizes.values()) + beside
    assert domain.account.message_count == sum(counts.values())
