"""`artemis-py perf`: put a broker under load, measure rate and latency, verify that nothing is lost or out of order."""

import asyncio
import os
from typing import Any

import click

from artemis_amqp.client.failures import ClientError, ConnectionFailed
from artemis_py.cli.client import default_host_options, parse_destination
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.load import SMALLEST_SIZE, Plan, Run, Violation
from artemis_py.cli.load_amqp import AmqpRun
from artemis_py.cli.load_mqtt import MqttFailed, MqttRun
from artemis_py.cli.render import Progress, print_json


def report(figures: dict[str, Any], failure: str | None) -> str:
    """Format the results for people."""
    latency = ", ".join(f"{name} {value:.3f} ms" for name, value in figures["latency_ms"].items())
    verdict = "every message once and in order" if failure is None else f"FAILED: {failure}"
    return (
        f"received {figures['received']} of {figures['wanted']} messages in {figures['seconds']:.2f} s, "
        f"{figures['received_per_s']:,.0f}/s\n"
        f"from send to receipt: {latency}\n"
        f"verified: {verdict}"
    )


@click.command()
@default_host_options
@click.option("--destination", default="queue://PERF", show_default=True, help="queue://X or topic://X; must be empty.")
@click.option("--count", type=click.IntRange(min=1), default=100_000, show_default=True, help="Messages in all.")
@click.option("--size", type=click.IntRange(min=SMALLEST_SIZE), default=100, show_default=True, help="Octets per body.")
@click.option("--producers", type=click.IntRange(1, 1000), default=1, show_default=True, help="One connection each.")
@click.option("--consumers", type=click.IntRange(1, 1000), default=1, show_default=True, help="One connection each.")
@click.option("--durable", is_flag=True, help="Send durable messages, which survive a restart.")
@click.option("--settled", is_flag=True, help="Fire and forget: neither side acknowledges.")
@click.option(
    "--window", type=click.IntRange(min=1), default=1000, show_default=True, help="Unconfirmed messages per producer."
)
@click.option(
    "--credit",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Messages sent ahead to each consumer.",
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Messages per second; default: as many as possible."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Give up when no message came for this many seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--protocol",
    type=click.Choice(["amqp", "mqtt"]),
    default="amqp",
    show_default=True,
    help="MQTT (3.1.1) needs topic://X; its QoS takes the place of --durable and --settled, and X may have slashes.",
)
@click.option("--qos", type=click.IntRange(0, 2), default=1, show_default=True, help="QoS of MQTT messages.")
def perf(destination: str, as_json: bool, **options: Any) -> None:
    """Measure a broker: rate, time from send to receipt, order and completeness.

    The exit code is 1 if a message was lost, came twice or out of order.
    """
    address, capability = parse_destination(destination)
    if options["protocol"] == "mqtt":
        if capability != "topic":
            raise click.UsageError("--protocol mqtt measures topics: name one with --destination topic://X")
        options |= {"settled": options["qos"] == 0, "durable": options["qos"] > 0}
    run_id = int.from_bytes(os.urandom(4), "big")
    plan = Plan(address=address, capability=capability or "queue", run=run_id, **options)
    figures, failure = asyncio.run(_measure(plan))
    if as_json:
        print_json(figures | {"failure": failure})
    else:
        click.echo(report(figures, failure))
    if failure is not None:
        raise click.exceptions.Exit(Failed.exit_code)


async def _measure(plan: Plan) -> tuple[dict[str, Any], str | None]:
    """Run a load; return the results, and what was wrong or None. Raises NotConnected or Failed."""
    run: Run = MqttRun(plan) if plan.protocol == "mqtt" else AmqpRun(plan)
    with Progress("received", run.ledger.wanted) as progress:
        try:
            await run.measure(progress)
        except Violation as violation:
            return run.figures(), str(violation)
        except ConnectionFailed as error:
            if error.condition == "amqp:unauthorized-access":
                raise Failed(f"{plan.target.url}: login refused: {error}") from None
            raise NotConnected(f"{plan.target.url}: {error}") from None
        except OSError as error:
            raise NotConnected(f"{plan.target.url}: {error}") from None
        except (ClientError, MqttFailed) as error:
            raise Failed(f"{plan.address}: {error}") from None
    return run.figures(), None
