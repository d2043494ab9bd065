"""A server of Spark Connect as an administrator starts it, in a process of its own, and a broker."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from artemis_py.spark.errors import MissingRequirement
from artemis_py.spark.requirements import check_java, check_packages
from tests.interop.broker_process import BrokerProcess, Instance, start_broker

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 180
STOP_TIMEOUT_S: Final = 30


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
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    command = [
        *(str(Path(_find_spark_home()) / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", f"spark.connect.grpc.binding.address={HOST}"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.ui.enabled=false", "--conf", f"spark.local.dir={folder}"),
        *("--conf", f"spark.sql.warehouse.dir={folder}", "spark-internal"),
    ]
    log = folder / "server.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        _wait_for(process, port, log)
        yield f"sc://{HOST}:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Spark Connect did not start\n{log.read_text(errors='replace')}") from None
            time.sleep(0.2)
