"""What the build says and does without a compiler, and what the distributions hold."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from configparser import ConfigParser
from email import message_from_string
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

REPOSITORY: Final = Path(__file__).resolve().parents[1]
LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".tox", ".venv", ".*_cache", "__pycache__", "node_modules", "target", "build", "*.egg-info", "*.so"
)

HELD: Final = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "setup.py",
    "tox.ini",
    ".ci/run",
    ".github/workflows/wheels.yml",
    "artemis_py/broker.py",
    "artemis_py/spark/log4j2.properties",
    "benchmarks/README.md",
    "conf/broker.xml",
    "docs/index.md",
    "docs/reference/index.md",
    "examples/send_receive.py",
    "examples/spark/queue.ipynb",
    "protocols/artemis_amqp/engine/connection.py",
    "protocols/artemis_amqp/py.typed",
    "tests/conftest.py",
    "tests/interop/jms/pom.xml",
    "tests/transport/certificates/broker.pem",
)


def setup_py(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run of setup.py, without what the environment says about builds."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ARTEMIS_PY_PURE", "CC", "CFLAGS")}
    command = [sys.executable, "setup.py", *arguments]
    return subprocess.run(command, cwd=folder, env=kept | variables, capture_output=True, text=True, timeout=100)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project with our setup.py and one module to compile."""
    for name in ("setup.py", "README.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.artemis_py.compiled]\n"small" = ["one"]\n', encoding="utf-8")
    (tmp_path / "setup.cfg").write_text("[metadata]\nname = small\n[options]\npackages = small\n", encoding="utf-8")
    (tmp_path / "small").mkdir()
    for name in ("__init__", "one"):
        (tmp_path / "small" / f"{name}.py").write_text('"""A module."""\n', encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("compiler", ["false", "/nowhere/cc"])
def test_without_a_compiler_the_build_says_so_and_goes_on(small: Path, compiler: str) -> None:
    """One that fails, as without the headers of Python, and one that is not there."""
    done = setup_py(small, "build", CC=compiler)

    assert done.returncode == 0, done.stderr
    assert "no C compiler that finds Python.h" in done.stderr
    assert "installing pure Python" in done.stderr
    assert [path.name for path in sorted((small / "build" / "lib" / "small").iterdir())] == ["__init__.py", "one.py"]


def test_pure_python_can_be_asked_for(small: Path) -> None:
    done = setup_py(small, "build", ARTEMIS_PY_PURE="1")

    assert done.returncode == 0, done.stderr
    assert "as ARTEMIS_PY_PURE asks for" in done.stderr


def test_a_build_that_compiles_says_so_and_how_to_skip_it(small: Path) -> None:
    """Before mypyc begins: minutes without a word look like a hanging install. Its place is taken by one line."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    (small / "mypyc").mkdir()
    (small / "mypyc" / "__init__.py").touch()
    fake = "def mypycify(paths, group_name, **options):\n    raise SystemExit(f'mypyc got {paths[2:]}')\n"
    (small / "mypyc" / "build.py").write_text(fake, encoding="utf-8")
    done = setup_py(small, "build", PYTHONPATH=str(small), CC="cc")

    assert done.returncode == 0, done.stderr
    say = "artemis-py-broker: "
    told = [line.removeprefix(say) for line in done.stderr.splitlines() if line.startswith(say)]
    assert told == [
        "compiling 1 modules, which takes some minutes; ARTEMIS_PY_PURE=1 installs pure Python instead",
        "mypyc cannot compile here, installing pure Python: mypyc got ['small/one.py']",
    ]


def test_a_step_that_builds_nothing_does_not_compile(small: Path) -> None:
    """An install runs setup.py three times; mypyc works in one of them."""
    done = setup_py(small, "egg_info", CC="cc")

    assert done.returncode == 0, done.stderr
    assert "compil" not in done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this tree."""
    tree = tmp_path_factory.mktemp("sdist") / "tree"
    shutil.copytree(REPOSITORY, tree, ignore=LEFT_OUT)
    done = setup_py(tree, "--quiet", "sdist", "--dist-dir", str(tree.parent))
    assert done.returncode == 0, done.stderr
    (archive,) = tree.parent.glob("artemis_py_broker-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def unpacked(sdist: Path) -> Path:
    """The folder that it unpacks to."""
    with tarfile.open(sdist) as archive:
        archive.extractall(sdist.parent / "unpacked", filter="data")
    (folder,) = (sdist.parent / "unpacked").iterdir()
    return folder


def test_the_source_distribution_holds_tests_manual_examples_and_changes(unpacked: Path) -> None:
    missing = [name for name in HELD if not (unpacked / name).is_file()]
    garbage = [path.name for path in unpacked.rglob("*") if path.suffix in (".pyc", ".so") or path.name == "build"]

    assert missing == []
    assert garbage == []


def test_every_file_of_the_tree_is_in_the_source_distribution(unpacked: Path) -> None:
    """Whatever git has, but for its own files."""
    if not (REPOSITORY / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this tree is no clone: nothing says what belongs to it")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip(f"git does not list this clone: {listed.stderr.strip()}")
    names = [name for name in listed.stdout.split("\0") if name and (REPOSITORY / name).is_file()]

    assert [name for name in names if not (unpacked / name).is_file()] == [".gitignore"]


def test_what_is_installed_from_the_source_distribution_runs(sdist: Path, tmp_path: Path) -> None:
    """In a folder of its own, without the tree: what the archive lacks is missing here."""
    pytest.importorskip("pip", reason="pip is not installed")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", tmp_path, sdist],
        env=os.environ | {"ARTEMIS_PY_PURE": "1"},
        check=True,
        timeout=100,
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import artemis_py.broker, artemis_py.cli as cli; "
        "print(artemis_py.__file__); cli.main(['check'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, tmp_path], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def page(folder: Path) -> str:
    """The description of a source distribution, as the index shows it."""
    metadata = message_from_string((folder / "PKG-INFO").read_text(encoding="utf-8"))
    description = metadata.get_payload()
    assert isinstance(description, str)
    return description


def test_no_link_of_the_page_on_the_index_is_relative(unpacked: Path) -> None:
    """They would lead to pages of the index that do not exist."""
    targets = re.findall(r"\]\(([^)]+)\)", page(unpacked))

    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "`docs/testing.md`" in page(unpacked)


def test_links_of_the_page_lead_to_the_repository_once_it_has_an_address(small: Path) -> None:
    readme = "A [page](docs/a.md#b), [b.md](b.md), [there](https://x.example/).\n"
    (small / "README.md").write_text(readme, encoding="utf-8")
    without = setup_py(small, "--quiet", "--long-description").stdout
    home = "https://forge.example/us/it"
    (small / "setup.cfg").write_text(f"[metadata]\nname = small\nurl = {home}/\n", encoding="utf-8")
    with_url = setup_py(small, "--quiet", "--long-description").stdout

    pages = f"{home}/blob/main"
    assert without == "A page (`docs/a.md#b`), `b.md`, [there](https://x.example/).\n\n"
    assert with_url == f"A [page]({pages}/docs/a.md#b), [b.md]({pages}/b.md), [there](https://x.example/).\n\n"


WORKFLOW: Final = REPOSITORY / ".github" / "workflows" / "wheels.yml"


def test_the_workflow_for_wheels_is_well_formed() -> None:
    """It runs elsewhere; what it names here must be here."""
    read: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    steps = [step for job in read["jobs"].values() for step in job["steps"]]
    text = WORKFLOW.read_text(encoding="utf-8")

    assert set(read["jobs"]) == {"compiled", "pure", "collected"}
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert all(re.fullmatch(r"[\w./-]+@v[\d.]+", step["uses"]) for step in steps if "uses" in step)
    assert set(read["jobs"]["collected"]["needs"]) == {"compiled", "pure"}
    for path in re.findall(r"\b(?:tests|examples)/[\w./-]+\.py\b", text):
        assert (REPOSITORY / path).is_file(), path


def test_cibuildwheel_tests_what_it_builds() -> None:
    """Its settings are in pyproject.toml, so that it does the same on a developer's machine."""
    import tomllib

    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)["tool"]["cibuildwheel"]
    named, _, test = settings["test-command"].rpartition("{project}/")[2].partition("::")
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    versions = re.findall(r"Python :: (3\.\d+)$", parser["metadata"]["classifiers"], re.MULTILINE)

    assert f"def {test}(" in (REPOSITORY / named).read_text(encoding="utf-8")
    assert settings["environment"]["ARTEMIS_PY_TESTED_BUILD"] == "compiled"
    assert sorted(settings["build"].split()) == sorted(f"cp{version.replace('.', '')}-*" for version in versions)
