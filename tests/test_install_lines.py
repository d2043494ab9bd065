"""Every text that tells how to install names this distribution and extras that it has.

On the package index `artemis_py` is another author's client: a line that says `pip install` and this name, however it
is spelt, installs that.
"""

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from artemis_py.release import DISTRIBUTION

REPOSITORY: Final = Path(__file__).resolve().parents[1]

OTHERS: Final = {"tox", "paho-mqtt", "pytest", "python-qpid-proton", "pyyaml", "cibuildwheel", "build"}
"""Programs of others that our texts tell to install."""

INSTALL: Final = re.compile(
    r"\bpip3? install(?: -[\w-]+)* [\\\"']*(\.(?!\w)|[A-Za-z0-9][\w.-]*\b(?!/))(?:\[([a-z,-]+)\])?"
)
"""An install line up to its first requirement, unless that is a path: the name, and the extras if there are any."""
FOLDERS: Final = [
    "artemis_py",
    "protocols",
    "pyspark_artemis",
    "docs",
    "examples",
    "benchmarks",
    "conf",
    ".github",
    "tests",
]
SUFFIXES: Final = {".md", ".py", ".cfg", ".toml", ".ini", ".ipynb", ".yml", ".yaml", ".xml", ".txt", ".sh", ""}


def normalized(name: str) -> str:
    """A name as the package index compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def setup() -> ConfigParser:
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    return parser


def texts() -> list[tuple[str, str]]:
    """Path and text of every file that a user or a developer reads; this one, which has bad examples, left out."""
    wanted = ["README.md", "CHANGELOG.md", "setup.cfg", "setup.py", "pyproject.toml", "tox.ini", ".ci/run"]
    paths = [REPOSITORY / name for name in wanted]
    for folder in FOLDERS:
        paths += sorted((REPOSITORY / folder).rglob("*"))
    return [
        (str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8"))
        for path in paths
        if path.is_file()
        and path.suffix in SUFFIXES
        and path != Path(__file__)
        and not {"node_modules", "target", "__pycache__"} & set(path.parts)
    ]


def problems(path: str, text: str) -> list[str]:
    """Install lines of a text that would install something else, or an extra that does not exist."""
    extras = set(setup()["options.extras_require"])
    found = []
    for match in INSTALL.finditer(text):
        name, wanted = match[1], match[2].split(",") if match[2] else []
        ours = name == "." or normalized(name) == normalized(DISTRIBUTION)
        if not ours and normalized(name) not in OTHERS:
            found.append(f"{path}: {match[0]}: {name} is not {DISTRIBUTION}")
        found += [f"{path}: {match[0]}: no extra {each}" for each in wanted if ours and each not in extras]
    if re.search(r"\bartemis[-_.]py\[", text):
        found.append(f"{path}: an extra of artemis_py, which is not ours")
    return found


def test_the_name_is_that_of_the_distribution() -> None:
    assert setup()["metadata"]["name"] == DISTRIBUTION
    assert normalized(DISTRIBUTION) != "artemis-py"


def test_every_install_line_names_this_distribution_and_extras_that_exist() -> None:
    found = [problem for path, text in texts() for problem in problems(path, text)]

    assert found == []


def test_the_install_lines_are_found() -> None:
    """Where users begin; a test that finds none proves nothing."""
    with_lines = {path for path, text in texts() if INSTALL.search(text)}

    assert {"README.md", "docs/spark.md", "artemis_py/spark/requirements.py", "examples/spark/archive.py"} <= with_lines


@pytest.mark.parametrize(
    "line",
    [
        "pip install artemis_py",
        "pip install 'artemis-py[spark]'",
        "pip install -U artemis.py",
        "pip install 'artemis-py-broker[sparks]'",
        "pip install -e '.[devel]'",
        "needs artemis_py[spark]",
    ],
)
def test_a_wrong_line_is_found(line: str) -> None:
    assert problems("x", f"text {line} and more\n") != []


@pytest.mark.parametrize(
    "line",
    [
        "pip install artemis-py-broker",
        "pip install --no-deps .",
        "ARTEMIS_PY_PURE=1 pip install -e '.[dev]'",
        "pip install 'artemis-py-broker[proton,spark]'      # and Java 17",
        "`pip install` compiles",
    ],
)
def test_a_right_line_is_none(line: str) -> None:
    assert problems("x", f"{line}\n") == []


def test_extras_that_texts_name_are_in_the_metadata_of_what_is_installed() -> None:
    """The names in setup.cfg, as pip sees them."""
    from importlib.metadata import metadata

    assert set(metadata(DISTRIBUTION).get_all("Provides-Extra") or []) == set(setup()["options.extras_require"])
