"""`artemis-py spark`: run the jobs of `artemis_py.spark.jobs`, with a module for each kind."""

import click

from artemis_py.cli.spark_archive import archive, replay
from artemis_py.cli.spark_dlq import dlq
from artemis_py.cli.spark_lag import lag
from artemis_py.cli.spark_telemetry import telemetry


@click.group()
def spark() -> None:
    """Archive, replay, dead letters and telemetry with Apache Spark.

    All but lag need pip install 'artemis-py-broker[spark]', and Java 17.
    """


for command in (archive, replay, dlq, telemetry, lag):
    spark.add_command(command)
