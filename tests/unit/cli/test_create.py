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


# -- brokers of a mesh ---------------------------------------------------------------------------------------------

MESH = {**PASSWORD, "ARTEMIS_PY_CLUSTER_PASSWORD": "together <&> apart"}


def test_a_clustered_instance_belongs_to_a_mesh(tmp_path: Path) -> None:
    """With the brokers that are named, and a user of its own for them."""
    result = create(
        tmp_path / "i",
        *("--user", "ops", "--port", "7000", "--clustered", "--cluster-host", "b1.example"),
        *("--peer", "b2.example", "--peer", "b3.example:7001", "--peer", "[::1]:5"),
        env=MESH,
    )
    etc = tmp_path / "i" / "etc"
    config = load(etc / "broker.xml", NO_VARIABLES)
    users = UserFiles(etc / "artemis-users.properties", etc / "artemis-roles.properties").load()
    (cluster,) = config.clusters
    connectors = {each.name: (each.host, each.port) for each in config.connectors}

    assert result.exit_code == 0, result.output
    assert (cluster.name, connectors[cluster.connector]) == ("mesh", ("b1.example", 7000))
    assert [connectors[name] for name in cluster.static_connectors] == [
        ("b2.example", 61616),
        ("b3.example", 7001),
        ("::1", 5),
    ]
    assert (config.cluster_login.user, config.cluster_login.password) == ("mesh", "together <&> apart")
    assert users.verify("mesh", "together <&> apart")
    assert users.subject("mesh").roles == {"mesh"}
    assert "SCRAM-SHA-256" in config.acceptors[0].sasl_mechanisms
    assert [str(each) for each in config.warnings] == []


def test_only_the_owner_reads_a_file_with_the_password_of_the_mesh(tmp_path: Path) -> None:
    """It is needed as it is, to log in to others."""
    create(tmp_path / "i", "--user", "ops", "--clustered", env=MESH)

    assert (tmp_path / "i" / "etc" / "broker.xml").stat().st_mode & 0o777 == 0o600


def test_the_first_broker_of_a_mesh_has_no_peers(tmp_path: Path) -> None:
    """Others will name it; a warning says so."""
    result = create(tmp_path / "i", "--user", "ops", "--clustered", env=MESH)
    config = load(tmp_path / "i" / "etc" / "broker.xml", NO_VARIABLES)

    assert result.exit_code == 0
    assert config.clusters[0].static_connectors == ()
    assert "names no other broker" in str(config.warnings[0])


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (["--peer", "x"], MESH, "add --clustered"),
        (["--clustered"], PASSWORD, "--cluster-password is missing"),
        (["--clustered", "--cluster-user", "ops"], MESH, "brokers need a user of their own"),
        (["--clustered", "--port", "0"], MESH, "needs a port that others know"),
        (["--clustered", "--peer", "a b"], MESH, "is not HOST or HOST:PORT"),
        (["--clustered", "--peer", "a:0"], MESH, "is not HOST or HOST:PORT"),
        (["--clustered", "--peer", "a:99999"], MESH, "is not HOST or HOST:PORT"),
        (["--clustered", "--cluster-password", "${x}"], PASSWORD, "may not begin or end with a blank, or contain"),
        (["--clustered", "--peer", "b2.example"], MESH, "which means their own machine to them"),
    ],
)
def test_a_mesh_that_cannot_work_is_not_created(
    tmp_path: Path, arguments: list[str], env: dict[str, str], message: str
) -> None:
    """The last of them is found in the file, as `check` would find it."""
    result = create(tmp_path / "i", "--user", "ops", "--silent", *arguments, env=env)

    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
