"""Completion of names that exist on the broker: queues and addresses. A broker that is slow completes nothing."""

import json
import os
from collections.abc import Callable
from typing import Final

import click

from artemis_py.cli.client import DEFAULT_URL, Target
from artemis_py.cli.manage import call

PATIENCE_S: Final = 0.4
"""Time for each answer of the broker: whoever presses Tab does not want to wait."""
MAX_PROPOSED: Final = 100

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(operation: str) -> Completer:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = context.params
        target = Target(
            url=given.get("url") or DEFAULT_URL,
            user=given.get("user"),
            password=given.get("password") or os.environ.get("ARTEMIS_PY_PASSWORD"),
            ca=given.get("ca"),
            timeout_s=PATIENCE_S,
            vhost=given.get("vhost"),
        )
        wanted = {"field": "name", "operation": "CONTAINS", "value": incomplete, "sortField": "name"}
        try:
            listed = json.loads(call(target, "broker", operation, wanted, 1, MAX_PROPOSED))
        except (click.ClickException, click.Abort, OSError, ValueError):
            return []
        # A shell must not act on what a client has put into a name.
        names = [row["name"] for row in listed["data"] if not row["hidden"]]
        return [name for name in names if name.startswith(incomplete) and name.isprintable()]

    return complete


queue_names: Final = _completer("listQueues")
address_names: Final = _completer("listAddresses")
