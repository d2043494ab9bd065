"""`artemis-py transaction`: prepared transaction branches (XA) of a running broker."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import click

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.errors import Failed
from artemis_py.cli.manage import Request, call, call_all
from artemis_py.cli.render import print_json, print_table, say

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")

COLUMNS: Final = {
    "id": "ID",
    "state": "STATE",
    "prepared": "PREPARED",
    "user": "USER",
    "messages": "MESSAGES",
    "acknowledgements": "ACKNOWLEDGEMENTS",
    "addresses": "ADDRESSES",
}


@click.group()
def transaction() -> None:
    """List prepared transactions of a running broker, and end them in place of their transaction manager.

    End one only if its transaction manager is gone for good: other participants may decide otherwise. The broker keeps
    the outcome for a transaction manager that does come back, until that one, or "forget", discards it.
    """


@transaction.command("list")
@target_options
@as_json
def list_(target: Target, json_wanted: bool) -> None:
    """List prepared transactions, and the outcomes of those that an administrator has ended."""
    prepared, committed, rolled_back = call_all(
        target,
        [
            Request("broker", "listPreparedTransactionDetailsAsJSON"),
            Request("broker", "listHeuristicCommittedTransactions"),
            Request("broker", "listHeuristicRolledBackTransactions"),
        ],
    )
    found: list[dict[str, Any]] = json.loads(prepared)
    if json_wanted:
        print_json({"prepared": found, "committed": committed, "rolledBack": rolled_back})
        return
    rows: list[dict[str, object]] = [
        {
            "id": each["xid_as_base64"],
            "state": "prepared",
            "prepared": datetime.fromtimestamp(each["prepared_time"] / 1000, UTC).isoformat(" ", "seconds"),
            "user": each["user"],
            "messages": each["messages"],
            "acknowledgements": each["acknowledgements"],
            "addresses": each["addresses"],
        }
        for each in found
    ]
    rows += [{"id": id, "state": "committed by an administrator"} for id in committed]
    rows += [{"id": id, "state": "rolled back by an administrator"} for id in rolled_back]
    print_table(rows, COLUMNS)


@transaction.command()
@target_options
@click.argument("id")
@as_json
def commit(target: Target, id: str, json_wanted: bool) -> None:
    """Commit the prepared transaction ID, as "list" shows it."""
    _end(target, "commitPreparedTransaction", id, "committed", json_wanted)


@transaction.command()
@target_options
@click.argument("id")
@as_json
def rollback(target: Target, id: str, json_wanted: bool) -> None:
    """Roll the prepared transaction ID back."""
    _end(target, "rollbackPreparedTransaction", id, "rolled back", json_wanted)


@transaction.command()
@target_options
@click.argument("id")
@as_json
def forget(target: Target, id: str, json_wanted: bool) -> None:
    """Forget the outcome of the transaction ID, which an administrator has ended."""
    if not call(target, "broker", "forgetHeuristicTransaction", id):
        raise Failed(f"no outcome of transaction {id} is kept")
    _done("forgotten", id, json_wanted)


def _end(target: Target, operation: str, id: str, done: str, json_wanted: bool) -> None:
    if not call(target, "broker", operation, id):
        raise Failed(f"no transaction {id} is prepared")
    _done(done, id, json_wanted)


def _done(done: str, id: str, json_wanted: bool) -> None:
    if json_wanted:
        print_json({"transaction": id, "done": done})
    else:
        say(f"{done}: transaction {id}")
