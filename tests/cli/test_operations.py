"""The operator's hands: messages, connections, consumers, users, and what a command says when something is wrong."""

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from proton import Message
from proton.utils import BlockingConnection

from artemis_py.cli import main
from tests.cli.conftest import Command, Outcome
from tests.interop.broker_process import BrokerProcess, Instance


def run_here(*arguments: str, **variables: str) -> Outcome:
    """Run a command in this process, which takes a tenth of the time of a process of its own."""
    result = CliRunner(env=variables).invoke(main, list(arguments), prog_name="artemis-py")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def artemis(broker_process: BrokerProcess) -> Command:
    """Run a client command against the open broker."""
    return lambda *arguments, **variables: run_here(*arguments, ARTEMIS_PY_URL=broker_process.url, **variables)


def fill(artemis: Command, name: str, count: int, *arguments: str) -> None:
    """Send messages to a queue of its own."""
    assert artemis("producer", "--destination", f"queue://{name}", "--message-count", str(count), *arguments).code == 0


def test_messages_are_counted_listed_moved_and_removed(artemis: Command, name: str) -> None:
    fill(artemis, name, 3, "--property", "kind=a")
    fill(artemis, name, 2, "--property", "kind=b")
    artemis("queue", "create", f"{name}.other")
    planned = artemis("message", "move", name, f"{name}.other", "--filter", "kind = 'a'", "--dry-run")
    moved = artemis("message", "move", name, f"{name}.other", "--filter", "kind = 'a'", "--json").json()
    removed = artemis("message", "remove", name, "--id", "5")
    left = artemis("message", "list", name, "--json").json()["messages"]
    there = artemis("message", "list", f"{name}.other", "--max-rows", "2").lines

    assert planned.lines == [f"would move 3 messages from {name} to {name}.other"]
    assert moved == {"found": 3, "done": 3, "leftAlone": 0}
    assert removed.lines == ["removed: 1 message"]
    assert [(row["messageID"], row["properties"]) for row in left] == [(4, {"kind": "b"})]
    assert len(there) == 3
    assert "kind=a" in there[1]


def test_dead_letters_say_why_and_are_sent_back(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    fill(artemis, name, 1)
    connection = BlockingConnection(broker_process.url)
    receiver = connection.create_receiver(name)
    received: Message = receiver.receive(timeout=60)
    assert received.body == "message 1"
    receiver.reject()
    connection.close()
    mine = f"_AMQ_ORIG_QUEUE = '{name}'"
    (dead,) = artemis("message", "list", "DLQ", "--filter", mine, "--json").json()["messages"]
    retried = artemis("message", "retry", "DLQ", "--filter", mine)
    again = artemis("message", "list", name, "--json").json()["messages"]

    assert dead["annotations"]["_AMQ_DEATH_CAUSE"].startswith("rejected by its consumer")
    assert retried.lines == ["sent back: 1 message"]
    assert [row["annotations"] for row in again] == [{}]
    assert f"dead letters: queue={name} count=1 cause=rejected by its consumer" in broker_process.log_text()


def test_an_act_is_in_the_log(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    artemis("queue", "create", name)
    artemis("queue", "pause", name)

    assert re.search(
        rf"administration: user=anonymous peer=127\.0\.0\.1:\d+ resource=queue\.{re.escape(name)} operation=pause "
        r"parameters=\[\] result=None",
        broker_process.log_text(),
    )


def test_who_holds_messages_is_shown_and_cut_off(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    fill(artemis, name, 4)
    holder = BlockingConnection(broker_process.url)
    receiver = holder.create_receiver(name, credit=3)
    receiver.receive(timeout=60)
    shown = artemis("queue", "show", name, "--json").json()
    (consumer,) = artemis("consumer", "list", "--queue", name, "--json").json()["consumers"]
    peers = {
        row["connectionID"]: row["remoteAddress"]
        for row in artemis("connection", "list", "--json").json()["connections"]
    }
    closed = artemis("connection", "close", str(consumer["connectionID"]))
    after = artemis("queue", "show", name, "--json").json()
    holder.conn.close()

    assert (shown["queue"]["deliveringCount"], shown["consumers"][0]["oldestInTransit"]) == (3, 1)
    assert shown["nextMessage"]["messageID"] == 4
    assert shown["settings"]["dead-letter-address"] == {"value": "DLQ", "match": "#"}
    assert peers[consumer["connectionID"]] == consumer["remoteAddress"]
    assert closed.lines == [f"closed: connection {consumer['connectionID']}"]
    assert (after["queue"]["deliveringCount"], after["consumers"]) == (0, [])
    assert artemis("connection", "close", str(consumer["connectionID"])).code == 1


def test_a_consumer_says_that_its_queue_did_not_exist(artemis: Command, name: str) -> None:
    """A misspelt name gets no message, ever."""
    first = artemis("consumer", "--destination", f"queue://{name}", "--receive-timeout", "100")
    second = artemis("consumer", "--destination", f"queue://{name}", "--receive-timeout", "100")

    assert f"Warning: '{name}' did not exist, and was created" in first.err
    assert "Warning" not in second.err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("queue", "list", "--url", "amqp://nowhere.invalid"), 3, "nowhere.invalid"),
        (("producer", "--destination", "foo://x"), 2, "'foo://' is no kind of destination"),
        (("message", "move", "none-such", "DLQ"), 1, "queue 'none-such' does not exist"),
        (("message", "move", "DLQ", "DQL"), 0, "moved: 0 messages"),
        (("message", "remove", "DLQ", "--filter", "x ="), 1, "selector, character"),
        (("connection", "close"), 2, "name one of NUMBER"),
    ],
)
def test_mistakes_are_told_in_words(artemis: Command, arguments: tuple[str, ...], code: int, text: str) -> None:
    outcome = artemis(*arguments)

    assert (outcome.code, text in outcome.err + outcome.out) == (code, True)


def test_a_closed_pipe_ends_a_command_quietly(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    fill(artemis, name, 2000)
    command = [sys.executable, "-P", "-m", "artemis_py.cli", "browse", "--quiet", "--destination", name]
    with subprocess.Popen(
        [*command, "--url", broker_process.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "message 1\n"
        process.stdout.close()
        told = process.stderr.read()

    assert told == ""


@pytest.mark.parametrize("words", ["queue purge", "message list", "message move x"])
def test_names_on_the_broker_are_completed(artemis: Command, name: str, words: str) -> None:
    artemis("queue", "create", f"{name}.one")
    artemis("queue", "create", f"{name}.two")
    completion = {
        "_ARTEMIS_PY_COMPLETE": "bash_complete",
        "COMP_WORDS": f"artemis-py {words} {name}.",
        "COMP_CWORD": str(len(words.split()) + 1),
    }
    there = artemis(**completion)
    nowhere = run_here(**completion, ARTEMIS_PY_URL="amqp://127.0.0.1:1")

    assert there.out.splitlines() == [f"plain,{name}.one", f"plain,{name}.two"]
    assert (nowhere.out.strip(), nowhere.err) == ("", "")


def on_terminal(url: str, *arguments: str, answer: bytes = b"") -> str:
    """What a command prints on a terminal of 80 columns; `answer` is typed when it asks."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"ARTEMIS_PY_URL": url, "COLUMNS": "80", "LINES": "24", "TERM": "dumb"})
        os.execv(sys.executable, [sys.executable, "-P", "-m", "artemis_py.cli", *arguments])
    printed = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        printed += data
        if answer and printed.endswith(b"[y/N]: "):
            os.write(terminal, answer)
    os.waitpid(pid, 0)
    os.close(terminal)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode()).replace("\r\n", "\n")


def test_a_person_is_asked_first(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    fill(artemis, name, 2)
    declined = on_terminal(broker_process.url, "message", "remove", name, answer=b"n\n")
    kept = artemis("message", "remove", name, "--dry-run").lines
    agreed = on_terminal(broker_process.url, "message", "remove", name, answer=b"y\n")

    assert f"Delete 2 messages of {name} for good? [y/N]: n\nAborted!" in declined
    assert kept == [f"would delete 2 messages of {name} for good"]
    assert "removed: 2 messages" in agreed


def test_tables_fit_a_terminal_and_cut_no_words(artemis: Command, broker_process: BrokerProcess, name: str) -> None:
    long = f"{name}.a-rather-long-name-of-a-queue-as-people-choose-them"
    fill(artemis, long, 1)
    printed = on_terminal(broker_process.url, "queue", "list", "--name", name)

    assert long in printed
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_users_are_added_listed_and_removed(tmp_path: Path) -> None:
    """In the files of the instance, wherever its configuration has them."""
    Instance(users="olga = secret\n", roles="ops = olga\n").write(tmp_path)

    def user(command: str, *arguments: str) -> Outcome:
        return run_here("user", command, str(tmp_path), *arguments, ARTEMIS_PY_PASSWORD="secret")

    added = user("add", "nina", "--role", "ops")
    twice = user("add", "nina", "--role", "ops")
    listed = user("list", "--json").json()["users"]
    changed = user("passwd", "olga")
    removed = user("remove", "nina")

    assert added.lines[0].startswith("added: user nina with ops")
    assert (twice.code, "exists already" in twice.err) == (1, True)
    assert [row["user"] for row in listed] == ["nina", "olga"]
    assert (changed.code, removed.code) == (0, 0)
    assert "olga = ENC(" in (tmp_path / "etc" / "artemis-users.properties").read_text("utf-8")
