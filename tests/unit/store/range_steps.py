"""What can happen to a queue with inherited ranges, step by step; the same with messages that were sent to it."""

from collections.abc import Callable
from typing import Final

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED, FAILED
from artemis_py.core.queues.treating import Treatment, treat, whole
from artemis_py.core.runtime.access import Subject
from artemis_py.core.selectors.filter import parse_filter
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.management.message_treatments import Copy, Expire, Kill, Move, Remove
from tests.core_harness import attach, browse_all, settle_down
from tests.unit.store.world import World

SETTINGS: Final = {
    "#": AddressSettings(
        max_delivery_attempts=2, dead_letter_address="dead", expiry_address="expired", max_read_page_messages=2
    )
}
QUEUES: Final = ("q", "other", "dead", "expired")
STAGED: Final = 6

State = dict[str, list[tuple[object, int, int]]]
"""Bodies, delivery counts and sequences of what waits in each queue, in order."""


class _Holder:
    def stolen(self) -> None: ...


class Steps:
    """The steps on one world after the other; each is one turn of the loop, and so durable as a whole."""

    def __init__(self, inherits: bool) -> None:
        """Whether messages come in epochs that the queue inherits, or each by itself."""
        self.inherits: Final = inherits
        self.all: Final[tuple[Callable[[World], None], ...]] = (
            self._create,
            lambda world: self._send(world, "before"),
            lambda world: self._stage(world, 0),
            lambda world: self._commit(world, 0),
            lambda world: self._send(world, "after"),
            lambda world: self._settle(world, 5, {0: ACCEPTED, 2: ACCEPTED, 3: ACCEPTED}),
            lambda world: self._settle(world, 1, {}),
            lambda world: self._treat(world, "n = 4", Move(world.domain, world.domain.queues["other"])),
            lambda world: self._treat(world, "n = 5", Copy(world.domain, world.domain.queues["other"])),
            lambda world: self._treat(world, "n = 5 AND attempt = 'a'", Expire()),
            lambda world: self._treat(world, "n = 0", Kill()),
            lambda world: self._treat(world, "n = 2", Remove()),
            lambda world: self._stage(world, 1),
            lambda world: self._commit(world, 1),
            lambda world: self._settle(world, 3, {0: ACCEPTED}),
            lambda world: self._treat(world, "attempt = 'b'", Move(world.domain, world.domain.queues["other"])),
            lambda world: self._purge(world),
            lambda world: self._stage(world, 2),
            lambda world: self._commit(world, 2),
            lambda world: self._settle(world, 4, {1: ACCEPTED}),
            lambda world: world.domain.delete_queue("q", force=True),
        )

    def _create(self, world: World) -> None:
        for name in QUEUES:
            world.queue(name)

    def _send(self, world: World, body: str) -> None:
        world.send("q", body)

    def _stage(self, world: World, epoch: int) -> None:
        if self.inherits:
            for attempt in "ab":
                self._open(world, epoch, attempt, _Holder())

    def _open(self, world: World, epoch: int, attempt: str, holder: _Holder) -> None:
        session = Session(world.domain, Subject("job"), "job-1")
        producer = session.producer("q")
        staging = world.services.staging
        staging.plug(staging.open("job", "w", epoch, attempt, "q", holder), producer)
        for number in range(STAGED):
            properties: dict[str, object] = {"n": number, "attempt": attempt}
            view = MessageView(body=f"{epoch}{attempt}{number}", properties=properties)
            producer.send(plain_message("q", view, durable=True))

    def _commit(self, world: World, epoch: int) -> None:
        if self.inherits:
            answers: list[object] = []
            session = Session(world.domain, Subject("job"), "job-1")
            steps = world.services.staging.commit(session, "w", epoch, {"a": STAGED, "b": STAGED})
            world.domain.dispatcher.slices.start(steps, answers.append, answers.append)
            settle_down(world.domain)
            assert not [answer for answer in answers if answer is not True], answers
            return
        for attempt in "ab":
            for number in range(STAGED):
                properties: dict[str, object] = {"n": number, "attempt": attempt}
                view = MessageView(body=f"{epoch}{attempt}{number}", properties=properties)
                world.domain.route(plain_message("q", view, durable=True), world.domain.addresses["q"])

    def _settle(self, world: World, count: int, outcomes: dict[int, int]) -> None:
        """Take some messages; those without an outcome fail."""
        recorder, consumer = attach(world.domain, world.domain.queues["q"], credit=count)
        settle_down(world.domain)
        taken = recorder.take()
        assert len(taken) == count
        for index, reference in enumerate(taken):
            consumer.settle(reference, outcomes.get(index, FAILED))
        consumer.close()

    def _treat(self, world: World, filter: str, treatment: Treatment) -> None:
        queue = world.domain.queues["q"]
        world.domain.dispatcher.slices.start(treat(queue, whole(queue, parse_filter(filter)), treatment, -1, -1))

    def _purge(self, world: World) -> None:
        world.domain.queues["q"].purge()


def state_of(world: World) -> State:
    """What the queues of a world have."""
    return {
        name: [(one.message.view.body, one.delivery_count, one.sequence) for one in browse_all(queue)]
        for name, queue in sorted(world.domain.queues.items())
        if name in QUEUES
    }
