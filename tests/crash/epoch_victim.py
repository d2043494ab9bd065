"""A store that commits a long epoch until it dies: `python -m tests.crash.epoch_victim folder [fault]`.

Two attempts are staged and committed in slices of a few messages. It prints "staged" when the stages are on disk, and
"committed" when the client would hear so.
"""

import sys
from pathlib import Path
from typing import Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.background import Steps
from artemis_py.core.services import epochs
from artemis_py.core.services.epochs import COMMITS
from artemis_py.core.sessions.session import Session
from tests.unit.store.world import World, multicast

FIRST: Final = 9
EVERYTHING: Final = [f"m{number}" for number in range(16)]
QUEUES: Final = ("news.a", "news.b")


class _Holder:
    def stolen(self) -> None: ...


def main(folder: Path) -> None:
    """Stage, then commit; what is printed leaves the process at once."""
    epochs.SLICE_MESSAGES = 3  # type: ignore[misc]
    epochs.UNSTORED_MESSAGES = 3  # type: ignore[misc]
    world = World(folder)
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


def without_decision() -> None:
    """A planted fault: the epoch is known to be committed, and not of which stages."""
    decide = epochs.Epochs.decide

    def forgetful(self: epochs.Epochs, key: tuple[str, str], epoch: int, stages: list[object]) -> None:
        decide(self, key, epoch, stages)  # type: ignore[arg-type]
        self._domain.storage.save_record(COMMITS, epochs.record_key(key), None)

    setattr(epochs.Epochs, "decide", forgetful)  # noqa: B010


def decided_last() -> None:
    """A planted fault: the messages are routed first, and that they are is written then."""
    decide, route = epochs.Epochs.decide, epochs.Epochs.route

    def late(self: epochs.Epochs, key: tuple[str, str], epoch: int, stages: list[object]) -> None:
        storage = self._domain.storage
        decide(self, key, epoch, stages)  # type: ignore[arg-type]
        for space in (epochs.EPOCHS, COMMITS):
            storage.save_record(space, epochs.record_key(key), None)

    def routed(self: epochs.Epochs, key: tuple[str, str]) -> Steps:
        yield from route(self, key)
        self._domain.storage.save_record(epochs.EPOCHS, epochs.record_key(key), str(self.last(key)).encode())
        return None

    setattr(epochs.Epochs, "decide", late)  # noqa: B010
    setattr(epochs.Epochs, "route", routed)  # noqa: B010


FAULTS: Final = {"without-decision": without_decision, "decided-last": decided_last}

if __name__ == "__main__":
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    main(Path(sys.argv[1]))
