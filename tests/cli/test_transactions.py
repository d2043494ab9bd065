"""`transaction` against a broker that finds prepared branches in its store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.session import Session
from tests.cli.conftest import Outcome, run_command
from tests.core_harness import Recorder
from tests.interop.broker_process import BrokerProcess, Instance, launch
from tests.unit.store.world import World

ONE, OTHER = Xid(1, b"global", b"one"), Xid(1, b"global", b"other")


def prepare(journal: Path) -> None:
    """Two branches: each sends a message to q and settles one of p."""
    with World(journal) as world:
        world.queue("q")
        world.queue("p")
        world.send("p", "p1", "p2", "p3")
        session = Session(world.domain, Subject("tester"), "client")
        recorder = Recorder()
        session.consume(world.queue("p"), recorder).grant(2)
        world.settle()
        for xid, reference in zip((ONE, OTHER), recorder.take(), strict=True):
            transaction = world.services.branches.start(session, xid)
            transaction.settle(reference, ACCEPTED)
            session.producer("q").send(plain_message("q", MessageView(body=str(xid)), True), transaction)
            world.services.branches.prepare(session, xid)
        session.close()
        world.settle()
        world.stop()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    Instance(persistence="true").write(tmp_path)
    prepare(tmp_path / "data" / "journal")
    return tmp_path


@pytest.fixture
def process(directory: Path) -> Iterator[BrokerProcess]:
    process = launch(directory)
    yield process
    process.kill()


def artemis(process: BrokerProcess, *arguments: str) -> Outcome:
    return run_command(*arguments, ARTEMIS_PY_URL=process.url)


def test_prepared_transactions_are_listed_and_ended_and_the_outcome_survives(
    process: BrokerProcess, directory: Path
) -> None:
    """What is in doubt is delivered to nobody; a commit and a rollback bring each its own half."""
    in_doubt = artemis(process, "consumer", "--destination", "p", "--receive-timeout", "300").lines
    listed = artemis(process, "transaction", "list", "--json").json()
    heading, first, _ = artemis(process, "transaction", "list").lines
    committed = artemis(process, "transaction", "commit", ONE.text).lines
    process.kill()
    again = launch(directory)
    rolled_back = artemis(again, "transaction", "rollback", OTHER.text).lines
    refused = artemis(again, "transaction", "commit", OTHER.text)
    outcomes = artemis(again, "transaction", "list", "--json").json()
    in_q = artemis(again, "consumer", "--destination", "q", "--receive-timeout", "300").lines
    in_p = artemis(again, "consumer", "--destination", "p", "--receive-timeout", "300").lines
    forgotten = [artemis(again, "transaction", "forget", xid.text).lines for xid in (ONE, OTHER)]
    unknown = artemis(again, "transaction", "forget", ONE.text)
    left = artemis(again, "transaction", "list", "--json").json()
    again.stop()

    assert in_doubt == ["p3"]
    assert [each["xid_as_base64"] for each in listed["prepared"]] == [ONE.text, OTHER.text]
    assert [(each["messages"], each["acknowledgements"]) for each in listed["prepared"]] == [(1, 1), (1, 1)]
    assert heading.split()[:2] == ["ID", "STATE"]
    assert first.split()[:2] == [ONE.text, "prepared"]
    assert committed == [f"committed: transaction {ONE.text}"]
    assert rolled_back == [f"rolled back: transaction {OTHER.text}"]
    assert (refused.code, f"no transaction {OTHER.text} is prepared" in refused.err) == (1, True)
    assert outcomes == {"prepared": [], "committed": [ONE.text], "rolledBack": [OTHER.text]}
    assert (in_q, in_p) == ([str(ONE)], ["p2"])
    assert forgotten == [[f"forgotten: transaction {xid.text}"] for xid in (ONE, OTHER)]
    assert (unknown.code, left) == (1, {"prepared": [], "committed": [], "rolledBack": []})
