"""A store that commits a long epoch until it dies: `python -m tests.crash.epoch_victim folder way [fault]`.

The way is "inherited" or "moved" for one queue, which inherits the messages or has the store move them in ranges, or
"routed" for two, which get them one by one. Two attempts are staged and committed in slices of a few messages. It
prints "staged" when the stages are on disk, and "committed" when the client would hear so.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.arrival import Arrival
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.epochs import COMMITS, EPOCHS
from artemis_py.core.sessions.session import Session
from artemis_py.store import schema
from artemis_py.store.inherited import record_of
from artemis_py.store.lmdb import LmdbStore
from tests.unit.store.world import World, multicast

FIRST: Final = 9
EVERYTHING: Final = [f"m{number}" for number in range(16)]
QUEUES: Final = ("news.a", "news.b")
WAYS: Final = ("inherited", "moved", "routed")


class _Holder:
    def stolen(self) -> None: ...


Fault = Callable[[LmdbStore], None]
"""Makes a store worse than it is."""


def main(folder: Path, way: str, faults: list[Fault]) -> None:
    """Stage, then commit; what is printed leaves the process at once."""
    world = World(folder)
    for fault in faults:
        fault(world.store)
    world.services.staging.epochs.slice_messages = 3
    world.services.staging.epochs.unstored_messages = 3
    world.services.staging.epochs.range_messages = 3
    domain = world.domain
    if way == "inherited":
        world.services.staging.epochs.inherited_messages = 1
    multicast(world, "news", *QUEUES[: 2 if way == "routed" else 1])
    session = Session(domain, Subject("job"), "job-1")
    for attempt, bodies in (("a", EVERYTHING[:FIRST]), ("b", EVERYTHING[FIRST:]), ("c", EVERYTHING)):
        producer = session.producer("news")
        world.services.staging.plug(world.services.staging.open("job", "w", 0, attempt, "news", _Holder()), producer)
        for body in bodies:
            producer.send(plain_message("news", MessageView(body=body), True))
    domain.storage.when_durable(lambda: print("staged", flush=True))
    world.settle()
    attempts = {"a": FIRST, "b": len(EVERYTHING) - FIRST}

    def done(result: object) -> None:
        domain.storage.when_durable(lambda: print("committed", flush=True))

    domain.dispatcher.slices.start(world.services.staging.commit(session, "w", 0, attempts), done)
    world.settle()


def without_decision(store: LmdbStore) -> None:
    """A planted fault: the epoch is known to be committed, and not of which stages."""
    save = store.save_record

    def forgetful(space: str, key: bytes, value: bytes | None) -> None:
        save(space, key, None if space == COMMITS else value)

    store.save_record = forgetful  # type: ignore[method-assign]


def decided_last(store: LmdbStore) -> None:
    """A planted fault: the messages are routed first, and that they are is written then."""
    save = store.save_record
    late: dict[bytes, bytes | None] = {}

    def routed(space: str, key: bytes, value: bytes | None) -> None:
        if space == EPOCHS:
            late[key] = value
        elif space != COMMITS:
            save(space, key, value)
        elif value is None:
            save(EPOCHS, key, late[key])

    store.save_record = routed  # type: ignore[method-assign]


def moved_late(store: LmdbStore) -> None:
    """A planted fault: a range is moved by the commit after the one in which its stage ends."""
    move = store.move

    def late(source: Queue, rank: int, after: int, arrival: Arrival) -> None:
        # Without anything to commit it would not be late.
        store.save_record("late", b"", b"")
        store.when_durable(lambda: move(source, rank, after, arrival))

    store.move = late  # type: ignore[method-assign]


def inherited_late(store: LmdbStore) -> None:
    """A planted fault: a queue inherits a stage by the commit after the one in which the stage ends."""
    inherit = store.inherit

    def late(source: Queue, rank: int, arrival: Arrival) -> None:
        # Without anything to commit it would not be late.
        store.save_record("late", b"", b"")
        store.when_durable(lambda: inherit(source, rank, arrival))

    store.inherit = late  # type: ignore[method-assign]


def without_record(store: LmdbStore) -> None:
    """A planted fault: nothing on disk says that a queue has inherited a stage."""
    environment = store._environment
    assert environment is not None
    apply = environment.apply

    def forgetful(change: Callable[[Any], None]) -> None:
        def changed(transaction: Any) -> None:
            change(transaction)
            for span in environment.inherited.by_source.values():
                transaction.delete(record_of(span)[0], db=environment.database(schema.RECORDS))

        apply(changed)

    environment.apply = forgetful  # type: ignore[method-assign]


FAULTS: Final[dict[str, Fault]] = {
    "inherited-late": inherited_late,
    "without-record": without_record,
    "without-decision": without_decision,
    "decided-last": decided_last,
    "moved-late": moved_late,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [FAULTS[fault] for fault in sys.argv[3:]])
