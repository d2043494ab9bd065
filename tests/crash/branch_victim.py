"""A store with prepared branches until it dies: `python -m tests.crash.branch_victim folder [fault]`.

Branch n sends two messages to q and settles one of those in p. Even ones are committed, odd ones rolled back, the last
two stay prepared. It prints "prepared n", "committed n" and "rolled-back n" when a client would hear so.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Final

from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services import branches as module
from artemis_py.core.services.prepared_messages import PreparedMessages
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.session import Session
from tests.core_harness import Recorder
from tests.unit.store.branch_world import SETTINGS, make
from tests.unit.store.world import World

BRANCHES: Final = 6
"""Number of branches."""
ENDED: Final = 4
"""Number of those that are committed or rolled back."""


def xid_of(number: int) -> Xid:
    """The name of a branch."""
    return Xid(1, b"victim", bytes((number,)))


def sent(number: int) -> list[str]:
    """What a branch sends."""
    return [f"{number}.a", f"{number}.b"]


def main(folder: Path) -> None:
    """Prepare and end branches in turn; what is printed leaves the process at once."""
    world = World(folder, SETTINGS)
    world.queue("q")
    world.queue("p")
    world.send("p", *[f"p{number}" for number in range(BRANCHES)])
    world.settle()
    branches = world.services.branches
    session = Session(world.domain, Subject("tester"), "client")
    recorder = Recorder()
    session.consume(world.queue("p"), recorder).grant(BRANCHES)
    world.settle()
    deliveries = recorder.take()

    def confirm(text: str) -> None:
        world.domain.storage.when_durable(partial(print, text, flush=True))
        world.settle()

    for number, reference in enumerate(deliveries):
        transaction = branches.start(session, xid_of(number))
        for body in sent(number):
            session.producer("q").send(make(body), transaction)
        transaction.settle(reference, ACCEPTED)
        branches.prepare(session, xid_of(number))
        confirm(f"prepared {number}")
        if number < ENDED:
            if number % 2 == 0:
                branches.commit(session, xid_of(number))
                confirm(f"committed {number}")
            else:
                branches.rollback(session, xid_of(number))
                confirm(f"rolled-back {number}")


def prepared_in_memory() -> None:
    """A planted fault: the record of a prepared branch is not written."""
    setattr(module, "write_branch", lambda branch, messages: None)  # noqa: B010


def messages_removed_later() -> None:
    """A planted fault: a branch is ended in one commit, and its messages leave their place in the next."""
    end = PreparedMessages.end

    def late(self: PreparedMessages, references: list[object]) -> None:
        self._domain.dispatcher.timers.at(0, partial(end, self, references))  # type: ignore[arg-type]

    setattr(PreparedMessages, "end", late)  # noqa: B010


FAULTS: Final = {"prepared-in-memory": prepared_in_memory, "messages-removed-later": messages_removed_later}

if __name__ == "__main__":
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    main(Path(sys.argv[1]))
