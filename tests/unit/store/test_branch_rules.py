"""What the rules of queues and addresses mean for prepared branches: expiry, kinds of queues, limits, deletion."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.prepared_messages import PREPARED
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.errors import AddressFull
from artemis_py.store.scratch import ScratchStore
from artemis_py.storetools.check import check_folder
from tests.core_harness import attach, pass_time
from tests.unit.store.branch_world import ONE, SETTINGS, Life, make
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    life.world.queue("q")
    life.world.queue("p")
    yield life
    life.world.settle()
    life.world.audit()
    life.world.crash()
    assert check_folder(tmp_path) == []


def test_a_purge_leaves_what_a_prepared_branch_has(life: Life) -> None:
    life.send(None, "1", "2", "3", "4", "5", "6", to="p")
    life.prepare(ONE, settle=2)
    life.restart()
    purged = life.world.queue("p").purge()
    life.crash()
    life.rollback(ONE)

    assert (purged, life.bodies("p")) == (4, ["1", "2"])


def test_what_a_prepared_branch_has_does_not_expire(tmp_path: Path) -> None:
    life = Life(tmp_path)
    expires_ms = life.world.domain.dispatcher.now_ms + 50
    life.world.queue("p")
    life.world.queue("q")
    life.send(None, "1", "2", "3", to="p", expires_ms=expires_ms)
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a", "b", "c", expires_ms=expires_ms)
    transaction.settle(life.receive("p", 1)[0], ACCEPTED)
    life.branches.prepare(life.session, ONE)
    life.session.close()
    life.restart()
    pass_time(life.world.domain, 100)
    for queue in list(life.world.domain.queues.values()):
        queue.expiry.expire_due()
        while not queue.expiry.sweep(10):
            pass
    counts = life.world.queue("p").message_count, life.world.domain.queues[PREPARED].message_count
    life.commit(ONE)
    life.world.crash()

    assert counts == (1, 3)


def test_delivery_times_apply_from_the_commit_on(life: Life) -> None:
    due_ms = life.world.domain.dispatcher.now_ms + 50
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "later", delivery_time_ms=due_ms)
    life.branches.prepare(life.session, ONE)
    life.crash()
    life.commit(ONE)
    queue = life.world.queue("q")
    before = queue.scheduled_count
    pass_time(life.world.domain, 100)

    assert (before, queue.scheduled_count, life.bodies("q")) == (1, 0, ["later"])


def test_a_deleted_queue_takes_its_part_of_the_branch_with_it(life: Life) -> None:
    life.send(None, "1", "2", to="p")
    life.prepare(ONE, "a", settle=1)
    life.world.domain.delete_queue("p", force=True)
    life.world.domain.delete_queue("q", force=True)
    life.world.settle()
    life.world.queue("q")
    life.commit(ONE)
    discarded = life.world.domain.discards.count

    assert (life.bodies("q"), discarded, life.left()) == ([], 1, (0, 0, 0))


def test_a_queue_of_the_same_name_is_another_one_after_a_restart(life: Life) -> None:
    life.send(None, "1", "2", to="p")
    life.prepare(ONE, "a", settle=1)
    for name in ("p", "q"):
        life.world.domain.delete_queue(name, force=True)
    life.world.settle()
    for name in ("p", "q"):
        life.world.queue(name)
    life.send(None, "new", to="p")
    life.restart()
    missing = life.found.missing
    life.commit(ONE)

    assert (missing, life.bodies("p"), life.bodies("q")) == (1, ["new"], [])


def test_an_id_of_a_prepared_branch_is_taken_until_it_is_rolled_back(life: Life) -> None:
    id = duplicate_id("id-1")
    transaction = life.branches.start(life.session, ONE)
    life.session.producer("q").send(make("a"), transaction, id)
    life.branches.prepare(life.session, ONE)
    life.restart()
    life.session.producer("q").send(make("again"), None, id)
    life.rollback(ONE)
    life.restart()
    life.session.producer("q").send(make("after"), None, id)
    life.world.settle()

    assert life.bodies("q") == ["after"]


def test_a_newer_last_value_removes_what_a_prepared_branch_has_claimed(tmp_path: Path) -> None:
    """As it does with any delivery; a commit settles the rest."""
    life = Life(tmp_path)
    life.world.queue("q")
    life.world.queue("p", last_value=True, last_value_key="key")

    def valued(text: str) -> None:
        message = plain_message("p", MessageView(body=text, properties={"key": "k"}), True)
        life.session.producer("p").send(message)

    valued("old")
    life.prepare(ONE, "a", settle=1)
    life.restart()
    valued("new")
    life.crash()
    missing = life.found.missing
    life.rollback(ONE)
    life.world.settle()
    life.world.audit()
    found = life.bodies("p")
    life.world.crash()

    assert (missing, found) == (1, ["new"])


def test_a_group_waits_for_its_message_in_a_prepared_branch(life: Life) -> None:
    """No consumer gets the group's next message while one is in doubt, also after a restart."""
    life.world.queue("p")
    for text in ("1", "2"):
        life.session.producer("p").send(plain_message("p", MessageView(body=text, group_id="g"), True))
    life.world.settle()
    life.prepare(ONE, settle=1)
    life.restart()
    recorder, _ = attach(life.world.domain, life.world.queue("p"))
    life.world.settle()
    before = recorder.take()
    life.commit(ONE)

    assert before == []
    assert [reference.message.view.body for reference in recorder.take()] == ["2"]


def test_a_divert_that_takes_a_dead_letter_is_found_after_a_restart(life: Life) -> None:
    """Bindings that are not queues are named in the record, and may be bound after the branches are restored."""
    life.world.services.diverts.create(DivertConfig(name="d", address="q", forwarding_address="p"))
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a")
    life.branches.prepare(life.session, ONE)
    life.restart()
    life.world.services.diverts.restore()
    life.commit(ONE)

    assert (life.bodies("q"), life.bodies("p")) == (["a"], ["a"])


def test_a_start_deletes_no_queue_that_a_prepared_branch_needs(tmp_path: Path) -> None:
    """Nor its address: both were created on demand, and are empty."""
    life = Life(tmp_path, {"#": AddressSettings(auto_delete_queues_delay=0)})
    domain = life.world.domain
    for name in ("q", "unused"):
        domain.create_address(name, frozenset((RoutingType.ANYCAST,)), auto_created=True)
        life.world.queue(name, auto_created=True)
    life.prepare(ONE, "a")
    life.restart()
    life.world.services.reaper.reap_at_start()
    life.world.settle()
    left = "q" in life.world.domain.queues, "unused" in life.world.domain.queues
    life.commit(ONE)
    found = life.bodies("q")
    life.world.crash()

    assert (left, found) == ((True, False), ["a"])


def test_a_queue_that_a_prepared_branch_needs_is_in_use(life: Life) -> None:
    life.send(None, "1", to="p")
    life.prepare(ONE, "a", settle=1)
    life.restart()
    needed = [life.branches.needs(name) for name in ("q", "p", "other")]
    life.commit(ONE)

    assert needed == [True, True, False]
    assert not any(life.branches.needs(name) for name in ("q", "p"))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_comes_back_from_a_branch_expires_then(tmp_path: Path, is_restarted: bool) -> None:
    """The search for expired messages finds it, although it looked in the meantime."""
    life = Life(tmp_path)
    expires_ms = life.world.domain.dispatcher.now_ms + 50
    life.world.queue("p")
    life.send(None, "1", "2", "3", to="p", expires_ms=expires_ms)
    life.prepare(ONE, settle=1)
    if is_restarted:
        life.restart()
    queue = life.world.queue("p")
    pass_time(life.world.domain, 100)
    queue.expiry.expire_due()
    while not queue.expiry.sweep(10):
        pass
    before = queue.message_count
    life.rollback(ONE)
    expired = queue.expiry.expire_due()
    life.world.crash()

    assert (before, expired, queue.message_count) == (1, 1, 0)


def test_a_ring_does_not_count_what_a_prepared_branch_has(tmp_path: Path) -> None:
    """A restart must not remove others for it; when it comes back, the oldest go."""
    life = Life(tmp_path)
    life.world.queue("p", ring_size=3)
    life.send(None, "1", "2", "3", to="p")
    life.prepare(ONE, settle=2)
    life.send(None, "4", "5", to="p")
    life.restart()
    pass_time(life.world.domain, 1)
    before = life.bodies("p")
    life.rollback(ONE)
    after = life.bodies("p")
    life.world.audit()
    life.world.crash()

    assert (before, after) == (["3", "4", "5"], ["3", "4", "5"])


def test_messages_that_are_not_durable_go_to_scratch_files_and_come_back(tmp_path: Path) -> None:
    scratch = ScratchStore(tmp_path / "scratch", SMALL_MAP_BYTES)
    options = BrokerSettings(global_max_size_bytes=8000)
    with World(tmp_path / "journal", SETTINGS, options, scratch=scratch) as world:
        world.domain.dispatcher.account.can_spill = True
        queue = world.queue("q")
        session = Session(world.domain, Subject("tester"), "client")
        transaction = world.services.branches.start(session, ONE)
        texts = [str(number) for number in range(20)]
        for text in texts:
            session.producer("q").send(make(text, durable=False), transaction)
        world.services.branches.prepare(session, ONE)
        world.settle()
        on_disk = world.domain.queues[PREPARED].backlog.cold_count
        world.services.branches.commit(session, ONE)
        world.settle()
        found = bodies(queue)
        left = world.domain.queues[PREPARED].message_count
    scratch.close()

    assert on_disk > 0
    assert (found, left) == (texts, 0)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("policy", [FullPolicy.FAIL, FullPolicy.PAGE])
def test_what_a_prepared_branch_sends_counts_at_its_address(
    tmp_path: Path, policy: FullPolicy, is_restarted: bool
) -> None:
    """Whether it is in memory or on disk, and before as after the commit."""
    life = Life(tmp_path, {"#": AddressSettings(max_read_page_messages=2, address_full_policy=policy)})
    life.world.queue("q")
    life.prepare(ONE, "a", "b", "c", "d", "e")
    if is_restarted:
        life.restart()
    address = life.world.domain.addresses["q"]
    prepared = address.message_count, address.size_bytes
    life.commit(ONE)
    committed = address.message_count, address.size_bytes
    life.receive("q", 5)
    life.session.close()
    life.world.queue("q").purge()
    life.world.settle()
    left = address.message_count, address.size_bytes, life.world.domain.addresses[PREPARED].size_bytes
    life.world.crash()

    assert prepared == committed
    assert (prepared[0], left) == (5, (0, 0, 0))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_prepared_messages_make_an_address_full(tmp_path: Path, is_restarted: bool) -> None:
    """Else a client could have as many as it likes prepared for an address with a limit."""
    life = Life(tmp_path, {"q": AddressSettings(max_size_messages=3, address_full_policy=FullPolicy.FAIL)})
    life.world.queue("q")
    life.prepare(ONE, "a", "b", "c")
    if is_restarted:
        life.restart()
    with pytest.raises(AddressFull):
        life.send(None, "d")
    life.rollback(ONE)
    life.send(None, "e")
    found = life.bodies("q")
    life.world.crash()

    assert found == ["e"]


def test_a_message_whose_address_is_gone_counts_at_that_of_its_queue(life: Life) -> None:
    life.world.queue("wild", routing_type=RoutingType.MULTICAST, address="t.#")
    life.world.domain.create_address("t.1", frozenset((RoutingType.MULTICAST,)))
    transaction = life.branches.start(life.session, ONE)
    life.send(transaction, "a", to="t.1")
    life.branches.prepare(life.session, ONE)
    life.world.domain.delete_address("t.1")
    life.crash()
    life.commit(ONE)

    assert life.bodies("wild") == ["a"]
    assert life.world.domain.addresses["t.#"].message_count == 1
