"""`artemis-py spark lag`: how far a streaming query is behind. It needs neither PySpark nor Java."""

from typing import Final

import click
from attrs import asdict

from artemis_py.cli.client import Target, target_options
from artemis_py.cli.render import print_json, print_table
from artemis_py.cli.spark_job import as_json, connection_options, connector_errors, names

COLUMNS: Final = {
    "address": "ADDRESS",
    "queue": "QUEUE",
    "position": "READ UP TO",
    "end": "END",
    "behind": "BEHIND",
    "waiting": "WAITING",
    "note": "NOTE",
}


@click.command()
@target_options
@click.option("--checkpoint", help="Folder of the query's checkpoint.")
@click.option("--address", help="Addresses, separated by commas; with --subscription.")
@click.option("--subscription", help="Name under which the broker keeps messages for the query.")
@click.option("--queue", help="Queues, separated by commas.")
@click.option("--max-behind", type=click.IntRange(min=0), help="End with exit code 1 if a queue is further behind.")
@as_json
def lag(
    target: Target,
    checkpoint: str | None,
    address: str | None,
    subscription: str | None,
    queue: str | None,
    max_behind: int | None,
    json_wanted: bool,
) -> None:
    """Show how many messages a query has not read yet.

    With --checkpoint, counted from the last batch that the query has committed; else from the first message that is not
    acknowledged.
    """
    if (checkpoint is not None) + (address is not None) + (queue is not None) != 1:
        raise click.UsageError("give --checkpoint, --address with --subscription, or --queue")
    if (address is None) != (subscription is None):
        raise click.UsageError("give --address and --subscription together")
    # Imported here, because the other commands do without a client for AMQP.
    from artemis_py.spark.lag import committed, heads_of, lags
    from artemis_py.spark.offsets import Offset, names_of
    from artemis_py.spark.options import connection_of

    with connector_errors():
        options = connection_of(connection_options(target))
        offset = Offset()
        if checkpoint is not None:
            batch, offset = committed(checkpoint)
            wanted = ["::".join(names_of(key)) for key in offset.positions]
            if batch < 0:
                raise click.ClickException(f"{checkpoint} has no committed batch yet")
        elif address is not None:
            wanted = [f"{subscription}.{name}:global" for name in names(address)]
        else:
            wanted = list(names(queue or ""))
        found = lags(offset, heads_of(options, wanted))
    rows = [asdict(one) for one in found]
    print_json(rows) if json_wanted else print_table(rows, COLUMNS)
    unknown = len(wanted) - sum(one.end is not None for one in found)
    if unknown:
        click.echo(f"{unknown} of {len(wanted)} queues are not at this broker", err=True)
    if unknown or (max_behind is not None and any((one.behind or 0) > max_behind for one in found)):
        raise click.exceptions.Exit(1)
