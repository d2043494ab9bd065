"""Checks for what must be installed. Each error says what to do."""

import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from os import environ
from pathlib import Path
from typing import Final

from artemis_py.spark.errors import MissingRequirement

FIRST_PYSPARK: Final = (4, 2)
"""First version with admission control and AvailableNow for Python data sources."""
FIRST_JAVA: Final = 17
INSTALL: Final = "pip install 'artemis-py-broker[spark]'"


def check_packages() -> None:
    """Raise MissingRequirement without PySpark 4.2 or later, or without pyarrow."""
    found = _version("pyspark")
    numbers = tuple(int(part) for part in found.split(".")[:2])
    if numbers < FIRST_PYSPARK:
        wanted = ".".join(str(number) for number in FIRST_PYSPARK)
        raise MissingRequirement(f"the amqp source needs PySpark {wanted} or later, this is {found}: {INSTALL}")
    _version("pyarrow")


def check_java() -> None:
    """Raise MissingRequirement if Spark would find no Java, or one that is too old for it."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, and there is no Java in it" if home else "there is no java on the path"
        raise MissingRequirement(f"Spark needs Java {FIRST_JAVA} or later: {where}")
    # It prints `openjdk version "17.0.15"` on its standard error; before 9 the number began with "1.".
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = told.partition('"')[2].partition('"')[0]
    major = number.removeprefix("1.").partition(".")[0]
    if major.isdigit() and int(major) < FIRST_JAVA:
        raise MissingRequirement(f"Spark needs Java {FIRST_JAVA} or later, {java} is {number}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise MissingRequirement(f"the amqp source needs {package}: {INSTALL}") from None
