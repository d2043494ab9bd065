"""Rows a second through the Spark connector, beside Spark doing the same from and to local Parquet files.

python benchmarks/spark.py [--rows 200000] [--tasks 1,2,4] [--rounds 3] [--only "none,epoch,all columns"]

Needs `pip install 'artemis-py-broker[spark]'` and Java 17. Broker, JVM and Python workers share this machine, so look
at the ratios: both sides of one are taken one after the other, in each round anew. `--only` takes the pieces of work
whose names contain one of the texts, and what they need. Prints Markdown, with the CPU of the broker and of Spark.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

BODY: Final = "concat('order ', lpad(id, 10, '0'), repeat('x', 239))"
"""256 octets."""
COLUMNS: Final = f"{BODY} AS body, concat('m', id) AS message_id, 's' AS subject, map('n', id, 'kind', 1) AS properties"
START_S: Final = 30.0


CONFIGURATION: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
  <name>benchmark</name><security-enabled>false</security-enabled>
  <acceptors><acceptor name="amqp">tcp://127.0.0.1:0?protocols=AMQP</acceptor></acceptors>
</core></configuration>"""


def start_broker(folder: Path) -> tuple["subprocess.Popen[bytes]", str]:
    """A broker that keeps messages on disk; its process and URL."""
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "broker.xml").write_text(CONFIGURATION, encoding="utf-8")
    for name in ("users", "roles"):
        (folder / "etc" / f"artemis-{name}.properties").touch()
    port_file = folder / "port"
    command = [sys.executable, "-P", "-m", "artemis_py.cli", "run", str(folder), "--port-file", str(port_file)]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + START_S
    while not port_file.exists() or not port_file.read_text().strip():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "log").read_text())
        time.sleep(0.05)
    port = re.search(r"\d+", port_file.read_text())
    assert port is not None
    return process, f"amqp://127.0.0.1:{port[0]}"


class Result(NamedTuple):
    """One piece of work, in one round."""

    rows_per_s: float
    broker_us: float
    """CPU of the broker for a row, in microseconds."""
    spark_us: float
    """CPU for a row of what Spark runs: this process, the JVM, and Python workers."""


def cpu_seconds(root: int) -> float:
    """CPU of a process and of all below it, those that ended and were waited for as well (`man 5 proc_pid_stat`)."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # It has ended.
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            ticks[int(folder.name)] = sum(int(field) for field in fields[11:15])
    total, left = 0, [root]
    while left:
        process = left.pop()
        total += ticks.get(process, 0)
        left += children.get(process, ())
    return total / os.sysconf("SC_CLK_TCK")


class Measurement:
    """One session, one broker: each piece of work in turn with so many tasks."""

    def __init__(self, spark: Any, url: str, broker: int, folder: Path, rows: int, only: list[str]) -> None:
        self.spark = spark
        self.broker = broker
        self.only = only
        self.url = url
        self.folder = folder
        self.rows = rows
        self.source = str(folder / "source.parquet")
        self.results: dict[tuple[str, int], list[Result]] = {}

    def prepare(self, tasks: int) -> None:
        """The rows as files, as many as there are tasks."""
        shutil.rmtree(self.source, ignore_errors=True)
        self.generated(tasks).write.mode("overwrite").parquet(self.source)

    def generated(self, tasks: int) -> Any:
        """The rows, made while they are read."""
        self.spark.range(0, self.rows, 1, tasks).createOrReplaceTempView("numbers")
        return self.spark.sql(f"SELECT {COLUMNS} FROM numbers")

    def round(self, tasks: int, number: int) -> None:
        """Everything once; each measured part leaves nothing behind for the next."""
        self.prepare(tasks)
        generated = self.generated(tasks)
        address = f"q.{tasks}.{number}"
        copy = str(self.folder / "copy.parquet")
        files = self.spark.read.parquet(self.source)
        self.time("write: rows to Parquet", tasks, lambda: generated.write.mode("overwrite").parquet(copy))
        self.time(UNSTAGED, tasks, lambda: self.write(generated, f"{address}.none", idempotence="none"))
        self.time(STAGED, tasks, lambda: self.write(generated, address))
        self.time("read: Parquet, all columns", tasks, lambda: _consume(files))
        self.time("read: AMQP, all columns", tasks, lambda: _consume(self.read(address, tasks)))
        self.time("read: AMQP, body only", tasks, lambda: _consume(self.read(address, tasks, columns="body")))
        self.time("copy: Parquet to Parquet", tasks, lambda: files.write.mode("overwrite").parquet(copy))
        self.time(
            "copy: AMQP to Parquet", tasks, lambda: self.read(address, tasks).write.mode("overwrite").parquet(copy)
        )
        self.time("copy: Parquet to AMQP", tasks, lambda: self.write(files, f"{address}.copy"))

    def write(self, frame: Any, address: str, **options: str) -> None:
        """Staged and committed, unless `options` say otherwise."""
        writer = frame.write.format("amqp").options(url=self.url, address=address, routingType="anycast", **options)
        writer.mode("append").save()

    def read(self, address: str, tasks: int, **options: str) -> Any:
        """A queue, all of it, by so many tasks."""
        reader = self.spark.read.format("amqp").options(url=self.url, mode="browse", queue=address)
        return reader.options(minPartitions=tasks, **options).load()

    def is_wanted(self, what: str) -> bool:
        """Whether `--only` names this piece of work, or one that needs it: the rows to read, or a partner."""
        if not self.only:
            return True
        needed = {name for name in PARTNERS if any(text in name for text in self.only)}
        if any(name.startswith(("read: AMQP", "copy: AMQP")) for name in needed):
            needed.add(STAGED)
        return what in needed or what in {PARTNERS[name] for name in needed}

    def time(self, what: str, tasks: int, work: Callable[[], None]) -> None:
        """Do a piece of work, and keep what it took."""
        if not self.is_wanted(what):
            return
        broker_s, spark_s = cpu_seconds(self.broker), cpu_seconds(os.getpid())
        began = time.perf_counter()
        work()
        took_s = time.perf_counter() - began
        broker_us = (cpu_seconds(self.broker) - broker_s) / self.rows * 1e6
        # The broker is a child of this process.
        spark_us = (cpu_seconds(os.getpid()) - spark_s) / self.rows * 1e6 - broker_us
        self.results.setdefault((what, tasks), []).append(Result(self.rows / took_s, broker_us, spark_us))


def _consume(frame: Any) -> None:
    """Read every column of every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


UNSTAGED: Final = "write: rows to AMQP, none"
STAGED: Final = "write: rows to AMQP, epoch"
PARTNERS: Final = {
    UNSTAGED: "write: rows to Parquet",
    STAGED: "write: rows to Parquet",
    "read: AMQP, all columns": "read: Parquet, all columns",
    "read: AMQP, body only": "read: Parquet, all columns",
    "copy: AMQP to Parquet": "copy: Parquet to Parquet",
    "copy: Parquet to AMQP": "copy: Parquet to Parquet",
}


def table(results: dict[tuple[str, int], list[Result]]) -> str:
    """Medians of the rounds, and of the ratios within each round."""
    lines = [
        "| work | tasks | rows/s | Parquet's rows/s | ratio | broker, us/row | Spark, us/row |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (what, tasks), mine in results.items():
        if what in PARTNERS:
            others = results[PARTNERS[what], tasks]
            ratio = statistics.median(
                result.rows_per_s / other.rows_per_s for result, other in zip(mine, others, strict=True)
            )
            rate, broker_us, spark_us = (statistics.median(column) for column in zip(*mine, strict=True))
            their = statistics.median(other.rows_per_s for other in others)
            lines.append(
                f"| {what} | {tasks} | {rate:,.0f} | {their:,.0f} | {ratio:.2f} | {broker_us:.1f} | {spark_us:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--tasks", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="texts, separated by commas, that the names of the work contain")
    arguments = parser.parse_args()
    only = [text for text in arguments.only.split(",") if text]
    tasks = [int(number) for number in arguments.tasks.split(",")]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from artemis_py.spark.session import session

    with tempfile.TemporaryDirectory() as folder:
        broker, url = start_broker(Path(folder) / "broker")
        try:
            settings = {"spark.master": f"local[{max(tasks)}]", "spark.ui.enabled": "false", "spark.local.dir": folder}
            spark = session("benchmark", settings)
            spark.sparkContext.setLogLevel("ERROR")
            # The JVM compiles as it goes: a first round that counts for nothing.
            Measurement(spark, url, broker.pid, Path(folder), arguments.rows // 4, only).round(max(tasks), -1)
            measurement = Measurement(spark, url, broker.pid, Path(folder), arguments.rows, only)
            for number in range(arguments.rounds):
                for count in tasks:
                    measurement.round(count, number)
            print(table(measurement.results))
            spark.stop()
        finally:
            broker.terminate()
            broker.wait()


if __name__ == "__main__":
    main()
