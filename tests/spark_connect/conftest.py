"""A server of Spark Connect as an administrator starts it, in a process of its own, and a broker."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artemis_py.spark.errors import MissingRequirement
from artemis_py.spark.requirements import check_java, check_packages
from tests.interop.broker_process import BrokerProcess, Instance, start_broker
from tests.interop.java_server import HOST, free_port, running


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Of all processes of Spark. Skips, and says why, without Java, PySpark or its extra `connect`."""
    try:
        check_packages()
        check_java()
    except MissingRequirement as missing:
        pytest.skip(str(missing))
    for package in ("grpc", "pandas", "nbclient"):
        pytest.importorskip(package)
    import pyspark_artemis

    # Workers would take the first python3 on the path, and Spark's search does not see an editable installation.
    installed = str(Path(pyspark_artemis.__file__).parents[1])
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": installed}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that keeps messages on disk."""
    process = start_broker(Instance(persistence="true"), tmp_path_factory.mktemp("broker"))
    yield process
    process.stop()


@pytest.fixture(scope="session")
def server(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server on two cores."""
    from pyspark.find_spark_home import _find_spark_home

    folder = tmp_path_factory.mktemp("connect")
    port = free_port()
    command = [
        *(str(Path(_find_spark_home()) / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", f"spark.connect.grpc.binding.address={HOST}"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.ui.enabled=false", "--conf", f"spark.local.dir={folder}"),
        *("--conf", f"spark.sql.warehouse.dir={folder}", "spark-internal"),
    ]
    with running(command, port, folder, environment):
        yield f"sc://{HOST}:{port}"
