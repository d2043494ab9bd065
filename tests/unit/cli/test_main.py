"""The command itself: its table of commands, help, usage errors and completion."""

import json
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from artemis_py.cli import COMMANDS, main
from artemis_py.release import installed_version
from artemis_py.security.passwords import HashedPassword, parse_hash


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_and_explains_itself(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    result = CliRunner().invoke(main, [name, "--help"])

    assert isinstance(command, click.Command)
    assert result.exit_code == 0
    assert f"{name}" in result.output


def test_help_lists_the_commands() -> None:
    output = CliRunner().invoke(main, ["--help"]).output

    assert all(f"  {name} " in output for name in COMMANDS)


def test_help_imports_no_command() -> None:
    """It must come at once: no client library, no configuration reader."""
    code = (
        "import sys; from click.testing import CliRunner; from artemis_py.cli import main; "
        "CliRunner().invoke(main, ['--help']); "
        "print([m for m in ('artemis_amqp', 'lxml', 'rich', 'asyncio', 'artemis_py.core') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("producer", "--message-count", "0"),
        ("producer", "--priority", "10"),
        ("producer", "--property", "x"),
        ("consumer", "--print", "x"),
        ("queue", "update", "q"),
        ("queue", "stat", "--field", "name"),
        ("queue", "stat", "--field", "name", "--value", "x", "--name", "y"),
        ("queue", "create"),
        ("address", "update", "a"),
        ("completion", "tcsh"),
    ],
)
def test_wrong_usage_has_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, list(arguments))

    assert (result.exit_code, "Error: " in result.output) == (2, True)


def test_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(main, ["version", "--json"])

    assert set(json.loads(result.output)) == {"artemis-py", "build", "python"}


def test_version_is_an_option_too() -> None:
    """What most programs have, and bug reports need: version, compiled or not, and Python."""
    as_option = CliRunner().invoke(main, ["--version"])
    as_command = CliRunner().invoke(main, ["version"])

    assert (as_option.exit_code, as_option.output) == (0, as_command.output)
    assert re.fullmatch(
        rf"artemis-py {re.escape(installed_version())} \((compiled|pure Python); Python [\d.]+\S*\)\n",
        as_option.output,
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.filterwarnings("ignore")
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    output = CliRunner().invoke(main, ["completion", shell]).output

    assert f"_ARTEMIS_PY_COMPLETE={shell}_complete" in output


def test_a_hashed_password_can_be_read_back() -> None:
    result = CliRunner().invoke(main, ["user", "hash"], env={"ARTEMIS_PY_PASSWORD": "secret"})

    hashed = parse_hash(result.output.strip())
    assert isinstance(hashed, HashedPassword)
    assert hashed.scram is not None
