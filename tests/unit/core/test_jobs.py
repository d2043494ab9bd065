"""Jobs: messages that are sent later, several times, or when a schedule says."""

from datetime import UTC

import pytest

from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.accounts import MemoryAccount
from artemis_py.core.runtime.events import Event, JobRefused
from artemis_py.core.services import jobs as module
from artemis_py.core.services.job import FOR_EVER, MIN_PERIOD_MS, Timing
from artemis_py.core.services.job_queue import SCHEDULED
from artemis_py.core.services.jobs import CRON_BYTES, LEAST_ENDED, RETRY_MS, RUN_JOBS
from artemis_py.core.services.services import Services
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.errors import InvalidRequest, LimitExceeded, NotAuthorized, TransactionRolledBack
from tests.core_harness import (
    START_MS,
    attach,
    browse_all,
    make_domain,
    make_message,
    make_queue,
    make_services,
    pass_time,
    settle_down,
)

DAY_MS = 86_400_000


class Scene:
    """A broker in memory with a queue, and a client that schedules messages for it."""

    def __init__(self, settings: dict[str, AddressSettings] | None = None) -> None:
        self.domain = make_domain(settings)
        self.services: Services = make_services(self.domain)
        self.jobs = self.services.jobs
        self.jobs.zone = UTC
        self.queue = make_queue(self.domain)
        self.session = self.services.sessions.open(Subject("tester"), "client", "test")
        self.producer = self.session.producer("q", RoutingType.ANYCAST)

    def schedule(self, body: str = "m", id: str = "job", **timing: int | str) -> None:
        self.jobs.schedule(self.producer, make_message(body), Timing.of(**timing), id)  # type: ignore[arg-type]

    def wait(self, milliseconds: int) -> list[str]:
        """Let time pass in one go; return what waits in the queue."""
        pass_time(self.domain, milliseconds)
        return self.waiting()

    def waiting(self) -> list[str]:
        return bodies(self.queue)

    @property
    def kept(self) -> int:
        """Number of messages in the queue of jobs."""
        queue = self.domain.queues.get(SCHEDULED)
        return 0 if queue is None else queue.message_count


def bodies(queue: Queue) -> list[str]:
    return [reference.message.data.decode() for reference in browse_all(queue)]


def test_a_message_is_sent_after_its_delay() -> None:
    scene = Scene()
    scene.schedule("later", delay_ms=1000)

    assert scene.wait(999) == []
    assert scene.wait(1) == ["later"]
    assert (scene.jobs.count, scene.kept) == (0, 0)


def test_repetitions_come_after_the_first_time() -> None:
    scene = Scene()
    scene.schedule(delay_ms=1000, period_ms=100, repeat=2)

    counts = [len(scene.wait(step)) for step in (1000, 99, 1, 100, 100, 10_000)]

    assert counts == [1, 1, 2, 3, 3, 3]
    assert (scene.jobs.count, scene.kept) == (0, 0)


def test_without_a_delay_the_period_comes_first() -> None:
    """As in ActiveMQ."""
    scene = Scene()
    scene.schedule(period_ms=500)

    assert [len(scene.wait(step)) for step in (499, 1, 1000)] == [0, 1, 1]


def test_an_endless_repetition_ends_when_it_is_removed() -> None:
    scene = Scene()
    scene.schedule(period_ms=1000, repeat=FOR_EVER)
    for _ in range(5):
        scene.wait(1000)
    job = scene.jobs.find("job")
    assert job is not None
    scene.jobs.remove(job)

    assert len(scene.wait(10_000)) == 5
    assert scene.kept == 0


def test_what_was_missed_is_made_up_for_once() -> None:
    scene = Scene()
    scene.schedule(period_ms=1000, repeat=FOR_EVER)

    assert len(scene.wait(5500)) == 1
    assert len(scene.wait(499)) == 1
    assert len(scene.wait(1)) == 2


def test_a_schedule_repeats() -> None:
    scene = Scene()
    scene.domain.dispatcher.now_ms = 10 * DAY_MS + 30_000
    scene.schedule(cron="*/2 * * * *")

    assert [len(scene.wait(step)) for step in (89_999, 1, 120_000, 119_999)] == [0, 1, 2, 2]


def test_a_delay_comes_behind_each_time_of_a_schedule() -> None:
    scene = Scene()
    scene.domain.dispatcher.now_ms = 10 * DAY_MS
    scene.schedule(cron="* * * * *", delay_ms=5000)

    assert [len(scene.wait(step)) for step in (64_999, 1, 59_999, 1)] == [0, 1, 1, 2]


def test_each_time_of_a_schedule_begins_its_repetitions() -> None:
    """As in ActiveMQ: at each full hour, ten messages a second apart."""
    scene = Scene()
    scene.domain.dispatcher.now_ms = 10 * DAY_MS
    scene.schedule(cron="0 * * * *", delay_ms=1000, period_ms=1000, repeat=9)

    assert scene.wait(3_600_000) == []
    assert [len(scene.wait(1000)) for _ in range(12)] == [*range(1, 11), 10, 10]
    assert scene.jobs.count == 1
    scene.wait(3_600_000 - 12_000)
    assert [len(scene.wait(1000)) for _ in range(2)] == [11, 12]


def test_numbers_that_make_no_sense_are_bounded() -> None:
    assert Timing.of(delay_ms=-5, period_ms=-5) == Timing()
    assert Timing.of(period_ms=0, repeat=3).period_ms == MIN_PERIOD_MS
    assert Timing.of(repeat=-7).repeat == FOR_EVER
    with pytest.raises(InvalidRequest):
        Timing.of(cron="* * * * *", repeat=FOR_EVER)
    with pytest.raises(InvalidRequest):
        Timing.of(cron="now and then")


def test_the_message_keeps_what_it_was_sent_with() -> None:
    scene = Scene()
    message = make_message("m", priority=7, expires_ms=START_MS + 60_000, producer="client", colour="red")
    scene.jobs.schedule(scene.producer, message, Timing.of(delay_ms=10), "job")
    scene.wait(10)
    (found,) = browse_all(scene.queue)

    sent: Message = found.message
    assert (sent.priority, sent.expires_ms, sent.producer) == (7, START_MS + 60_000, "client")
    assert (sent.lookup("colour"), sent.extra, sent.address) == ("red", None, "q")
    assert sent.id != message.id


def test_a_message_that_expires_first_expires_where_it_was_sent() -> None:
    """It is not lost in silence: the queue it was for decides."""
    scene = Scene()
    message = make_message("m", expires_ms=START_MS + 10)
    scene.jobs.schedule(scene.producer, message, Timing.of(delay_ms=100), "job")
    scene.domain.dispatcher.now_ms += 50
    pass_time(scene.domain, 50)
    attach(scene.domain, scene.queue)

    assert scene.queue.messages_expired == 1


def test_a_topic_gets_the_message_when_it_is_due() -> None:
    scene = Scene()
    scene.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    producer = scene.session.producer("news", RoutingType.MULTICAST)
    scene.jobs.schedule(producer, make_message("m"), Timing.of(delay_ms=100), "job")
    late = make_queue(scene.domain, "late", RoutingType.MULTICAST, address="news")
    scene.wait(100)

    assert bodies(late) == ["m"]


def test_a_fully_qualified_name_is_kept() -> None:
    scene = Scene()
    one = make_queue(scene.domain, "one", RoutingType.MULTICAST, address="a")
    two = make_queue(scene.domain, "two", RoutingType.MULTICAST, address="a")
    producer = scene.session.producer("a::two", None)
    scene.jobs.schedule(producer, make_message("m"), Timing.of(delay_ms=100), "job")
    scene.wait(100)

    assert (bodies(one), bodies(two)) == ([], ["m"])


def test_a_transaction_schedules_at_its_commit() -> None:
    scene = Scene()
    lost, kept = scene.session.begin(), scene.session.begin()
    for transaction, body in ((lost, "lost"), (kept, "kept")):
        scene.jobs.schedule(scene.producer, make_message(body), Timing.of(delay_ms=100), body, transaction)
    scene.wait(5000)
    assert scene.jobs.count == 0
    lost.rollback()
    scene.domain.commit(kept)

    assert scene.wait(99) == []
    assert scene.wait(1) == ["kept"]


def test_a_duplicate_is_scheduled_once() -> None:
    scene = Scene()
    id = duplicate_id("x")
    for _ in range(2):
        scene.jobs.schedule(scene.producer, make_message(), Timing.of(delay_ms=1), "job", duplicate_id=id)
    transaction = scene.session.begin()
    scene.jobs.schedule(scene.producer, make_message(), Timing.of(delay_ms=1), "job", transaction, id)

    assert scene.jobs.count == 1
    with pytest.raises(TransactionRolledBack):
        scene.domain.commit(transaction)


def test_two_jobs_of_one_id_have_two_names() -> None:
    scene = Scene()
    scene.schedule(delay_ms=10)
    scene.schedule(delay_ms=10)

    first, second = scene.jobs.all()
    assert first.id == "job"
    assert scene.jobs.find(second.id) is second
    assert len(scene.wait(10)) == 2


def test_a_full_address_gets_its_message_later() -> None:
    """Nothing is lost: the occurrence is tried again until there is room."""
    scene = Scene({"q": AddressSettings(address_full_policy=FullPolicy.FAIL, max_size_messages=1)})
    events: list[Event] = []
    scene.domain.events.subscribe(events.append, JobRefused)
    scene.schedule("later", delay_ms=100)
    scene.domain.route(make_message("first"), scene.queue.address)

    assert scene.wait(100) == ["first"]
    assert [type(event) for event in events] == [JobRefused]
    scene.queue.purge()
    assert scene.wait(RETRY_MS - 1) == []
    assert scene.wait(1) == ["later"]


def test_what_is_deleted_is_created_again_with_the_rights_of_the_user() -> None:
    scene = Scene()
    scene.schedule("a", delay_ms=100)
    scene.domain.delete_address("q", force=True)
    scene.wait(100)

    assert bodies(scene.domain.queues["q"]) == ["a"]


def test_rights_are_those_of_the_moment() -> None:
    class Nobody:
        def allows(self, *_: object) -> bool:
            return False

    scene = Scene()
    refused: list[Event] = []
    scene.domain.events.subscribe(refused.append, JobRefused)
    scene.schedule("a", delay_ms=100)
    scene.domain.delete_address("q", force=True)
    scene.domain.access = Nobody()
    pass_time(scene.domain, 100)

    assert len(refused) == 1
    assert "q" not in scene.domain.queues
    assert scene.jobs.count == 1


def test_an_address_is_in_use_while_a_job_sends_to_it() -> None:
    scene = Scene()
    scene.schedule(delay_ms=10)

    assert [need("q") for need in scene.domain.in_use].count(True) == 1
    scene.wait(10)
    assert not any(need("q") for need in scene.domain.in_use)


def test_an_administrator_may_empty_the_queue_of_jobs() -> None:
    scene = Scene()
    for number in range(3):
        scene.schedule(id=f"job {number}", delay_ms=100)
    scene.domain.queues[SCHEDULED].purge()
    settle_down(scene.domain)

    assert scene.jobs.count == 0
    assert scene.wait(100) == []
    scene.schedule("new", delay_ms=100)
    assert scene.wait(100) == ["new"]


def test_no_client_reaches_the_queue_of_jobs() -> None:
    scene = Scene()
    scene.schedule(delay_ms=100)

    with pytest.raises(NotAuthorized):
        scene.session.producer(SCHEDULED, None)


def test_jobs_count_as_tables_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    tables: MemoryAccount = scene.domain.dispatcher.tables
    scene.schedule(delay_ms=100)
    before = tables.size_bytes
    monkeypatch.setattr(module, "MAX_JOBS", 2)
    scene.schedule(id="other", delay_ms=100)
    assert tables.size_bytes > before + 1000
    with pytest.raises(LimitExceeded):
        scene.schedule(id="third", delay_ms=100)
    scene.wait(100)
    assert tables.size_bytes < before
    before = tables.size_bytes
    scene.schedule(cron="* * * * *")
    assert tables.size_bytes > before + CRON_BYTES


def test_a_turn_is_bounded_when_many_jobs_are_due_at_once() -> None:
    scene = Scene()
    for number in range(3 * RUN_JOBS):
        scene.schedule(id=str(number), delay_ms=100)
    scene.domain.dispatcher.now_ms += 100
    scene.domain.dispatcher.handle_deadlines()
    sent = scene.queue.messages_added
    assert 0 < sent <= RUN_JOBS
    while scene.jobs.count:
        scene.domain.dispatcher.handle_deadlines()

    assert len(scene.waiting()) == 3 * RUN_JOBS


def test_ended_jobs_do_not_stay_in_memory() -> None:
    """A client that schedules time-outs and cancels nearly all of them."""
    scene = Scene()
    for number in range(10 * LEAST_ENDED):
        scene.schedule(id=str(number), delay_ms=DAY_MS)
        job = scene.jobs.find(str(number))
        assert job is not None
        scene.jobs.remove(job)

    assert len(scene.jobs._heap) <= 2 * LEAST_ENDED
    assert scene.jobs.count == 0
