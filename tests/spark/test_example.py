"""The example does what it says: run again, it archives what came since, and nothing twice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from proton import Message

from tests.interop.broker_process import REPOSITORY, BrokerProcess
from tests.spark.conftest import send


def test_the_archive_grows_by_what_came(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    def archive() -> str:
        command = [sys.executable, str(REPOSITORY / "examples" / "spark" / "archive.py"), str(tmp_path), broker.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = archive()
    send(broker, "orders", [Message(id=str(number), body=f"order {number}", durable=True) for number in range(5)])

    assert (first, archive(), archive()) == ("archived: 0\n", "archived: 5\n", "archived: 0\n")
    rows = spark.read.parquet(str(tmp_path / "orders")).orderBy("sequence").collect()
    assert [(row.message_id, row.body) for row in rows] == [(str(number), f"order {number}") for number in range(5)]
