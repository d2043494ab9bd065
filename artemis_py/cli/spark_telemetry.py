"""`artemis-py spark telemetry`: aggregate the measurements of devices in time windows."""

from datetime import UTC, datetime
from pathlib import Path

import click
from attrs import asdict

from artemis_py.cli.client import Target
from artemis_py.cli.spark_job import (
    PAGE,
    Start,
    as_json,
    checkpoint_option,
    connection_options,
    every,
    in_a_folder,
    running_job,
    session_options,
    source_options,
    tell_done,
)


@click.command()
@session_options
@click.option("--address", required=True, help="Addresses, separated by commas.")
@click.option("--subscription", required=True, help="Name under which the broker keeps messages for this job.")
@click.option("--selector", help="Only messages that match.")
@click.option("--device", default="address", show_default=True, help="$.path, property:NAME, address or address:N.")
@click.option("--value", default="$.value", show_default=True, help="Path of the number in the body.")
@click.option("--time", "time_path", help="Path of the time in the body [default: when the message arrived].")
@click.option("--window", default="1 minute", show_default=True)
@click.option("--slide", help="[default: the window]")
@click.option("--watermark", default="2 minutes", show_default=True, help="How late a measurement may be.")
@click.option(
    "--agg",
    "more",
    multiple=True,
    metavar="NAME=SQL",
    help="Further aggregate: p95=percentile_approx(value, 0.95).",
)
@click.option("--alert", "rules", multiple=True, help="NAME=CONDITION on the columns of a window; repeatable.")
@click.option("--alert-to", help="Address of alerts.")
@click.option("--out", required=True, help="Folder of the windows.")
@checkpoint_option
@click.option("--report", type=PAGE, callback=in_a_folder, help="HTML file to write at the end.")
@every
@as_json
# Long because click passes each option as a parameter.
def telemetry(
    target: Target,
    start: Start,
    address: str,
    subscription: str,
    selector: str | None,
    device: str,
    value: str,
    time_path: str | None,
    window: str,
    slide: str | None,
    watermark: str,
    more: tuple[str, ...],
    rules: tuple[str, ...],
    alert_to: str | None,
    out: str,
    checkpoint: str | None,
    report: Path | None,
    every: float | None,
    json_wanted: bool,
) -> None:
    """Aggregate measurements in windows, to Parquet files and, as alerts, to an address."""
    source = source_options(target, address, subscription, None, selector, None)
    with running_job("aggregated", start) as (session, progress):
        from artemis_py.spark.jobs import telemetry as job
        from artemis_py.spark.jobs import telemetry_report

        options = job.TelemetryOptions(
            path=out,
            checkpoint=checkpoint,
            device=device,
            value=value,
            time=time_path,
            window=window,
            slide=slide,
            watermark=watermark,
            aggregates=job.aggregates(more),
            alerts=job.rules(rules),
            alert_address=alert_to,
            interval_s=every,
        )
        done = job.telemetry(session, source, connection_options(target), options, progress)
        if report is not None:
            found = telemetry_report.overview(job.read_windows(session, out, options.aggregates), options.alerts)
            text = telemetry_report.render(f"Telemetry of {address}", found, datetime.now(UTC))
            report.write_text(text, encoding="utf-8")
    tell_done("aggregated", done.messages, progress.elapsed_s, {**asdict(done), "path": out}, json_wanted)
    if not json_wanted:
        click.echo(
            f"{done.windows} windows written, {done.alerts} alerts sent; passed over: {done.unusable} without device, "
            f"number or time; too late for {done.late} windows",
            err=True,
        )
