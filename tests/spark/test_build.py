"""Which build of the connector Spark's workers run."""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'artemis-py-broker[spark]'")
pytest.importorskip("pyarrow", reason="pip install 'artemis-py-broker[spark]'")

BUILD = os.environ.get("ARTEMIS_PY_TESTED_BUILD")
COMPILED = ["decoding", "encoding", "json_text", "sending", "typed_json"]


@pytest.mark.skipif(BUILD is None, reason="ARTEMIS_PY_TESTED_BUILD is not set: this run takes whatever is installed")
def test_a_worker_runs_the_compiled_modules(spark: Any) -> None:
    """What is called for each row: a worker that found the files of a checkout would take five times as long."""
    names = [f"artemis_py.spark.{name}" for name in COMPILED]

    # Within the test, because workers cannot import this file.
    def files(_: object) -> list[str]:
        from importlib import import_module

        import artemis_py.spark.sink  # noqa: F401  what a task of a job imports

        return [str(import_module(name).__file__) for name in names]

    found = spark.sparkContext.parallelize([0], 1).flatMap(files).collect()

    assert len(found) == len(names)
    suffixes = tuple(EXTENSION_SUFFIXES) if BUILD == "compiled" else (".py",)
    assert [file for file in found if not file.endswith(suffixes)] == []
