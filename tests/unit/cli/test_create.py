"""`artemis-py create`: an instance with the choices of its owner."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from artemis_py.cli import main
from artemis_py.cli.instance import configuration_file
from artemis_py.config import AnonymousAccess, load
from artemis_py.core.runtime.access import Permission
from artemis_py.security.users import UserFiles

PASSWORD = {"ARTEMIS_PY_PASSWORD": "secret"}
NO_VARIABLES: dict[str, str] = {}


def create(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["create", str(folder), *arguments], env=PASSWORD if env is None else env)


def test_a_new_instance_is_valid_and_has_its_choices(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    result = create(
        folder,
        *("--user", "ops", "--role", "boss", "--host", "::1", "--require-login"),
        *("--port", "1", "--amqp-port", "2", "--mqtt-port", "3"),
    )
    config = load(folder / "etc" / "broker.xml", NO_VARIABLES)

    assert result.exit_code == 0
    assert config.settings.name == "orders"
    assert [(acceptor.host, acceptor.port) for acceptor in config.acceptors] == [("::1", 1), ("::1", 2), ("::1", 3)]
    assert config.security_settings["#"][Permission.MANAGE] == {"boss"}
    assert config.login.anonymous_access is AnonymousAccess.NOWHERE
    assert (folder / "data").is_dir()


def test_the_first_user_can_log_in_and_its_password_is_not_in_any_file(tmp_path: Path) -> None:
    create(tmp_path / "i", "--user", "ops")
    etc = tmp_path / "i" / "etc"
    users = UserFiles(etc / "artemis-users.properties", etc / "artemis-roles.properties").load()

    assert users.verify("ops", "secret")
    assert users.subject("ops").roles == {"amq"}
    assert not any("secret" in path.read_text() for path in etc.iterdir())


def test_only_the_owner_reads_the_users_file(tmp_path: Path) -> None:
    create(tmp_path / "i", "--user", "ops")

    assert (tmp_path / "i" / "etc" / "artemis-users.properties").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("flag", "access"), [(None, "LOOPBACK"), ("--allow-anonymous", "EVERYWHERE")])
def test_who_needs_no_name(tmp_path: Path, flag: str | None, access: str) -> None:
    create(tmp_path / "i", "--user", "ops", *([flag] if flag else []))

    assert load(tmp_path / "i" / "etc" / "broker.xml", NO_VARIABLES).login.anonymous_access.name == access


def test_there_is_no_default_user_and_no_default_password(tmp_path: Path) -> None:
    without_user = create(tmp_path / "a", "--silent")
    without_password = create(tmp_path / "b", "--silent", "--user", "u", env={})
    empty = create(tmp_path / "c", "--silent", "--user", "u", "--password", "", env={})

    assert [result.exit_code for result in (without_user, without_password, empty)] == [2, 2, 2]
    assert list(tmp_path.iterdir()) == []


def test_an_instance_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    create(tmp_path / "i", "--user", "first")
    (tmp_path / "i" / "data" / "kept").write_text("x")
    refused = create(tmp_path / "i", "--user", "second")
    forced = create(tmp_path / "i", "--user", "second", "--force")

    assert (refused.exit_code, forced.exit_code) == (2, 0)
    assert "--force" in refused.output
    assert (tmp_path / "i" / "data" / "kept").exists()
    assert "second =" in (tmp_path / "i" / "etc" / "artemis-users.properties").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--user", "a b"),
        ("--user", "a=b"),
        ("--user", "u", "--role", 'r"'),
        ("--user", "u", "--name", "${x}"),
        ("--user", "u", "--host", "a b"),
        ("--user", "u", "--port", "65536"),
    ],
)
def test_what_the_files_cannot_hold_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert create(tmp_path / "i", *arguments).exit_code == 2
    assert not (tmp_path / "i").exists()


def test_silent_prints_nothing(tmp_path: Path) -> None:
    assert create(tmp_path / "i", "--user", "u", "--silent").output == ""


def test_a_folder_that_cannot_be_made_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = create(tmp_path / "file" / "i", "--user", "u")

    assert result.exit_code == 2
    assert "Not a directory" in result.output


def test_a_configuration_is_found_from_instance_etc_or_file(tmp_path: Path) -> None:
    create(tmp_path / "i", "--user", "u")
    found = tmp_path / "i" / "etc" / "broker.xml"

    assert [configuration_file(place) for place in (tmp_path / "i", tmp_path / "i" / "etc", found)] == [found] * 3
