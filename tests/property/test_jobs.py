"""Jobs do what a table does, through restarts and crashes at any moment: no occurrence is lost, none comes twice."""

import shutil
import tempfile
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Final

from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.storetools.check import check_folder
from tests.core_harness import START_MS
from tests.examples import examples
from tests.unit.store.job_world import Life

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("schedule"), st.integers(0, 300), st.integers(10, 200), st.integers(-1, 3), st.booleans()),
    st.tuples(st.just("schedule"), st.integers(0, 300), st.integers(10, 200), st.integers(-1, 3), st.booleans()),
    st.tuples(st.just("wait"), st.integers(0, 250)),
    st.tuples(st.just("wait"), st.integers(0, 250)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("settle")),
    st.tuples(st.just("crash")),
    st.tuples(st.just("restart")),
)


@define
class Job:
    """What the table has of a job."""

    due_ms: int
    period_ms: int
    left: int
    durable: bool


@define
class Model:
    """The jobs, and how often each was sent."""

    jobs: dict[str, Job] = field(factory=dict)
    sent: Counter[str] = field(factory=Counter)
    volatile: set[str] = field(factory=set)

    def pass_time(self, now_ms: int) -> None:
        for id, job in list(self.jobs.items()):
            if job.due_ms <= now_ms:
                self.sent[id] += 1
                if job.left == 0:
                    del self.jobs[id]
                    continue
                job.left -= job.left > 0
                while job.due_ms <= now_ms:
                    job.due_ms += job.period_ms

    def end(self) -> None:
        """What is not durable does not survive."""
        for id in self.volatile:
            self.jobs.pop(id, None)
            self.sent.pop(id, None)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(OPERATIONS, max_size=40))
def test_jobs_do_what_a_table_does(operations: list[tuple[object, ...]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="artemis-py-jobs-"))
    life = Life(folder)
    model, committed = Model(), Model()
    try:
        for number, (name, *given) in enumerate(operations):
            if name == "schedule":
                delay_ms, period_ms, repeat, durable = given
                assert isinstance(delay_ms, int)
                assert isinstance(period_ms, int)
                assert isinstance(repeat, int)
                id = f"{number}"
                life.schedule(id, durable=bool(durable), delay_ms=delay_ms, period_ms=period_ms, repeat=repeat)
                model.jobs[id] = Job(life.now_ms + (delay_ms or period_ms), period_ms, repeat, bool(durable))
                if not durable:
                    model.volatile.add(id)
                    committed.volatile.add(id)
            elif name == "wait":
                life.pass_time(int(str(given[0])))
                model.pass_time(life.now_ms)
            elif name == "remove" and model.jobs:
                id = sorted(model.jobs)[int(str(given[0])) % len(model.jobs)]
                job = life.jobs.find(id)
                assert job is not None
                life.jobs.remove(job)
                del model.jobs[id]
            elif name == "crash":
                life.crash()
                model = deepcopy(committed)
                model.end()
            elif name in ("settle", "restart"):
                life.world.settle()
                if name == "restart":
                    life.restart()
                    model.end()
                committed = deepcopy(model)
            assert {job.id: (job.due_ms, job.left) for job in life.jobs.all()} == {
                id: (job.due_ms, job.left) for id, job in model.jobs.items()
            }
            assert Counter(map(str, life.waiting())) == model.sent
        life.world.settle()
        life.world.audit()
        life.world.crash()
        assert check_folder(folder) == []
        assert life.now_ms >= START_MS
    finally:
        life.world.crash()
        shutil.rmtree(folder)
