"""A store in which diverts copy until it dies: `python -m tests.crash.divert_victim folder [fault]`.

An administrator makes two diverts, then messages are sent to `a`: one divert copies them to `b` and `c`, the other
takes them from `c` to `d`. It prints "made" when the diverts are on disk, and each body when its sender would hear so.
"""

import sys
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.store.lmdb import LmdbStore
from tests.core_harness import make_queue
from tests.unit.store.world import World

DIVERTS: Final = (
    DivertConfig(name="copies", address="a", forwarding_address="b,c"),
    DivertConfig(name="takes", address="c", forwarding_address="d", exclusive=True),
)
QUEUES: Final = ("a", "b", "d")
"""Queues that each message is in; `c` keeps nothing."""


def main(folder: Path) -> None:
    """Make the diverts and send; what is printed leaves the process at once."""
    world = World(folder)
    domain = world.domain
    for name in (*QUEUES, "c"):
        make_queue(domain, name)
    for config in DIVERTS:
        world.services.diverts.create(config)
    domain.storage.when_durable(lambda: print("made", flush=True))
    world.settle()
    session = Session(domain, Subject("job"), "job-1")
    producer = session.producer("a")
    for number in range(6):
        transaction = session.begin() if number % 2 else None
        for body in (f"{number}x", f"{number}y"):
            producer.send(plain_message("a", MessageView(body=body), True), transaction)
            if transaction is None:
                domain.storage.when_durable(lambda body=body: print(body, flush=True))  # type: ignore[misc]
        if transaction is not None:
            session.commit(transaction)
            domain.storage.when_durable(lambda number=number: print(f"{number}x {number}y", flush=True))  # type: ignore[misc]
        world.settle()


def late_copies() -> None:
    """A planted fault: what is for `b` is written in a later commit than the rest."""
    put = LmdbStore.put
    late: list[Reference] = []

    def put_later(self: LmdbStore, reference: Reference) -> None:
        if reference.queue.name == "a":
            for waiting in late:
                put(self, waiting)
            late.clear()
        if reference.queue.name == "b":
            late.append(reference)
        else:
            put(self, reference)

    setattr(LmdbStore, "put", put_later)  # noqa: B010  mypy forbids assigning to a function


if __name__ == "__main__":
    if "late-copies" in sys.argv[2:]:
        late_copies()
    main(Path(sys.argv[1]))
