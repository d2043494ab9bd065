"""Prepared branches in the tools for stores: checked, copied through a file, and saved from a damaged one."""

from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.prepared_messages import PREPARED
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.session import Session
from artemis_py.store import schema
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import Imported, import_file
from tests.core_harness import Recorder, settle_down
from tests.unit.store.test_condition import pages_of, zero
from tests.unit.store.world import World, bodies
from tests.unit.storetools.stores import BODY, changed, large_bodies

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}
XID = Xid(1, b"global", b"branch")


def prepare(folder: Path) -> None:
    """A branch that sends three messages to q, one of them large, and settles one of two in p."""
    with World(folder) as world:
        world.queue("q")
        world.queue("p")
        world.send("p", "1", "2")
        session = Session(world.domain, Subject("tester"), "client")
        recorder = Recorder()
        session.consume(world.queue("p"), recorder).grant(1)
        settle_down(world.domain)
        transaction = world.services.branches.start(session, XID)
        transaction.settle(recorder.take()[0], ACCEPTED)
        for body in ("a", "b"):
            session.producer("q").send(plain_message("q", MessageView(body=body), True), transaction)
        message = plain_message("q", MessageView(body="large"), True)
        large = message.large = world.store.create_large(durable=True)
        large.append(BODY)
        large.finish()
        session.producer("q").send(message, transaction)
        large.release()
        world.services.branches.prepare(session, XID)
        session.close()
        settle_down(world.domain)
        world.stop()


def finish(folder: Path) -> tuple[list[object], list[object]]:
    """Commit the branch; what is in q and p then."""
    with World(folder) as world:
        branches = world.services.branches
        branches.restore()
        session = Session(world.domain, Subject("tester"), "client")
        assert branches.recover(session) == [XID]
        assert bodies(world.queue("p")) == ["2"]
        branches.commit(session, XID)
        world.settle()
        assert large_bodies(world, "q")[-1] == BODY
        found = bodies(world.queue("q")), bodies(world.queue("p"))
        assert world.queue("p").message_count == 1
        world.audit()
        world.stop()
    assert check_folder(folder) == []
    return found


COMMITTED = (["a", "b", "large"], ["2"])


def exported(tmp_path: Path) -> Path:
    target = tmp_path / "export.jsonl"
    assert export_folder(tmp_path / "store", target, FileFormat.JSONL, FORMATS).left_out == []
    return target


def taken_in(folder: Path, source: Path) -> Imported:
    return import_file(folder, source, FileFormat.JSONL, FORMATS)


def test_a_prepared_branch_is_sound_and_survives_with_its_large_message(tmp_path: Path) -> None:
    prepare(tmp_path)

    assert check_folder(tmp_path) == []
    assert finish(tmp_path) == COMMITTED


def test_a_prepared_branch_goes_through_an_export_into_an_empty_store(tmp_path: Path) -> None:
    prepare(tmp_path / "store")
    imported = taken_in(tmp_path / "new", exported(tmp_path))

    assert imported.left_out == ()
    assert finish(tmp_path / "new") == COMMITTED


def test_a_store_with_content_takes_no_branch_and_says_so(tmp_path: Path) -> None:
    """What the branch had settled waits again, and what it had sent stays in the queue of prepared messages."""
    prepare(tmp_path / "store")
    with World(tmp_path / "new") as world:
        world.queue("other")
        world.settle()
        world.stop()
    imported = taken_in(tmp_path / "new", exported(tmp_path))
    with World(tmp_path / "new") as world:
        found = world.services.branches.restore()
        waiting = bodies(world.queue("p")), bodies(world.queue(PREPARED))

    assert imported.left_out == (
        "left out: 1 records of 'branches': only a store that holds nothing yet can take them",
    )
    assert (found.prepared, found.orphans, waiting) == (0, 3, (["1", "2"], ["a", "b", "large"]))
    assert check_folder(tmp_path / "new") == []


def test_messages_of_a_branch_that_are_missing_are_found(tmp_path: Path) -> None:
    prepare(tmp_path)
    with World(tmp_path) as world:
        world.queue(PREPARED).purge()
        world.settle()
        world.stop()
    (problem,) = check_folder(tmp_path)

    assert "0 of its 3 messages are there" in problem


@pytest.mark.parametrize("value", [b"", b"{}", b'{"user": null, "started": 1, "prepared": 1, "first": 1, "stored": 0}'])
def test_a_record_that_is_no_branch_is_found(tmp_path: Path, value: bytes) -> None:
    prepare(tmp_path)
    with changed(tmp_path) as (environment, transaction):
        key = schema.record_key("branches", XID.key)
        transaction.put(key, schema.seal(key, value), db=environment.database(schema.RECORDS))
    (problem,) = check_folder(tmp_path)

    assert "it is not a prepared branch" in problem


def test_an_export_as_xml_names_what_it_leaves_out(tmp_path: Path) -> None:
    prepare(tmp_path)
    left_out = export_folder(tmp_path, tmp_path / "export.xml", FileFormat.XML, FORMATS).left_out

    assert "left out: 1 records of 'branches': the format has no place for them" in left_out


def test_a_prepared_branch_is_saved_from_a_damaged_file(tmp_path: Path) -> None:
    """The start copies what it can read into a new file, and counts again."""
    prepare(tmp_path)
    zero(tmp_path, *pages_of(tmp_path, schema.COUNTS), *pages_of(tmp_path, schema.BODIES))

    assert finish(tmp_path) == COMMITTED


def test_without_its_record_what_a_branch_has_settled_waits_and_what_it_has_sent_stays(tmp_path: Path) -> None:
    prepare(tmp_path)
    zero(tmp_path, *pages_of(tmp_path, schema.RECORDS))
    with World(tmp_path) as world:
        found = world.services.branches.restore()
        waiting = bodies(world.queue("p")), bodies(world.queue(PREPARED))

    assert (found.prepared, found.orphans, waiting) == (0, 3, (["1", "2"], ["a", "b", "large"]))
