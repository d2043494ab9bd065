"""A store that commits a long epoch until it dies: `python -m tests.crash.epoch_victim folder [fault]`.

Two attempts are staged and committed in slices of a few messages. It prints "staged" when the stages are on disk, and
"committed" when the client would hear so.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.epochs import COMMITS, EPOCHS
from artemis_py.core.sessions.session import Session
from tests.unit.store.world import World, multicast

FIRST: Final = 9
EVERYTHING: Final = [f"m{number}" for number in range(16)]
QUEUES: Final = ("news.a", "news.b")


class _Holder:
    def stolen(self) -> None: ...


Save = Callable[[str, bytes, bytes | None], None]
Fault = Callable[[Save], Save]
"""Takes the store's way to save a record, and returns what takes its place."""


def main(folder: Path, faults: list[Fault]) -> None:
    """Stage, then commit; what is printed leaves the process at once."""
    world = World(folder)
    for fault in faults:
        world.store.save_record = fault(world.store.save_record)  # type: ignore[method-assign,assignment]
    world.services.staging.epochs.slice_messages = 3
    world.services.staging.epochs.unstored_messages = 3
    domain = world.domain
    multicast(world, "news", *QUEUES)
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


def without_decision(save: Save) -> Save:
    """A planted fault: the epoch is known to be committed, and not of which stages."""

    def forgetful(space: str, key: bytes, value: bytes | None) -> None:
        save(space, key, None if space == COMMITS else value)

    return forgetful


def decided_last(save: Save) -> Save:
    """A planted fault: the messages are routed first, and that they are is written then."""
    late: dict[bytes, bytes | None] = {}

    def routed(space: str, key: bytes, value: bytes | None) -> None:
        if space == EPOCHS:
            late[key] = value
        elif space != COMMITS:
            save(space, key, value)
        elif value is None:
            save(EPOCHS, key, late[key])

    return routed


FAULTS: Final[dict[str, Fault]] = {"without-decision": without_decision, "decided-last": decided_last}

if __name__ == "__main__":
    main(Path(sys.argv[1]), [FAULTS[fault] for fault in sys.argv[2:]])
