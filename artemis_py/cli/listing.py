"""Lists of the broker's management as tables, one page at a time."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import click

from artemis_py.cli.client import Target
from artemis_py.cli.manage import call
from artemis_py.cli.render import print_json, print_table

Command = Callable[..., None]


def list_options(command: Command) -> Command:
    """Add the options of a list: which page, how many rows, and JSON."""
    for option in (
        click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text."),
        click.option("--max-rows", type=click.IntRange(1, 1000), default=50, show_default=True),
        click.option("--page", type=click.IntRange(min=1), default=1, show_default=True),
    ):
        command = option(command)
    return command


def show_list(
    target: Target,
    operation: str,
    what: str,
    wanted: Mapping[str, object],
    columns: Mapping[str, str],
    page: int,
    max_rows: int,
    json_wanted: bool,
    times: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print a page of a list of the resource `broker`; say on standard error if there are more rows.

    `times` are the columns that show, as text, another field in milliseconds since 1970.
    """
    listed: dict[str, Any] = json.loads(call(target, "broker", operation, dict(wanted), page, max_rows))
    if json_wanted:
        print_json({what: listed["data"], "count": listed["count"]})
        return
    for row in listed["data"]:
        created_ms = row.get("creationTime") or row.get("connectionCreationTime") or row.get("connectedSince")
        if created_ms:
            row["since"] = moment(created_ms)
        row.update({column: moment(row[field]) for column, field in times.items()})
    print_table(listed["data"], columns)
    if listed["count"] > len(listed["data"]):
        click.echo(f"{listed['count']} {what} in all; --page and --max-rows show more", err=True)


def moment(milliseconds: int) -> str:
    """Return a time in milliseconds since 1970 as text, in UTC; empty for 0."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if milliseconds else ""
