"""The brokers that the scenarios run against, and the build of the scenarios for each generation of the client.

A peer is started in a folder that keeps its data, so that it can be stopped and started again. Everything comes from
Maven Central, which keeps what it downloaded: only the first run waits for it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests.interop.broker_process import launch
from tests.interop.java_server import HOST, free_port, running
from tests.interop.maven import one_maven

HERE: Final = Path(__file__).parent
ARTEMIS: Final = "2.44.0"
UNPACK: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
HEAP: Final = "-Xmx512m"
EVERYTHING: Final = ".*"
BROKER_JARS: Final = ("activemq-broker", "activemq-jaas", "activemq-kahadb")
"""Applications do not have them: an exception that the client cannot load becomes another."""
BUILD_TIMEOUT_S: Final = 300
RUN_TIMEOUT_S: Final = 240

USERS: Final = "admin = secret\nreader = secret\n"
ROLES: Final = "admins = admin\nreaders = reader\n"

Folder = Path
Start = Callable[[Folder], AbstractContextManager[str]]


class Unavailable(Exception):
    """A tool or a download is missing; the text says which."""


@frozen
class Generation:
    """A line of releases of the client: 5.18 has JMS in `javax`, 6.1 in `jakarta`."""

    name: str
    version: str
    package: str


CLASSIC_5: Final = Generation("javax", "5.18.7", "javax.jms")
CLASSIC_6: Final = Generation("jakarta", "6.1.7", "jakarta.jms")


@frozen
class Build:
    """Compiled scenarios with the jars that they need."""

    folder: Path

    def java(self, *arguments: str, without: tuple[str, ...] = ()) -> list[str]:
        """The command that runs one of the classes, without jars whose names begin like this."""
        target = self.folder / "target"
        jars = sorted(jar for jar in target.glob("jars/*.jar") if not jar.name.startswith(without))
        path = ":".join(map(str, (target / "classes", *jars)))
        return ["nice", "java", HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, *arguments]

    def run(self, url: str, scenarios: str, phase: str) -> dict[str, dict[str, Any]]:
        """Run scenarios in one process; what each saw, by its name. Raises AssertionError for one that failed."""
        return self.run_class("interop.Main", url, scenarios, phase)

    def run_class(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Run one class; what it saw in each scenario. Raises AssertionError if one failed."""
        command = self.java(*arguments, without=BROKER_JARS)
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        failed = [
            f"{line['scenario']} saw {line['seen']} and then\n{line['failed']}" for line in lines if "failed" in line
        ]
        assert not failed, "\n".join(failed)
        return {line["scenario"]: line["seen"] for line in lines}


def observe(scenarios: Build, start: Start, folder: Path, names: str = EVERYTHING) -> dict[str, dict[str, Any]]:
    """Run scenarios against a broker, stop it, start it again, and run those that look at what is left.

    Raises AssertionError if one failed; a refusal by the broker is an observation, not a failure.
    """
    seen: dict[str, dict[str, Any]] = {}
    for phase in ("before", "after"):
        with start(folder) as url:
            seen.update(scenarios.run(url, names, phase))
    return {name: observations for name, observations in seen.items() if observations}


def _maven(folder: Path, *arguments: str) -> None:
    """Run Maven; raises Unavailable when it is missing or cannot download."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    command = ["nice", "mvn", "-q", "-B", *arguments]
    with one_maven():
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    if done.returncode != 0:
        if "COMPILATION ERROR" in done.stdout:
            raise AssertionError(done.stdout)
        reason = next((line for line in done.stdout.splitlines() if "[ERROR]" in line), done.stdout)
        raise Unavailable(f"Maven: {reason}")


def build(generation: Generation, folder: Path) -> Build:
    """Compile a copy of the scenarios in `folder`, with the package of JMS that this generation has."""
    shutil.copy(HERE / "pom.xml", folder)
    shutil.copytree(HERE / "src", folder / "src")
    for source in folder.glob("src/main/java/interop/*.java"):
        source.write_text(source.read_text(encoding="utf-8").replace(CLASSIC_5.package, generation.package))
    return compiled(folder, f"-Dactivemq.version={generation.version}")


def compiled(folder: Path, *options: str) -> Build:
    """Compile the Maven project in `folder`; raises Unavailable."""
    _maven(folder, *options, "compile", "dependency:copy-dependencies")
    return Build(folder)


@contextmanager
def _serving(command: list[str], port: int, folder: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    with running(command, port, folder, environment):
        yield f"tcp://{HOST}:{port}"


def classic(scenarios: Build) -> Start:
    """ActiveMQ Classic of the client's own version, in a small Java program of ours."""

    def start(folder: Path) -> AbstractContextManager[str]:
        port = free_port()
        return _serving(scenarios.java("interop.ClassicBroker", str(port), str(folder / "data")), port, folder)

    return start


def artemis_distribution(folder: Path) -> Path:
    """Unpack Apache Artemis; raises Unavailable."""
    artifact = f"org.apache.activemq:apache-artemis:{ARTEMIS}:tar.gz:bin"
    _maven(folder, UNPACK, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    return folder / f"apache-artemis-{ARTEMIS}"


def _configure(etc: Path, port: int) -> None:
    text = (HERE / "broker.xml").read_text(encoding="utf-8").replace("{port}", str(port))
    (etc / "broker.xml").write_text(text, encoding="utf-8")
    (etc / "artemis-users.properties").write_text(USERS, encoding="utf-8")
    (etc / "artemis-roles.properties").write_text(ROLES, encoding="utf-8")


def artemis(distribution: Path) -> Start:
    """Apache Artemis with the `broker.xml` beside this module."""

    def start(folder: Path) -> AbstractContextManager[str]:
        instance = folder / "instance"
        if not instance.exists():
            create = [
                *(str(distribution / "bin" / "artemis"), "create", str(instance), "--silent", "--host", HOST),
                *("--user", "admin", "--password", "secret", "--require-login", "--no-web", "--no-autotune", "--nio"),
            ]
            subprocess.run(create, check=True, stdout=subprocess.DEVNULL, timeout=BUILD_TIMEOUT_S)
        port = free_port()
        _configure(instance / "etc", port)
        environment = {**os.environ, "JAVA_ARGS": f"-Xms128M {HEAP} -XX:+UseSerialGC"}
        return _serving(["nice", str(instance / "bin" / "artemis"), "run"], port, instance, environment)

    return start


def ours(folder: Path) -> AbstractContextManager[str]:
    """This broker with the same `broker.xml`."""
    etc = folder / "etc"
    if not etc.exists():
        etc.mkdir()
        (folder / "data").mkdir()
    _configure(etc, 0)
    return _ours(folder)


@contextmanager
def _ours(folder: Path) -> Iterator[str]:
    process = launch(folder)
    try:
        yield f"tcp://{process.host}:{process.port}"
    except BaseException:
        process.kill()
        raise
    process.stop()
