"""OpenWire side by side: this checkout compiled, ActiveMQ Classic and Apache Artemis, in one run.

    python benchmarks/openwire.py [--brokers classic,artemis,log,lmdb] [--clients lean,java] [--loads ...]
                                  [--rounds 3] [--seconds 2] [--builds FOLDER | --python PYTHON] [--json FILE]

`log` is this broker as it comes, `lmdb` without the write-ahead log. Needs Java 17 and Maven, which fetches both
partners. All brokers run through all rounds, so that Java has compiled what it needs; in each round every broker gets
the same load, one after the other, and a ratio is formed within a round. `lean` is openwire_load.py, which costs little
beside the broker; `java` is the genuine client (java/OpenWireLoad.java).
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from run import HERE, REPOSITORY, install, spread

sys.path[:0] = [str(REPOSITORY)]
from tests.interop.openwire import peers  # noqa: E402  the repository is no package

PARTNERS: Final = ("classic", "artemis")
OURS: Final = {"log": "true", "lmdb": "false"}
"""Our brokers, and what each has for `write-ahead-log`."""
BROKERS: Final = (*PARTNERS, *OURS)
CLIENTS: Final = ("lean", "java")
START_TIMEOUT_S: Final = 120.0
WARM_UP_S: Final = 8.0
"""Load for each broker and each load before anything is measured: Java compiles in the meantime."""
FANOUT: Final = 10
BATCH: Final = 100


@frozen(kw_only=True)
class Load:
    """One load: a producer, and consumers of a queue or a topic."""

    consumers: int = 1
    is_topic: bool = False
    is_subscribed: bool = False
    """Whether each consumer of the topic has a durable subscription."""
    is_durable: bool = False
    is_sync: bool = False
    """Whether each message waits for the answer to the one before, as the Java client has persistent ones do."""
    batch: int = 0
    """Messages of a transaction, on both sides; 0: none."""

    def flags(self) -> dict[str, bool]:
        """What is true of it."""
        return {
            "topic": self.is_topic,
            "subscribed": self.is_subscribed,
            "durable": self.is_durable,
            "sync": self.is_sync,
        }


LOADS: Final = {
    "queue 1:1": Load(),
    "queue 1:1 persistent": Load(is_durable=True, is_sync=True),
    "queue 1:1 persistent, async": Load(is_durable=True),
    "topic 1:10": Load(consumers=FANOUT, is_topic=True),
    "topic 1:10 persistent": Load(consumers=FANOUT, is_topic=True, is_durable=True, is_sync=True),
    "topic 1:10 durable subscriptions": Load(
        consumers=FANOUT, is_topic=True, is_subscribed=True, is_durable=True, is_sync=True
    ),
    "topic 1:10 durable subscriptions, async": Load(
        consumers=FANOUT, is_topic=True, is_subscribed=True, is_durable=True
    ),
    "queue 1:1 transacted": Load(batch=BATCH),
    "queue 1:1 transacted, persistent": Load(is_durable=True, batch=BATCH),
}

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>benchmark</name>
    <persistence-enabled>true</persistence-enabled>
    <security-enabled>false</security-enabled>
    {journal}
    <acceptors>
      <acceptor name="openwire">tcp://127.0.0.1:{port}?protocols=OPENWIRE</acceptor>
    </acceptors>
    <address-settings>
      <address-setting match="#"><max-size-bytes>256Mb</max-size-bytes></address-setting>
    </address-settings>
  </core>
</configuration>
"""
NIO: Final = "<journal-type>NIO</journal-type>"


class Failed(Exception):
    """A client found a broker wrong, or did not come to its end."""


class Broker:
    """A broker process that accepts connections."""

    def __init__(self, name: str, folder: Path, command: Callable[[Path, int], list[str]]) -> None:
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                command(folder, self.port), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._accepts():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"{name} did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.1)

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """SIGKILL: nothing in here is wanted any more."""
        self.process.kill()
        self.process.wait()


class Bench:
    """What brokers and clients are started with."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.python = python
        scenarios = folder / "scenarios"
        scenarios.mkdir()
        self._build = peers.build(peers.CLASSIC_5, scenarios)
        self._distribution = folder
        jars = self._build.folder.glob("target/jars/*.jar")
        self._jars = ":".join(str(jar) for jar in sorted(jars))

    def commands(self) -> dict[str, Callable[[Path, int], list[str]]]:
        """Return how each broker is started in a folder, at a port."""
        ours = {name: partial(self._ours, log) for name, log in OURS.items()}
        return {"classic": self._classic, "artemis": self._artemis, **ours}

    def _java(self, program: str) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return ["java", "-Xmx1g", quiet, "-cp", self._jars, str(HERE / "java" / f"{program}.java")]

    def _classic(self, folder: Path, port: int) -> list[str]:
        return [*self._java("ClassicBroker"), str(port), str(folder / "data")]

    def _artemis(self, folder: Path, port: int) -> list[str]:
        distribution = peers.artemis_distribution(self._distribution)
        instance = folder / "instance"
        create = [str(distribution / "bin" / "artemis"), "create", str(instance), "--silent", "--no-autotune", "--nio"]
        create += ["--allow-anonymous", "--user", "admin", "--password", "secret", "--no-web"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        configuration = CONFIGURATION.format(port=port, journal=NIO)
        (instance / "etc" / "broker.xml").write_text(configuration, encoding="utf-8")
        return [str(instance / "bin" / "artemis"), "run"]

    def _ours(self, log: str, folder: Path, port: int) -> list[str]:
        for name in ("etc", "data"):
            (folder / name).mkdir()
        journal = f"<write-ahead-log>{log}</write-ahead-log>"
        (folder / "etc" / "broker.xml").write_text(CONFIGURATION.format(port=port, journal=journal), encoding="utf-8")
        for file in ("artemis-users.properties", "artemis-roles.properties"):
            (folder / "etc" / file).write_text("", encoding="utf-8")
        return [str(self.python.parent / "artemis-py"), "run", str(folder)]

    def load(self, client: str, broker: Broker, name: str, warm_up: float, seconds: float) -> dict[str, float]:
        """Run a load once. Raises Failed."""
        load = LOADS[name]
        flags = [flag for flag, is_set in load.flags().items() if is_set]
        if client == "java":
            command = [*self._java("OpenWireLoad"), str(broker.port), str(broker.process.pid), str(load.consumers)]
            command += [str(load.batch), str(warm_up), str(seconds), *flags]
        else:
            command = [str(self.python), str(HERE / "openwire_load.py"), "--port", str(broker.port)]
            command += ["--pid", str(broker.process.pid), "--batch", str(load.batch)]
            command += ["--consumers", str(load.consumers), "--warm-up", str(warm_up), "--seconds", str(seconds)]
            command += [f"--{flag}" for flag in flags]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120 + warm_up + seconds)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{broker.name}, {name}: no end") from error
        if done.returncode:
            raise Failed(f"{broker.name}, {name}: {done.stderr.strip()[-2000:]}")
        result: dict[str, float] = json.loads(done.stdout)
        return result


def measure(bench: Bench, brokers: list[Broker], client: str, name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """All rounds of one load: figures by broker, and what each of ours takes of each partner's CPU."""
    taken: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in brokers}
    failures: dict[str, str] = {}
    for number in range(-1, rounds):
        for broker in brokers if number % 2 else brokers[::-1]:
            if broker.name in failures:
                continue
            print(f"{client}, {name}: {broker.name}, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            try:
                is_java = broker.name in PARTNERS or client == "java"
                warm_up = WARM_UP_S if number < 0 and is_java else 4.0 if client == "java" else 1.0
                figures = bench.load(client, broker, name, warm_up, seconds if number >= 0 else 0.5)
            except Failed as error:
                failures[broker.name] = str(error)
                print(error, file=sys.stderr)
                continue
            if number >= 0:
                taken[broker.name].append(figures)
    results: dict[str, Any] = {broker: {"failure": why} for broker, why in failures.items()}
    for broker_name, values in taken.items():
        if broker_name in failures or not values:
            continue
        results[broker_name] = {key: spread([each[key] for each in values]) for key in values[0]}
        for partner in PARTNERS if broker_name in OURS else ():
            if partner in taken and partner not in failures:
                pairs = zip(values, taken[partner], strict=True)
                results[broker_name][partner] = spread([ours["cpu_us"] / theirs["cpu_us"] for ours, theirs in pairs])
    return results


def print_results(results: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Markdown."""
    heads = ("client", "load", "broker", "CPU per delivered message (µs)", "client's", "messages/s", *PARTNERS)
    print(f"| {' | '.join(heads)} |")
    print("| --- " * len(heads) + "|")
    for client, loads in results.items():
        for load, brokers in loads.items():
            for name, values in brokers.items():
                row = f"| {client} | {load} | {name} |"
                if "failure" in values:
                    print(f"{row} failed: {values['failure']} | | | | |")
                    continue
                ratios = [values.get(partner) for partner in PARTNERS]
                texts = [
                    "" if ratio is None else "{min:.2f}, {median:.2f}, {max:.2f}".format(**ratio) for ratio in ratios
                ]
                print(
                    f"{row} {values['cpu_us']['median']:.2f} | {values['client_us']['median']:.2f} "
                    f"| {values['per_s']['median']:,.0f} | {' | '.join(texts)} |"
                )


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default=",".join(BROKERS))
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--loads", action="append", choices=LOADS, help="repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--builds", type=Path, help="folder that keeps the environment")
    parser.add_argument("--python", type=Path, help="of an environment with the broker compiled, in place of a new one")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if shutil.which("java") is None:
        raise SystemExit("java is not installed")
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.data) as temporary, ExitStack() as stack:
        folder = Path(temporary)
        python = options.python or install((options.builds or folder / "builds").resolve(), "compiled")
        bench = Bench(folder, python.absolute())
        commands = bench.commands()
        brokers = []
        for name in options.brokers.split(","):
            brokers.append(Broker(name, folder / name, commands[name]))
            stack.callback(brokers[-1].stop)
        for client in options.clients.split(","):
            results[client] = {}
            for name in options.loads or LOADS:
                results[client][name] = measure(bench, brokers, client, name, options.rounds, options.seconds)
                if options.json:
                    # After each load: a run takes long.
                    options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print_results(results)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
