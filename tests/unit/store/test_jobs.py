"""Jobs on a real store: none is lost and none is done twice, through restarts and crashes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.services.job import FOR_EVER
from artemis_py.core.services.job_queue import SCHEDULED
from artemis_py.core.services.xid import Xid
from artemis_py.store import schema
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from tests.core_harness import Recorder, settle_down
from tests.unit.store.job_world import Life
from tests.unit.storetools.stores import changed


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    yield life
    life.world.settle()
    life.world.audit()
    life.world.crash()
    assert check_folder(tmp_path) == []


@pytest.mark.parametrize("end", ["restart", "crash", "none"])
def test_jobs_go_on_after_the_start_that_follows(life: Life, end: str) -> None:
    for number in range(6):
        life.schedule(f"m{number}", delay_ms=1000)
    life.schedule("again", period_ms=400, repeat=3)
    life.wait(500)
    if end != "none":
        getattr(life, end)()

    assert life.jobs.count == 7
    assert life.wait(499) == ["again", "again"]
    assert sorted(map(str, life.wait(1))) == ["again", "again", *[f"m{number}" for number in range(6)]]
    assert life.wait(5000).count("again") == 3
    assert life.wait(400).count("again") == 4
    assert (life.jobs.count, life.records()) == (0, 0)
    assert life.world.queue(SCHEDULED).message_count == 0


def test_what_was_due_while_the_broker_was_down_is_made_up_for_once(life: Life) -> None:
    life.schedule("once", delay_ms=1000)
    life.schedule("hourly", cron="0 * * * *")
    life.schedule("again", period_ms=1000, repeat=FOR_EVER)
    life.world.settle()
    life.now_ms += 10 * 3_600_000
    life.restart()

    assert sorted(map(str, life.wait(0))) == ["again", "hourly", "once"]
    assert life.wait(1000).count("again") == 2


def test_an_occurrence_and_the_next_time_of_its_job_are_one_commit(life: Life) -> None:
    """A crash takes back both, or none."""
    life.schedule("m", delay_ms=100)
    life.schedule("again", delay_ms=100, period_ms=1000, repeat=1)
    life.world.settle()
    life.pass_time(100)
    life.crash()
    assert sorted(map(str, life.wait(0))) == ["again", "m"]
    life.crash()
    assert sorted(map(str, life.waiting())) == ["again", "m"]

    assert sorted(map(str, life.wait(1000))) == ["again", "again", "m"]


def test_an_occurrence_that_a_crash_may_take_back_is_seen_by_nobody(life: Life) -> None:
    life.schedule("m", delay_ms=100)
    recorder = Recorder()
    life.session.consume(life.world.queue("q"), recorder).grant(10)
    life.world.settle()
    life.pass_time(100)
    settle_down(life.world.domain)
    before = len(recorder.deliveries)
    life.world.settle()

    assert (before, len(recorder.deliveries)) == (0, 1)


def test_a_removed_job_does_not_come_back(life: Life) -> None:
    for number in range(5):
        life.schedule(str(number), delay_ms=1000)
    life.restart()
    for number in (0, 2, 4):
        job = life.jobs.find(str(number))
        assert job is not None
        life.jobs.remove(job)
    life.world.settle()
    life.crash()

    assert sorted(map(str, life.wait(1000))) == ["1", "3"]


def test_what_is_not_durable_ends_with_the_broker(life: Life) -> None:
    life.schedule("volatile", durable=False, delay_ms=1000)
    life.schedule("durable", delay_ms=1000)
    life.restart()

    assert life.wait(1000) == ["durable"]


def test_what_is_not_durable_is_sent_without_a_restart(life: Life) -> None:
    for number in range(8):
        life.schedule(str(number), durable=number % 2 == 0, delay_ms=1000)

    assert sorted(map(str, life.wait(1000))) == sorted(map(str, range(8)))


def test_a_prepared_branch_schedules_after_a_restart(life: Life) -> None:
    xid = Xid(1, b"global", b"branch")
    branches = life.world.services.branches
    life.schedule("m", branches.start(life.session, xid), delay_ms=1000)
    branches.prepare(life.session, xid)
    life.restart()
    assert life.wait(10_000) == []
    life.world.services.branches.commit(life.session, xid)

    assert life.wait(999) == []
    life.restart()
    assert life.wait(1) == ["m"]


def test_jobs_go_through_an_export_into_an_empty_store(tmp_path: Path) -> None:
    life = Life(tmp_path / "store")
    for number in range(5):
        life.schedule(str(number), delay_ms=1000)
    life.world.settle()
    life.world.stop()
    formats = {PLAIN_FORMAT.name: PLAIN_FORMAT}
    target = tmp_path / "export.jsonl"
    assert export_folder(tmp_path / "store", target, FileFormat.JSONL, formats).left_out == []
    imported = import_file(tmp_path / "new", target, FileFormat.JSONL, formats)
    again = Life(tmp_path / "new")

    assert imported.left_out == ()
    assert sorted(map(str, again.wait(1000))) == ["0", "1", "2", "3", "4"]
    again.world.crash()
    assert check_folder(tmp_path / "new") == []


@pytest.mark.parametrize("value", [b"", b"{}", b"[1, 2]", b'["id",0,0,0,"never","q","",1,null,[],false,false,5,0]'])
def test_a_record_that_is_no_job_is_found_and_left_out(tmp_path: Path, value: bytes) -> None:
    life = Life(tmp_path)
    life.schedule("a", delay_ms=1000)
    life.schedule("b", delay_ms=1000)
    life.world.settle()
    life.world.stop()
    with changed(tmp_path) as (environment, transaction):
        key = schema.record_key("jobs", schema.U64.pack(1))
        transaction.put(key, schema.seal(key, value), db=environment.database(schema.RECORDS))
    problems = check_folder(tmp_path)
    life.open()

    assert len(problems) == 1
    assert "not a" in problems[0]
    assert (life.found.count, life.found.lost, life.found.orphans) == (1, 1, 1)
    assert life.wait(1000) == ["b"]
    life.world.crash()
