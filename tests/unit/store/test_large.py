"""Large bodies: when their files come, what makes them durable, and when they go."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.large_body import LOADED_BODY_LIMIT_BYTES, LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import ACCEPTED, REJECTED
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import hold, unhold
from artemis_py.core.queues.storage import Storage
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import StoreError
from artemis_py.store import large, schema
from artemis_py.store.environment import Environment
from artemis_py.store.large import LargeFiles, body_files, read_body
from artemis_py.store.memory import MemoryStore
from tests.core_harness import attach, browse_all, make_domain, make_queue, make_session
from tests.unit.store.world import World, multicast

BODY = b"0123456789" * 1000


def large_message(storage: Storage, durable: bool = True, body: bytes = BODY) -> Message:
    """A message with a large body, held by the caller."""
    message = plain_message("", MessageView(body="what stands before"))
    message.durable = durable
    message.large = storage.create_large(durable)
    for offset in range(0, len(body), 999):
        message.large.append(body[offset : offset + 999])
    message.large.finish()
    return message


def send(world: World, address: str, durable: bool = True) -> Message:
    """Send one; only queues hold it then."""
    message = large_message(world.store, durable)
    world.domain.route(message, world.domain.addresses[address])
    assert message.large is not None
    message.large.release()
    return message


def files(world: World) -> list[Path]:
    """What is in the folder of large messages."""
    return [path for _, path in body_files(world.store.files.folder)]


def take(world: World, queue: Queue, outcome: int = ACCEPTED) -> None:
    """Deliver the first message and settle it; nothing is committed."""
    recorder, consumer = attach(world.domain, queue, credit=1)
    (reference,) = recorder.take()
    consumer.settle(reference, outcome)
    consumer.close()


def test_a_restart_brings_the_body_back(tmp_path: Path) -> None:
    """Content, size and what stands before it."""
    with World(tmp_path) as world:
        world.queue()
        send(world, "q")
        world.settle()

    with World(tmp_path) as world:
        (reference,) = browse_all(world.queue())
        message = reference.message

        assert message.large is not None
        assert message.large.load() == BODY
        assert message.content_size == len(message.data) + len(BODY)
        assert message.size < 2000
        assert world.found.orphans == 0
        take(world, world.queue())
        world.settle()
        assert files(world) == []
        assert world.count(schema.BODIES) == 0


def test_the_file_is_synced_before_the_commit_that_refers_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, then its name, then the reference: no crash shows a reference without its file."""
    done: list[str] = []
    fsync, begin = os.fsync, Environment.begin

    def noted_fsync(file: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    def noted_begin(environment: Environment, write: bool = False) -> object:
        done.append("begin")
        return begin(environment, write)

    with World(tmp_path) as world:
        world.queue()
        world.settle()
        send(world, "q")
        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Environment, "begin", noted_begin)
        world.settle()
        folder = world.store.files.folder

        assert done == [str(files(world)[0]), str(folder), str(folder.parent), "begin"]


def test_a_body_that_was_sent_in_a_transaction_is_synced_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited outside of the store until then."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        session = make_session(world.domain)
        transaction = session.begin()
        message = large_message(world.store)
        world.domain.route(message, world.domain.addresses["q"], transaction=transaction)
        assert message.large is not None
        message.large.release()
        synced.clear()
        session.commit(transaction)
        world.settle()

        assert str(files(world)[0]) in synced


def test_messages_that_wait_have_no_file_open(tmp_path: Path) -> None:
    """Whatever queue they wait in: descriptors are for clients."""
    with World(tmp_path) as world:
        world.queue()
        world.queue("volatile", durable=False)
        world.settle()
        before = len(os.listdir("/proc/self/fd"))
        for address in ("q", "volatile"):
            for durable in (True, False):
                for _ in range(5):
                    send(world, address, durable)
        world.settle()

        assert len(os.listdir("/proc/self/fd")) == before


def test_two_queues_share_one_file(tmp_path: Path) -> None:
    """It goes with the second, in whatever order and however far apart."""
    with World(tmp_path) as world:
        first, second = multicast(world, "news", "news.a", "news.b")
        send(world, "news")
        world.settle()
        counts = [len(files(world))]
        for queue in (first, second):
            take(world, queue)
            world.settle()
            counts.append(len(files(world)))

        assert counts == [1, 1, 0]
        assert world.count(schema.BODIES) == 0


def test_a_queue_that_is_not_durable_keeps_the_file_too(tmp_path: Path) -> None:
    """The store has no reference left, memory has one."""
    with World(tmp_path) as world:
        durable = make_queue(world.domain, "kept", RoutingType.MULTICAST, address="news")
        volatile = make_queue(world.domain, "volatile", RoutingType.MULTICAST, address="news", durable=False)
        send(world, "news")
        world.settle()
        take(world, durable)
        world.settle()
        (reference,) = browse_all(volatile)

        assert world.count(schema.BODIES) == 0
        assert reference.message.large is not None
        assert reference.message.large.load() == BODY
        take(world, volatile)
        world.settle()
        assert files(world) == []


@pytest.mark.parametrize("is_committed_between", [True, False])
def test_a_dead_letter_keeps_the_file(tmp_path: Path, is_committed_between: bool) -> None:
    """The copy refers to it before the original is removed, in one commit."""
    with World(tmp_path, {"#": AddressSettings(dead_letter_address="dead")}) as world:
        queue, dead = world.queue(), world.queue("dead")
        send(world, "q")
        if is_committed_between:
            world.settle()
        take(world, queue, REJECTED)
        world.settle()
        count = len(files(world))

    with World(tmp_path) as world:
        dead = world.queue("dead")
        (reference,) = browse_all(dead)
        assert count == 1
        assert reference.message.large is not None
        assert reference.message.large.load() == BODY
        take(world, dead)
        world.settle()
        assert files(world) == []


def test_the_file_is_deleted_after_the_commit_and_not_before(tmp_path: Path) -> None:
    """A crash before it brings the message back, body and all; one after it leaves at most a file to sweep."""
    with World(tmp_path) as world:
        world.queue()
        send(world, "q")
        world.settle()
        take(world, world.queue())

    with World(tmp_path) as world:
        assert len(files(world)) == 1
        take(world, world.queue())
        world.hands.turn()
        world.hands.work()
        before_deletion = len(files(world))

    with World(tmp_path) as world:
        assert before_deletion == 1
        assert world.found.orphans == 1
        assert files(world) == []


def test_what_was_taken_before_its_commit_is_never_stored(tmp_path: Path) -> None:
    """Its file goes all the same, and is not synced for nobody."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        before = len(os.listdir("/proc/self/fd"))
        message = send(world, "q")
        take(world, world.queue())
        world.settle()

        assert files(world) == []
        assert len(os.listdir("/proc/self/fd")) == before
        assert message.large is not None
        assert message.large.holders == 0


def test_a_reference_that_comes_while_the_last_one_goes_counts(tmp_path: Path) -> None:
    """A commit that saw none left does not know what gathered since: the file still waits for a commit to go."""
    with World(tmp_path, {"#": AddressSettings(dead_letter_address="dead")}) as world:
        dead = world.queue("dead")
        kept = make_queue(world.domain, "kept", RoutingType.MULTICAST, address="news")
        volatile = make_queue(world.domain, "volatile", RoutingType.MULTICAST, address="news", durable=False)
        world.settle()
        send(world, "news")
        take(world, kept)
        world.hands.turn()
        take(world, volatile, REJECTED)
        world.settle()
        take(world, dead)
        deletions = len(world.hands.jobs)
        world.settle()

        assert deletions == 0
        assert files(world) == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_deleted_queue_takes_its_files_along(tmp_path: Path, durable: bool) -> None:
    """Also of what a consumer holds, once that is settled."""
    with World(tmp_path) as world:
        queue = world.queue()
        for _ in range(2):
            send(world, "q", durable)
        world.settle()
        attach(world.domain, queue, credit=1)
        world.domain.delete_queue("q", force=True)
        world.settle()

        assert files(world) == []


def test_a_body_that_was_not_finished_or_not_durable_is_removed_at_start(tmp_path: Path) -> None:
    """Nothing refers to it; files of other names are left alone."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        world.store.create_large(durable=True).append(BODY)
        send(world, "q", durable=False)
        (world.store.files.folder / "notes.txt").write_text("not ours")
        world.settle()

    with World(tmp_path) as world:
        assert world.found.orphans == 2
        assert files(world) == []
        assert (world.store.files.folder / "notes.txt").exists()
        assert world.queue().message_count == 0


def test_a_stop_leaves_only_what_a_start_can_use(tmp_path: Path) -> None:
    """Durable ones stay, all others go, and those that were to be deleted."""
    world = World(tmp_path)
    queue = world.queue()
    for durable in (True, True, False):
        send(world, "q", durable)
    world.settle()
    take(world, queue)
    world.stop()
    left = len(list(body_files(world.store.files.folder)))
    assert world.hands.jobs == [], "the worker has ended"

    with World(tmp_path) as world:
        assert left == 1
        assert world.found.orphans == 0
        assert len(browse_all(world.queue())) == 1


def test_a_batch_that_is_written_twice_counts_once(tmp_path: Path) -> None:
    """A stop cannot know whether the worker finished, and writes the batch in flight again."""
    with World(tmp_path) as world:
        queue = world.queue()
        send(world, "q")
        world.hands.turn()
        assert world.store._in_flight is not None
        world.environment.write(world.store._in_flight)
        world.settle()
        take(world, queue)
        world.hands.turn()
        world.environment.write(world.store._in_flight)
        world.settle()

        assert world.count(schema.BODIES) == 0
        assert files(world) == []


def test_a_write_that_fails_refuses_this_message_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: what was not acknowledged is not promised, so the store goes on."""
    with World(tmp_path) as world:
        world.queue()
        body = world.store.create_large(durable=True)
        body.append(b"begin")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", failing(errno.ENOSPC))
            with pytest.raises(StoreError, match="No space left on device"):
                body.append(b"more")
        with pytest.raises(StoreError, match="No space left on device"):
            body.append(b"even more")
        body.release()
        world.settle()

        assert files(world) == []
        assert world.store.failure is None


def test_a_sync_that_fails_ends_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P15: the message was about to be acknowledged, and nobody knows what is on the disk."""
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        told: list[str] = []
        send(world, "q")
        world.store.when_durable(lambda: told.append("durable"), told.append)
        monkeypatch.setattr(os, "fsync", failing(errno.EIO))
        world.settle()

        assert told == world.failures
        assert "Input/output error" in told[0]


def test_a_long_body_is_synced_while_it_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece at a time; a piece that cannot be synced refuses the message, for nobody would hear of it later."""
    monkeypatch.setattr(large, "SYNC_AHEAD_BYTES", 1000)
    with World(tmp_path) as world:
        body = world.store.create_large(durable=True)
        for _ in range(3):
            body.append(bytes(600))
        jobs = len(world.hands.jobs)
        world.hands.work()
        body.append(bytes(600))
        monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
        world.hands.work()

        assert jobs == 1
        with pytest.raises(StoreError, match="Input/output error"):
            body.append(b"more")
        with pytest.raises(StoreError, match="Input/output error"):
            body.finish()
        body.release()


def test_a_piece_that_was_not_synced_fails_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P15: the commit's own sync would succeed, for the system reports a lost write only once."""
    monkeypatch.setattr(large, "SYNC_AHEAD_BYTES", 1000)
    with World(tmp_path) as world:
        world.queue()
        world.settle()
        monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
        send(world, "q")
        world.hands.work()
        monkeypatch.undo()
        told: list[str] = []
        world.store.when_durable(lambda: told.append("durable"), told.append)
        world.settle()

        assert told == world.failures
        assert "Input/output error" in told[0]


def failing(number: int) -> Callable[..., None]:
    """A system call that fails so."""

    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_message_whose_file_is_not_there_is_set_aside(tmp_path: Path, damage: str) -> None:
    """R8: the others are served."""
    with World(tmp_path) as world:
        world.queue()
        for _ in range(2):
            send(world, "q")
        world.settle()
        path = files(world)[0]
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(BODY[:-1])

    with World(tmp_path) as world:
        waiting = browse_all(world.queue())
        world.settle()

        assert len(waiting) == 1
        assert world.count(schema.DAMAGED) == 1


def test_a_body_that_changed_is_not_given_out_whole(tmp_path: Path) -> None:
    """Its checksum is compared with what was read, before the last octets are handed over."""
    with World(tmp_path) as world:
        world.queue()
        message = send(world, "q")
        world.settle()
        files(world)[0].write_bytes(BODY[:-5] + b"?????")
        assert message.large is not None
        reader = message.large.reader()

        assert reader.read(9000) == BODY[:9000]
        with pytest.raises(StoreError, match="is damaged"):
            reader.read(1000)
        reader.close()
        with pytest.raises(StoreError, match="is damaged"):
            list(read_body(files(world)[0], len(BODY), message.large.checksum))


def test_a_stored_body_is_read_in_pieces(tmp_path: Path) -> None:
    """For those who look at a store from outside."""
    with World(tmp_path) as world:
        world.queue()
        message = send(world, "q")
        world.settle()
        assert message.large is not None
        pieces = list(read_body(files(world)[0], message.large.size, message.large.checksum, 4096))

        assert [len(piece) for piece in pieces] == [4096, 4096, 1808]
        assert b"".join(pieces) == BODY


def test_a_new_store_does_not_sweep_another_ones_folder(tmp_path: Path) -> None:
    """A wrong journal-directory must not cost the large messages of the right one; asking twice changes nothing."""
    with World(tmp_path / "right") as world:
        world.queue()
        send(world, "q")
        world.settle()
        folder = world.store.files.folder

    for _ in range(2):
        with pytest.raises(StoreError, match="large messages of another one"):
            Environment(tmp_path / "wrong", large_messages_folder=folder)
    assert len(list(body_files(folder))) == 1


def test_two_brokers_do_not_share_the_folder(tmp_path: Path) -> None:
    """Each would sweep away what the other one has."""
    with World(tmp_path / "one") as world, pytest.raises(StoreError, match="large-messages-directory of its own"):
        Environment(tmp_path / "other", large_messages_folder=world.store.files.folder)
    Environment(tmp_path / "other", large_messages_folder=world.store.files.folder).close()


def test_a_broker_without_a_store_has_files_too() -> None:
    """In the system's temporary folder, each gone with its message."""
    domain = make_domain()
    queue = make_queue(domain)
    message = large_message(domain.storage)
    domain.route(message, domain.addresses["q"])
    body = message.large
    assert body is not None
    body.release()
    path = getattr(body, "path")  # noqa: B009  only files have one
    reader = body.reader()
    content = body.load()
    recorder, consumer = attach(domain, queue, credit=1)
    (reference,) = recorder.take()
    consumer.settle(reference, ACCEPTED)

    assert content == BODY
    assert not path.exists()
    assert reader.read(len(BODY)) == BODY
    reader.close()


def test_a_message_that_no_queue_takes_leaves_nothing() -> None:
    """Its creator was the only holder."""
    domain = make_domain()
    domain.create_address("nobody", frozenset(RoutingType))
    message = large_message(MemoryStore())
    domain.route(message, domain.addresses["nobody"])
    assert message.large is not None
    message.large.release()

    with pytest.raises(StoreError, match="cannot be opened"):
        message.large.reader()


def test_a_rolled_back_transaction_gives_its_bodies_up() -> None:
    """It held them from the send on."""
    domain = make_domain()
    queue = make_queue(domain)
    session = make_session(domain)
    for ends in (session.rollback, session.commit):
        transaction = session.begin()
        message = large_message(domain.storage)
        domain.route(message, domain.addresses["q"], transaction=transaction)
        assert message.large is not None
        message.large.release()
        ends(transaction)

        assert message.large.holders == queue.message_count


def test_a_body_beyond_the_limit_is_not_loaded() -> None:
    """What looks at the body of a message may not cost the broker its memory."""
    body = LargeBody(1, LOADED_BODY_LIMIT_BYTES + 1)

    with pytest.raises(StoreError, match="at most 67108864 are loaded"):
        body.load()


def test_a_body_that_memory_let_go_is_the_stores(tmp_path: Path) -> None:
    """What is only in the store has no object in memory; whoever reads it from there holds it again."""
    with World(tmp_path) as world:
        world.queue()
        message = send(world, "q")
        world.settle()
        unhold(message)
        world.settle()
        assert message.large is not None
        body = world.store.files.restore(message.large.id, message.large.size, message.large.checksum)

        assert body is not message.large
        assert body.load() == BODY
        hold(message)
        assert world.store.files.restore(body.id, body.size, body.checksum) is message.large
        take(world, world.queue())
        world.settle()
        assert files(world) == []


def test_numbers_are_not_given_again(tmp_path: Path) -> None:
    """A body of the next run has another file than one that is still there."""
    with World(tmp_path) as world:
        world.queue()
        first = send(world, "q").large
        world.settle()

    with World(tmp_path) as world:
        second = world.store.create_large(durable=True)
        assert first is not None
        assert second.id > first.id
        second.release()


def test_files_of_an_unused_folder_are_nobodys(tmp_path: Path) -> None:
    """The sweep says how many files and bytes it removed."""
    files = LargeFiles(tmp_path)
    for id, size in ((1, 10), (2, 20), (7, 30)):
        large.body_path(tmp_path, id).write_bytes(bytes(size))

    assert files.open(lambda id: id == 2) == (2, 40)
    assert files.create(durable=False).id == 8
