"""All benchmarks in one run: ours in pure Python and compiled, side by side with a broker on Proton's engine.

Installs this checkout twice into virtual environments of their own (once with ARTEMIS_PY_PURE=1), starts the three
brokers, and lets one client put the same load on each of them in turn, round after round. What counts are the ratios
within a round: everything else the machine does meets all three alike.

    python benchmarks/run.py [--rounds 5] [--seconds 2] [--builds FOLDER] [--json FILE]

`--builds` keeps the two environments for the next run; delete the folder after a change of the code.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

HERE: Final = Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parent

SCENARIOS: Final[dict[str, list[str]]] = {
    "1:1 settled": ["--settled"],
    "1:1 unsettled": [],
    "1:10 fan-out settled": ["--topic", "--consumers", "10", "--settled"],
    "1:10 fan-out unsettled": ["--topic", "--consumers", "10"],
    "10:10 settled": ["--producers", "10", "--consumers", "10", "--settled"],
    "10:10 unsettled": ["--producers", "10", "--consumers", "10"],
}
BROKERS: Final = ("proton", "pure", "compiled")
START_TIMEOUT_S: Final = 30.0
STARTS: Final = 5

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>benchmark</name>
    <persistence-enabled>{persistence}</persistence-enabled>
    <security-enabled>false</security-enabled>
    {core}
    <acceptors>
      <acceptor name="amqp">tcp://127.0.0.1:0?protocols=AMQP</acceptor>
    </acceptors>
    <address-settings>
      <address-setting match="#">
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
      </address-setting>
      {settings}
    </address-settings>
  </core>
</configuration>
"""


class Broker:
    """A broker process."""

    def __init__(
        self,
        name: str,
        python: Path,
        folder: Path,
        persistence: bool = False,
        settings: str = "",
        core: str = "",
        wrapper: tuple[str, ...] = (),
    ) -> None:
        """`settings`: more elements of `<address-settings>`, `core`: of `<core>`; `wrapper`: a command that runs it."""
        self.name = name
        self.folder = folder
        self.port_file = folder / "port"
        folder.mkdir(parents=True)
        if name == "proton":
            command: list[str | Path] = [python, HERE / "proton_broker.py", "--port-file", self.port_file]
        else:
            (folder / "etc").mkdir()
            (folder / "data").mkdir()
            (folder / "etc" / "broker.xml").write_text(
                CONFIGURATION.format(persistence=str(persistence).lower(), settings=settings, core=core),
                encoding="utf-8",
            )
            for file in ("artemis-users.properties", "artemis-roles.properties"):
                (folder / "etc" / file).write_text("", encoding="utf-8")
            command = [*wrapper, python.parent / "artemis-py", "run", folder, "--port-file", self.port_file]
        start = time.monotonic()
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while (port := self._read_port()) is None:
            if self.process.poll() is not None or time.monotonic() - start > START_TIMEOUT_S:
                self.process.kill()
                raise SystemExit(f"{name} did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.001)
        self.start_s = time.monotonic() - start
        self.port = port

    def _read_port(self) -> int | None:
        try:
            text = self.port_file.read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        return int(text) if text.endswith("\n") else None

    def stop(self) -> None:
        """SIGTERM; Proton's broker knows no better end."""
        self.process.terminate()
        self.process.wait()


def install(folder: Path, name: str) -> Path:
    """The Python of an environment with this checkout installed; made unless it is there."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        print(f"installing: {name}", file=sys.stderr, flush=True)
        venv.create(folder / name, with_pip=True)
        pure = "1" if name == "pure" else "0"
        environment = os.environ | {"ARTEMIS_PY_PURE": pure, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment.pop("PYTHONPATH", None)
        command: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"{REPOSITORY}[proton]",
        ]
        subprocess.run(command, env=environment, check=True)
    check = "import artemis_py.core.queues.queue as q; print(q.__file__)"
    file = subprocess.run([python, "-c", check], check=True, capture_output=True, text=True, cwd=folder).stdout
    if file.strip().endswith(".py") != (name == "pure"):
        raise SystemExit(f"the {name} build has {file.strip()}: is a C compiler missing?")
    return python


@contextmanager
def brokers(pythons: dict[str, Path], folder: Path) -> Iterator[list[Broker]]:
    """All three, started one after the other."""
    running = []
    try:
        for name in BROKERS:
            running.append(Broker(name, pythons[name], folder / name))
        yield running
    finally:
        for broker in running:
            broker.stop()


def load(python: Path, broker: Broker, arguments: list[str], seconds: float) -> dict[str, float]:
    """One run of the client. Raises SystemExit if it found the broker wrong."""
    command = [python, HERE / "load.py", "--port", broker.port, "--pid", broker.process.pid, "--seconds", seconds]
    done = subprocess.run([*map(str, command), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{broker.name}, {' '.join(arguments)}: {done.stderr}\n{(broker.folder / 'log').read_text()}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def spread(values: list[float]) -> dict[str, float]:
    """How a quantity came out over the rounds."""
    return {"min": min(values), "median": median(values), "max": max(values)}


def measure_load(
    pythons: dict[str, Path], folder: Path, names: list[str], rounds: int, seconds: float
) -> dict[str, object]:
    """Per scenario and broker: CPU per message, messages per second, and ratios to Proton's of the same round."""
    results: dict[str, object] = {}
    with brokers(pythons, folder) as running:
        for scenario in names:
            taken: dict[str, list[dict[str, float]]] = {name: [] for name in BROKERS}
            for number in range(rounds):
                print(f"{scenario}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
                for broker in running:
                    taken[broker.name].append(load(pythons["compiled"], broker, SCENARIOS[scenario], seconds))
            results[scenario] = {
                name: {
                    **{key: spread([each[key] for each in values]) for key in values[0]},
                    "cpu_ratio": spread(
                        [
                            proton["broker_cpu_us"] / each["broker_cpu_us"]
                            for proton, each in zip(taken["proton"], values, strict=True)
                        ]
                    ),
                }
                for name, values in taken.items()
            }
    return results


def measure_idle(pythons: dict[str, Path], folder: Path) -> dict[str, object]:
    """Start-up, memory when started, memory per connection."""
    results: dict[str, object] = {}
    for name in BROKERS:
        starts: list[float] = []
        resident: list[float] = []
        kib: dict[str, list[float]] = {"open": [], "link": []}
        for number in range(STARTS):
            # A process each: one that had connections before has their memory to reuse.
            for what, values in kib.items():
                broker = Broker(name, pythons[name], folder / f"{name}-{what}-{number}")
                starts.append(broker.start_s)
                resident.append(resident_mib(broker.process.pid))
                command = [pythons["compiled"], HERE / "idle.py", broker.port, broker.process.pid, what]
                done = subprocess.run([*map(str, command)], capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(f"{name}: {done.stderr}\n{(broker.folder / 'log').read_text()}")
                values.append(float(done.stdout))
                broker.stop()
        results[name] = {
            "start_s": spread(starts),
            "resident_mib": spread(resident),
            "connection_kib": spread(kib["open"]),
            "connection_with_link_kib": spread(kib["link"]),
        }
    return results


def resident_mib(pid: int) -> float:
    """Memory of a process that is in RAM."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def measure_flat(pythons: dict[str, Path], rounds: int) -> dict[str, object]:
    """The curves of flat.py for both builds."""
    results: dict[str, object] = {}
    for name in ("pure", "compiled"):
        print(f"costs against state: {name}", file=sys.stderr, flush=True)
        command = [str(pythons[name]), str(HERE / "flat.py"), "--rounds", str(rounds)]
        results[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return results


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=REPOSITORY)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip() or "unknown",
        "load_before": os.getloadavg()[0],
    }


def report(results: dict[str, dict[str, object]]) -> str:
    """The figures as Markdown."""
    lines = ["Machine: " + ", ".join(f"{name} {value}" for name, value in results["machine"].items()), ""]
    if "load" in results:
        lines += [
            "| scenario | broker | CPU per message (µs) | messages/s | CPU: Proton's / this one's (min, median, max) |",
            "| --- | --- | --- | --- | --- |",
        ]
        for scenario, by_broker in results["load"].items():
            for name, figures in by_broker.items():  # type: ignore[attr-defined]
                ratio = figures["cpu_ratio"]
                lines.append(
                    f"| {scenario} | {name} | {figures['broker_cpu_us']['median']:.2f} "
                    f"| {figures['messages_per_s']['median']:,.0f} "
                    f"| {ratio['min']:.1f}, {ratio['median']:.1f}, {ratio['max']:.1f} |"
                )
        lines.append("")
    if "idle" in results:
        lines += [
            "| broker | start (s) | resident (MiB) | open connection (KiB) | with session and consumer (KiB) |",
            "| --- | --- | --- | --- | --- |",
        ]
        for name, figures in results["idle"].items():
            columns = [
                f"{figures[key]['median']:.{digits}f}"  # type: ignore[index]
                for key, digits in (
                    ("start_s", 3),
                    ("resident_mib", 1),
                    ("connection_kib", 1),
                    ("connection_with_link_kib", 1),
                )
            ]
            lines.append(f"| {name} | {' | '.join(columns)} |")
        lines.append("")
    if "flat" in results:
        lines += ["| cost | build | size | µs | ratio to the smallest (min, median, max) |", "| --- " * 5 + "|"]
        for build, curves in results["flat"].items():
            for curve, rows in curves.items():  # type: ignore[attr-defined]
                for row in rows:
                    ratios = f"{row['ratio_min']:.2f}, {row['ratio']:.2f}, {row['ratio_max']:.2f}"
                    lines.append(f"| {curve} | {build} | {row['size']:,} | {row['us']:.2f} | {ratios} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measured load per scenario, broker and round")
    parser.add_argument("--builds", type=Path, help="folder that keeps the environments")
    parser.add_argument("--only", choices=("load", "idle", "flat"), help="one part of the benchmarks")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), action="append", help="of the load; repeatable")
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args()
    # A thousand connections on both sides do not fit the usual limit of 1024 descriptors.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(hard, 8192)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    results: dict[str, dict[str, object]] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="artemis-py-benchmark-") as temporary:
        folder = Path(temporary)
        builds = folder / "builds" if options.builds is None else options.builds.resolve()
        pythons = {name: install(builds, name) for name in ("pure", "compiled")}
        pythons["proton"] = pythons["compiled"]
        if options.only in (None, "load"):
            names = options.scenario or list(SCENARIOS)
            results["load"] = measure_load(pythons, folder, names, options.rounds, options.seconds)
        if options.only in (None, "idle"):
            results["idle"] = measure_idle(pythons, folder)
        if options.only in (None, "flat"):
            results["flat"] = measure_flat(pythons, options.rounds)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(report(results))


if __name__ == "__main__":
    main()
