"""Apache Artemis as users have it: its distribution from Maven Central, an instance of its own, a process.

Maven keeps the download where it keeps all others, so that only the first run waits for it.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_py.spark.errors import MissingRequirement
from artemis_py.spark.requirements import check_java
from tests.interop.conftest import name as name
from tests.interop.java_server import HOST, free_port, running
from tests.interop.maven import one_maven
from tests.spark.conftest import spark as spark

ARTEMIS: Final = "2.40.0"
UNPACK: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
USER: Final = "admin"
PASSWORD: Final = "secret"

DOWNLOAD_TIMEOUT_S: Final = 300
CREATE_TIMEOUT_S: Final = 90


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive."""
    return unpacked_artemis(ARTEMIS, tmp_path_factory.mktemp("apache-artemis"))


def unpacked_artemis(version: str, folder: Path) -> Path:
    """A distribution of Artemis in a folder; skips as `unpacked` does."""
    unpacked("Apache Artemis", f"org.apache.activemq:apache-artemis:{version}:tar.gz:bin", folder)
    return folder / f"apache-artemis-{version}"


def unpacked(name: str, artifact: str, folder: Path) -> None:
    """Unpack an archive from Maven in a folder. Skips, and says why, without Maven, Java or the download."""
    try:
        check_java()
    except MissingRequirement as missing:
        pytest.skip(str(missing))
    if shutil.which("mvn") is None:
        pytest.skip("Maven (mvn) is not installed")
    command = ["mvn", "-q", "-B", UNPACK, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    with one_maven():
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S)
    if done.returncode != 0:
        reason = next((line for line in done.stdout.splitlines() if line.startswith("[ERROR]")), done.stdout)
        pytest.skip(f"{name} ({artifact}) cannot be had from Maven: {reason}")


def create(distribution: Path, instance: Path, port: int) -> list[str]:
    """Make an instance in a folder that does not exist; the command that becomes its broker, a single process."""
    command = [
        *(str(distribution / "bin" / "artemis"), "create", str(instance), "--silent", "--host", HOST),
        *("--user", USER, "--password", PASSWORD, "--require-login", "--default-port", str(port)),
        *("--no-web", "--no-autotune", "--nio", "--java-memory", "512M"),
        *("--no-amqp-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor", "--no-hornetq-acceptor"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=CREATE_TIMEOUT_S)
    return [str(instance / "bin" / "artemis"), "run"]


@pytest.fixture(scope="session")
def artemis(distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker that asks for a login and keeps messages on disk."""
    instance = tmp_path_factory.mktemp("instance") / "broker"
    port = free_port()
    with running(create(distribution, instance, port), port, instance):
        yield f"amqp://{HOST}:{port}"


@pytest.fixture
def login(artemis: str) -> dict[str, str]:
    """The options of every query against it."""
    return {"url": artemis, "user": USER, "password": PASSWORD}


@pytest.fixture
def drain(spark: Any, login: dict[str, str]) -> Callable[..., Any]:
    """Take a queue out, with these options besides; the rows."""

    def frame(queue: str, schema: str | None = None, **options: object) -> Any:
        reader = spark.read.format("amqp").options(**login, mode="drain", queue=queue, **options)
        return (reader if schema is None else reader.schema(schema)).load()

    return frame


@pytest.fixture
def write(login: dict[str, str]) -> Callable[..., None]:
    """Append a frame to a queue, with these options besides."""

    def run(frame: Any, queue: str, **options: object) -> None:
        sink = {"address": queue, "routingType": "anycast", **options}
        frame.write.format("amqp").options(**login, **sink).mode("append").save()

    return run
