"""Staged writes: nothing is routed before its epoch is committed, and then once."""

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.services.services import Services
from artemis_py.core.services.staging import MAX_STAGES, MAX_WRITERS, STAGING_ADDRESS, SWEEP_MS, TIMEOUT_MS, Stage
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import InvalidRequest, LimitExceeded, NoSuchAddress, NoSuchQueue, NotAuthorized, Refusal
from tests.core_harness import browse_all, settle_down
from tests.unit.management.world import ANYCAST, NOW_MS, Rules, World


class Link:
    """Who fills a stage."""

    def __init__(self) -> None:
        self.is_stolen = False

    def stolen(self) -> None:
        self.is_stolen = True


class Writer:
    """A job with a session of its own."""

    def __init__(self, services: Services, user: str = "job") -> None:
        self.services = services
        self.domain = services.sessions.domain
        self.session = services.sessions.open(Subject(user), "job-1", "127.0.0.1:1", "AMQP")

    def stage(self, epoch: int, attempt: str, address: str = "orders", link: Link | None = None) -> Stage:
        return self.services.staging.open(
            self.session.subject.name, "w", epoch, attempt, address, Link() if link is None else link
        )

    def send(self, epoch: int, attempt: str, *bodies: str, address: str = "orders") -> Producer:
        producer = self.session.producer(address)
        self.services.staging.plug(self.stage(epoch, attempt, address), producer)
        for body in bodies:
            producer.send(message(body, address))
        return producer

    def commit(self, epoch: int, **attempts: int) -> object:
        """Until all is routed."""
        answer = self.ask(epoch, **attempts)
        settle_down(self.domain)
        return answer.take()

    def abort(self, epoch: int, *attempts: str) -> object:
        """Until all are gone."""
        answer = Answer()
        steps = self.services.staging.abort(self.session, "w", epoch, frozenset(attempts) or None)
        self.domain.dispatcher.slices.start(steps, answer.done, answer.refused)
        settle_down(self.domain)
        return answer.take()

    def ask(self, epoch: int, **attempts: int) -> "Answer":
        """The first slice of a commit."""
        answer = Answer()
        steps = self.services.staging.commit(self.session, "w", epoch, attempts)
        self.domain.dispatcher.slices.start(steps, answer.done, answer.refused)
        return answer


class Answer:
    """To a commit."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self.refusals: list[Refusal] = []

    def done(self, result: object) -> None:
        self.results.append(result)

    def refused(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    def take(self) -> object:
        """The one result, or the refusal is raised."""
        if self.refusals:
            raise self.refusals[0]
        (result,) = self.results
        return result


def message(body: str, address: str = "orders") -> Message:
    sent = plain_message(address, MessageView(body=body))
    sent.durable = True
    return sent


def bodies(domain: Domain, queue: str = "orders") -> list[object]:
    """What waits in a queue."""
    return [reference.message.view.body for reference in browse_all(domain.queues[queue])]


def stages(domain: Domain) -> int:
    """How many stages there are."""
    address = domain.addresses.get(STAGING_ADDRESS)
    return 0 if address is None else len(address.bindings)


@pytest.fixture
def services() -> Services:
    """A broker with the queue `orders`."""
    services = World().services
    domain = services.sessions.domain
    for name in ("orders", "bills"):
        domain.create_address(name, ANYCAST)
        domain.create_queue(QueueConfig(name=name, address=name, routing_type=RoutingType.ANYCAST))
    return services


@pytest.fixture
def domain(services: Services) -> Domain:
    """Its domain."""
    return services.sessions.domain


def test_nothing_is_routed_before_the_commit(domain: Domain, services: Services) -> None:
    writer = Writer(services)

    writer.send(0, "a", "1", "2")

    assert bodies(domain) == []
    assert writer.commit(0, a=2) is True
    assert bodies(domain) == ["1", "2"]
    assert stages(domain) == 0


def test_settings_for_all_addresses_remove_nothing_from_a_stage(domain: Domain, services: Services) -> None:
    """They are about queues of clients; the stage has no consumers, and may have more messages than a ring."""
    domain.settings.add(
        "#",
        AddressSettings(default_ring_size=1, default_purge_on_no_consumers=True, default_non_destructive=True),
    )
    domain.apply_settings()
    domain.update_queue("orders", {"ring_size": -1, "purge_on_no_consumers": False})
    writer = Writer(services)

    writer.send(0, "a", "1", "2", "3")

    assert writer.commit(0, a=3) is True
    assert bodies(domain) == ["1", "2", "3"]


def test_exactly_the_named_attempts_are_routed(domain: Domain, services: Services) -> None:
    """A task that ran twice has two attempts; its job names the one that finished."""
    writer = Writer(services)
    writer.send(0, "a", "1")
    writer.send(0, "b", "1")
    writer.send(0, "c", "2")

    writer.commit(0, b=1, c=1)

    assert bodies(domain) == ["1", "2"]
    assert stages(domain) == 0


def test_an_epoch_is_committed_once(domain: Domain, services: Services) -> None:
    """A job that crashed after its commit writes its last epoch again."""
    writer = Writer(services)
    writer.send(3, "a", "1")
    writer.commit(3, a=1)
    writer.send(3, "b", "1")

    assert writer.commit(3, b=1) is False
    assert writer.commit(2, never=5) is False
    assert bodies(domain) == ["1"]
    assert stages(domain) == 0


def test_an_incomplete_attempt_commits_nothing(domain: Domain, services: Services) -> None:
    """Messages that were not durable may have gone with a crash: the job must write them again."""
    writer = Writer(services)
    writer.send(0, "a", "1")
    writer.send(0, "b", "2")

    with pytest.raises(InvalidRequest, match="has 1 messages, not 2"):
        writer.commit(0, a=1, b=2)
    with pytest.raises(InvalidRequest, match="nothing is staged by attempt 'c'"):
        writer.commit(0, a=1, c=1)
    assert bodies(domain) == []
    assert writer.commit(0, a=1, b=1) is True


def test_attempts_may_go_to_several_addresses(domain: Domain, services: Services) -> None:
    writer = Writer(services)
    writer.send(0, "a", "1")
    writer.send(0, "b", "2", address="bills")

    writer.commit(0, a=1, b=1)

    assert (bodies(domain), bodies(domain, "bills")) == (["1"], ["2"])


def test_an_attempt_keeps_its_address(services: Services) -> None:
    writer = Writer(services)
    writer.stage(0, "a")

    with pytest.raises(InvalidRequest, match="writes to 'orders', not to 'bills'"):
        writer.stage(0, "a", "bills")


def test_a_stage_counts_what_it_did_not_take(services: Services) -> None:
    """Whoever sends without a stage has nothing to count."""
    writer = Writer(services)
    staging = writer.send(0, "a", "1")
    staging.refused()
    writer.session.producer("orders").refused()

    assert (writer.stage(0, "a").count, writer.stage(0, "a").refused) == (1, 1)
    assert writer.stage(0, "b").refused == 0


def test_another_link_takes_the_stage_over(services: Services) -> None:
    """What the first one still has under way must not count: the second was told how much there is."""
    writer, first, second = Writer(services), Link(), Link()
    stage = writer.stage(0, "a", link=first)
    assert writer.stage(0, "a", link=second) is stage

    assert (first.is_stolen, second.is_stolen) == (True, False)


def test_delivery_time_and_expiry_count_from_the_commit(domain: Domain, services: Services) -> None:
    writer = Writer(services)
    producer = writer.send(0, "a")
    late, due = message("late"), message("due")
    late.expires_ms = NOW_MS + 10
    due.delivery_time_ms = NOW_MS + 50
    producer.send(late)
    producer.send(due)
    domain.dispatcher.now_ms = NOW_MS + 20
    for queue in list(domain.queues.values()):
        queue.expiry.expire_due()
    domain.dispatcher.handle_deadlines()

    writer.commit(0, a=2)

    assert [reference.message.expires_ms for reference in browse_all(domain.queues["orders"])] == [NOW_MS + 10]
    assert domain.queues["orders"].scheduled_count == 1


def test_an_abort_drops_what_was_staged(domain: Domain, services: Services) -> None:
    writer = Writer(services)
    producer = writer.send(1, "a", "1")
    writer.send(2, "b", "2")

    assert writer.abort(1) == 1

    assert stages(domain) == 1
    with pytest.raises(NoSuchQueue, match="attempt 'a' of epoch 1 is over"):
        producer.send(message("3"))


def test_an_abort_of_attempts_leaves_the_others(domain: Domain, services: Services) -> None:
    """A task that failed takes back its own; another one of its job is done and waits for the commit."""
    writer = Writer(services)
    writer.send(0, "a", "0")
    producer = writer.send(1, "a", "1")
    writer.send(1, "b", "2")

    assert writer.abort(1, "a", "x") == 1

    assert stages(domain) == 2
    with pytest.raises(NoSuchQueue, match="attempt 'a' of epoch 1 is over"):
        producer.send(message("3"))
    assert writer.commit(1, b=1) is True


def test_a_stage_that_nobody_touches_goes(domain: Domain, services: Services) -> None:
    """Its job died without a word."""
    writer = Writer(services)
    kept = writer.stage(0, "kept")
    left = writer.stage(0, "left")
    assert left.holder is not None
    services.staging.release(left, left.holder)

    for now_ms in range(NOW_MS, NOW_MS + TIMEOUT_MS + 2 * SWEEP_MS, SWEEP_MS):
        domain.dispatcher.steady_ms = now_ms
        domain.dispatcher.handle_deadlines()

    assert kept.queue.is_deleted is False
    assert left.queue.is_deleted is True


def test_stages_are_their_users_own(services: Services) -> None:
    Writer(services, "ann").send(0, "a", "1")
    other = Writer(services, "bob")

    with pytest.raises(InvalidRequest, match="nothing is staged"):
        other.commit(0, a=1)
    assert other.abort(5) == 0
    assert Writer(services, "ann").commit(0, a=1) is True


def test_a_commit_needs_the_permission_to_send(domain: Domain, services: Services) -> None:
    writer = Writer(services)
    writer.send(0, "a", "1")
    domain.access = Rules((Permission.SEND, "orders"))

    with pytest.raises(NotAuthorized):
        writer.commit(0, a=1)
    assert bodies(domain) == []


def test_an_address_that_went_meanwhile_stops_the_commit(domain: Domain, services: Services) -> None:
    writer = Writer(services)
    writer.send(0, "a", "1")
    domain.delete_address("orders", force=True)

    with pytest.raises(NoSuchAddress):
        writer.commit(0, a=1)


@pytest.mark.parametrize(
    ("writer", "epoch", "attempt"),
    [
        ("", 0, "a"),
        ("\ud800", 0, "a"),
        ("w", 0, ""),
        ("w", 0, "\ud800"),
        ("w", -1, "a"),
        ("w", 2**63, "a"),
        ("w" * 300, 0, "a"),
    ],
)
def test_what_cannot_name_a_stage_is_refused(services: Services, writer: str, epoch: int, attempt: str) -> None:
    with pytest.raises(InvalidRequest):
        services.staging.open("u", writer, epoch, attempt, "orders", Link())


@pytest.mark.parametrize(("writer", "epoch"), [("", 0), ("\ud800", 0), ("w" * 300, 0), ("w", -1), ("w", 2**63)])
def test_what_cannot_name_an_epoch_is_not_committed(services: Services, writer: str, epoch: int) -> None:
    """It would be the key of a record: a store that cannot write it would end all confirmations."""
    with pytest.raises(InvalidRequest):
        next(services.staging.commit(Writer(services).session, writer, epoch, {}))


def test_writers_are_limited(services: Services) -> None:
    """Any client may commit an empty epoch; one that is known goes on."""
    assert services.staging.max_writers == MAX_WRITERS > 1000
    services.staging.max_writers = 1
    known, new = Writer(services), Writer(services, "new")
    known.commit(0)

    with pytest.raises(LimitExceeded):
        new.commit(0)
    assert known.commit(1)


def test_stages_are_limited(services: Services) -> None:
    assert services.staging.max_stages == MAX_STAGES > 1000
    services.staging.max_stages = 2
    writer = Writer(services)
    writer.stage(0, "a")
    writer.stage(0, "b")

    with pytest.raises(LimitExceeded):
        writer.stage(0, "c")


def test_a_stage_takes_no_transactions(services: Services) -> None:
    writer = Writer(services)
    producer = writer.send(0, "a")
    transaction = writer.session.begin()

    with pytest.raises(InvalidRequest, match="transactions"):
        producer.send(message("1"), transaction)


def test_an_address_with_staged_messages_is_in_use(domain: Domain, services: Services) -> None:
    """Though it is empty: a restart, or a long batch, must not take it from under the commit."""
    domain.create_address("auto", ANYCAST, auto_created=True)
    domain.create_queue(
        QueueConfig(name="auto", address="auto", routing_type=RoutingType.ANYCAST, auto_created=True, auto_delete=True)
    )
    writer = Writer(services)
    writer.send(1, "a", "m", address="auto")

    services.reaper.reap_at_start()

    assert writer.commit(1, a=1)
    assert bodies(domain, "auto") == ["m"]


def test_an_address_is_free_again_after_the_commit(domain: Domain, services: Services) -> None:
    domain.create_address("auto", ANYCAST, auto_created=True)
    writer = Writer(services)
    writer.send(1, "a", address="auto")
    writer.commit(1, a=0)

    services.reaper.reap_at_start()

    assert "auto" not in domain.addresses
