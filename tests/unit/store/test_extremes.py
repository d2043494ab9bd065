"""Nothing that a client can say ends the store: what it cannot write is refused before, or kept in another form."""

from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import LATEST_MS
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.storage import MAX_RECORD_KEY_BYTES, Storage
from artemis_py.core.routing.duplicates import duplicate_id
from artemis_py.core.routing.names import MAX_NAME_LENGTH
from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, LimitExceeded
from artemis_py.store.memory import MemoryStore
from tests.core_harness import make_queue
from tests.unit.store.world import World, bodies

LONGEST = "\N{ELEPHANT}" * MAX_NAME_LENGTH
"""Of four octets each."""


class Holder:
    def stolen(self) -> None: ...


def check_keys(storage: Storage) -> None:
    key = b"k" * (MAX_RECORD_KEY_BYTES - len("mqtt") - 1)
    storage.save_record("mqtt", key, b"v")
    for value in (b"v", None):
        with pytest.raises(LimitExceeded, match="a record of 'mqtt' has a key of 401 octets; 400 are allowed"):
            storage.save_record("mqtt", key + b"k", value)


def test_a_key_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """In a commit it would end the whole store."""
    check_keys(MemoryStore())
    with World(tmp_path) as world:
        check_keys(world.store)
        world.settle()

        assert world.failures == []


@pytest.mark.parametrize("routing_type", list(RoutingType))
def test_the_longest_names_come_back_after_a_crash(tmp_path: Path, routing_type: RoutingType) -> None:
    """Of addresses, queues and clients; twice, for only then numbers were skipped."""
    with World(tmp_path) as world:
        make_queue(world.domain, LONGEST, routing_type)
        for number in range(2):
            world.send(LONGEST, str(number), producer="\N{ELEPHANT}" * 65_535)
            world.settle()
        assert world.failures == []
    for _ in range(2):
        with World(tmp_path) as world:
            assert bodies(world.domain.queues[LONGEST]) == ["0", "1"]
            world.settle()
            assert world.failures == []
    with World(tmp_path) as world:
        world.domain.delete_address(LONGEST, force=True)
        world.settle()
        assert world.failures == []


def test_a_longer_name_is_refused(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for name in (LONGEST + "x", "\ud800"):
            with pytest.raises(InvalidRequest):
                world.domain.create_address(name, frozenset(RoutingType))
        world.domain.create_address("a", frozenset(RoutingType))
        for name in (LONGEST + "x", "\ud800"):
            with pytest.raises(InvalidRequest):
                make_queue(world.domain, name, address="a")


def test_long_names_that_begin_alike_skip_their_own_numbers(tmp_path: Path) -> None:
    """Only one of two queues was used before a crash."""
    used, unused = "q" * 500 + "1", "q" * 500 + "2"
    with World(tmp_path) as world:
        for name in (used, unused):
            make_queue(world.domain, name)
        world.settle()
    with World(tmp_path) as world:
        world.send(used, "m")
        world.settle()
        skipped = {name: world.domain.queues[name].skipped for name in (used, unused)}
    with World(tmp_path) as world:
        world.domain.delete_queue(unused)
        world.settle()
    with World(tmp_path) as world:
        assert world.domain.queues[used].skipped[: len(skipped[used])] == skipped[used]


@pytest.mark.parametrize("time_ms", [LATEST_MS, 1 << 56, (1 << 63) - 1, (1 << 64) - 1, 1 << 70])
def test_a_delivery_time_beyond_all_days_is_the_last_one(tmp_path: Path, time_ms: int) -> None:
    """Seven octets have it: a later one would stand in another queue's place, or in no batch at all."""
    with World(tmp_path) as world:
        world.queue()
        world.send("q", "m", delivery_time_ms=time_ms)
        world.send("q", "now")
        world.settle()
        world.audit()
        assert world.failures == []
    with World(tmp_path) as world:
        queue = world.queue()
        assert (bodies(queue), queue.scheduled_count) == (["now"], 1)
        assert world.domain.dispatcher.next_deadline_ms() is not None
        world.domain.dispatcher.handle_deadlines()
        assert queue.scheduled_count == 1


def test_what_else_is_as_long_as_it_likes(tmp_path: Path) -> None:
    """Duplicate ids, users, writers of epochs, expiry."""
    with World(tmp_path) as world:
        world.queue("q", user="\ud800" * 100_000)
        world.send("q", "m", expires_ms=(1 << 63) - 1)
        session = Session(world.domain, Subject("u" * 1000), "c")
        message = plain_message("q", MessageView(body="m"), True)
        session.producer("q").send(message, None, duplicate_id("\ud800" * 100_000))
        for user, writer in (("u" * 1000, "w"), ("u", "w" * 1000)):
            with pytest.raises(InvalidRequest):
                world.services.staging.open(user, writer, 0, "a", "q", Holder())
        world.services.staging.open("u", "w" * 190, 0, "\N{ELEPHANT}" * 200, "q", Holder())
        world.settle()

        assert world.failures == []
