"""`artemis-py message`: work on the messages of a queue."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.connection import Connection
from artemis_py.cli.errors import Failed
from artemis_py.cli.listing import moment
from artemis_py.cli.live_names import queue_names
from artemis_py.cli.manage import Management, Request
from artemis_py.cli.render import Progress, print_json, print_table, say

Command = Callable[..., object]

COLUMNS: Final = {
    "messageID": "ID",
    "arrived": "SENT",
    "size": "BYTES",
    "priority": "PRIORITY",
    "deliveryCount": "FAILED",
    "durable": "DURABLE",
    "from": "FROM",
    "cause": "CAUSE",
    "properties": "PROPERTIES",
}

PAST: Final = {
    "moveMessages": "moved",
    "copyMessages": "copied",
    "retryMessages": "sent back",
    "expireMessages": "expired",
    "removeMessages": "removed",
}


@click.group()
def message() -> None:
    """List, move, copy, retry, expire and remove the messages of a queue.

    Messages that a consumer has, or that wait for their time, are left alone. A message is named by its ID, which
    "list" shows.
    """


def _chosen(command: Command) -> Command:
    """Add the options that choose messages, and those about asking first."""
    for option in (
        click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text."),
        click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway."),
        click.option("--dry-run", is_flag=True, help="Only count them."),
        click.option("--message-count", type=click.IntRange(min=1), help="At most this many, in order of delivery."),
        click.option("--id", "number", type=click.IntRange(min=1), help="Only the message with this ID."),
        click.option("--filter", help="Selector: only messages that match."),
        click.argument("queue", shell_complete=queue_names),
        target_options,
    ):
        command = option(command)
    return command


@message.command("list")
@target_options
@click.argument("queue", shell_complete=queue_names)
@click.option("--filter", help="Selector: only messages that match.")
@click.option("--id", "number", type=click.IntRange(min=1), help="Only the message with this ID.")
@click.option("--max-rows", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
def list_command(
    target: Target, queue: str, filter: str | None, number: int | None, max_rows: int, json_wanted: bool
) -> None:
    """List the messages of QUEUE in the order of their delivery, without their bodies ("browse" shows those)."""
    rows: list[dict[str, Any]] = []
    with Connection(target) as connection:
        work = _Work(Management(connection, target), queue, filter, number)
        place = None
        while len(rows) < max_rows:
            answer = work.part("listMessagesAsJSON", place, messageCount=max_rows - len(rows))
            rows += answer["messages"]
            place = answer["next"]
            if place is None:
                break
    if json_wanted:
        print_json({"messages": rows})
        return
    for row in rows:
        notes = row["annotations"]
        row["arrived"] = moment(row["timestamp"])
        row["from"] = notes.get("_AMQ_ORIG_QUEUE") or notes.get("_AMQ_ORIG_ADDRESS")
        row["cause"] = notes.get("_AMQ_DEATH_CAUSE")
        row["properties"] = [f"{name}={value}" for name, value in row["properties"].items()]
    print_table(rows, COLUMNS)


@message.command()
@_chosen
@click.argument("to", metavar="OTHER_QUEUE", shell_complete=queue_names)
def move(target: Target, queue: str, to: str, **choice: Any) -> None:
    """Move messages of QUEUE to OTHER_QUEUE; those that it does not take stay."""
    _treat(target, queue, "moveMessages", f"move %s from {queue} to {to}", choice, queue=to)


@message.command()
@_chosen
@click.argument("to", metavar="OTHER_QUEUE", shell_complete=queue_names)
def copy(target: Target, queue: str, to: str, **choice: Any) -> None:
    """Put copies of messages of QUEUE into OTHER_QUEUE."""
    _treat(target, queue, "copyMessages", f"copy %s from {queue} to {to}", choice, queue=to)


@message.command()
@_chosen
def retry(target: Target, queue: str, **choice: Any) -> None:
    """Send dead letters and expired messages of QUEUE back where they came from; others stay."""
    _treat(target, queue, "retryMessages", f"send %s from {queue} back where they came from", choice)


@message.command()
@_chosen
def expire(target: Target, queue: str, **choice: Any) -> None:
    """Send messages of QUEUE to the expiry address, as if their time were over."""
    _treat(target, queue, "expireMessages", f"expire %s of {queue}", choice)


@message.command()
@_chosen
def remove(target: Target, queue: str, **choice: Any) -> None:
    """Delete messages of QUEUE for good."""
    _treat(target, queue, "removeMessages", f"delete %s of {queue} for good", choice)


class _Work:
    """Requests on the chosen messages of one queue, a part at a time."""

    def __init__(self, management: Management, queue: str, filter: str | None, number: int | None) -> None:
        self._management: Final = management
        self._resource: Final = f"queue.{queue}"
        self._chosen: Final = {"filter": filter} if number is None else {"filter": filter, "messageID": number}

    def part(self, operation: str, place: object, **wanted: object) -> dict[str, Any]:
        """Treat the next part; `place` is `next` of the answer before, None at first. Raises Failed, NotConnected."""
        request = self._chosen | wanted | ({} if place is None else {"from": place})
        answer: dict[str, Any] = json.loads(self._management.call(Request(self._resource, operation, (request,))))
        return answer

    def total(self) -> int:
        """Return the number of messages in the queue."""
        return int(self._management.call(Request(self._resource, "getMessageCount")))


def _treat(target: Target, queue_name: str, operation: str, phrase: str, choice: Any, **wanted: object) -> None:
    """Count the chosen messages, ask if a person is there, then treat them and say what became of them."""
    limit: int | None = choice["message_count"]
    json_wanted: bool = choice["json_wanted"]
    with Connection(target) as connection:
        work = _Work(Management(connection, target), queue_name, choice["filter"], choice["number"])
        found, _ = _run(connection, work, "countMessages", "counted", work.total(), limit)
        if choice["dry_run"]:
            if json_wanted:
                print_json({"found": found})
            else:
                say(f"would {phrase % _messages(found)}")
            return
        if found and not choice["yes"] and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm(f"{phrase[0].upper()}{phrase[1:] % _messages(found)}?", abort=True, err=True)
        done, left_alone = (0, 0)
        if found:
            done, left_alone = _run(connection, work, operation, PAST[operation], found, limit, wanted)
    past = PAST[operation]
    if json_wanted:
        print_json({"found": found, "done": done, "leftAlone": left_alone})
    else:
        say(f"{past}: {_messages(done)}")
    if left_alone:
        raise Failed(f"{_messages(left_alone)} stayed in {queue_name}, because nothing takes them where they should go")


def _run(
    connection: Connection,
    work: _Work,
    operation: str,
    past: str,
    total: int,
    limit: int | None,
    wanted: dict[str, object] | None = None,
) -> tuple[int, int]:
    """Treat part after part until the end; return how many were treated and left alone.

    Raises Failed with the number so far if the broker refuses to go on, and after Ctrl-C.
    """
    done = left_alone = 0
    place: object = None
    started_at = time.monotonic()
    with Progress(past, total) as progress:
        while True:
            rest = {} if limit is None else {"messageCount": limit - done}
            try:
                answer = work.part(operation, place, **(wanted or {}), **rest)
            except click.Abort:
                raise Failed(f"interrupted: {past} at least {_messages(done)}") from None
            except Failed as failure:
                text = f"; {past} before that: {_messages(done)}" if done else ""
                raise Failed(f"{failure.message}{text}") from None
            done += answer["count"]
            left_alone += answer["leftAlone"]
            place = answer["next"]
            progress.show(done, time.monotonic() - started_at)
            if place is None or (limit is not None and done >= limit):
                return done, left_alone
            if connection.was_interrupted:
                raise Failed(f"interrupted: {past} {_messages(done)}, and the others are as they were")


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
