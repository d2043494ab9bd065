"""`artemis-py create`: create an instance folder with its own configuration and data."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import click

from artemis_py.cli.errors import Misconfigured
from artemis_py.cli.instance import Choices, ClusterChoices, write_instance
from artemis_py.config import load
from artemis_py.config.reader import FILE_NAME
from artemis_py.errors import ConfigError
from artemis_py.security.passwords import hash_password
from artemis_py.transport.config import DEFAULT_PORT

# Names become keys of properties files and parts of XML; other characters can be had by editing the files.
NAME = re.compile(r"[\w.@-]+")
PEER = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")


def checked(pattern: re.Pattern[str], legal: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return an option callback that accepts only texts that match `pattern`."""

    def check(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None and not pattern.fullmatch(value):
            raise click.BadParameter(f"{value!r} may contain only {legal}")
        return value

    return check


checked_name = checked(NAME, "letters, digits, . _ - @")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--user", callback=checked_name, help="Name of the first user.")
@click.option("--password", envvar="ARTEMIS_PY_PASSWORD", help="Password of the first user [env: ARTEMIS_PY_PASSWORD].")
@click.option(
    "--role",
    default="amq",
    show_default=True,
    callback=checked_name,
    help="Role of the first user, with all permissions.",
)
@click.option("--name", callback=checked_name, help="Name of the broker; default: that of the folder.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    callback=checked(HOST, "the characters of a host name or IP address"),
    help="Address to listen on; 0.0.0.0 accepts clients of other machines.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=61616, show_default=True, help="Port for all protocols.")
@click.option("--amqp-port", type=click.IntRange(0, 65535), default=5672, show_default=True, help="Port for AMQP only.")
@click.option("--mqtt-port", type=click.IntRange(0, 65535), default=1883, show_default=True, help="Port for MQTT only.")
@click.option("--allow-anonymous", "anonymous_access", flag_value="EVERYWHERE", help="No client needs to log in.")
@click.option("--require-login", "anonymous_access", flag_value="NOWHERE", help="Every client must log in.")
@click.option("--clustered", is_flag=True, help="Make it a broker of a mesh, which shares its queues with others.")
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Another broker of the mesh; may be repeated. One that is running is enough.",
)
@click.option(
    "--cluster-name",
    default="mesh",
    show_default=True,
    callback=checked_name,
    help="Name of the mesh, for all brokers.",
)
@click.option(
    "--cluster-host",
    callback=checked(HOST, "the characters of a host name or IP address"),
    help="Host under which others reach this broker; default: that of --host.",
)
@click.option(
    "--cluster-user",
    default="mesh",
    show_default=True,
    callback=checked_name,
    help="User with which brokers of the mesh log in to each other.",
)
@click.option(
    "--cluster-password",
    envvar="ARTEMIS_PY_CLUSTER_PASSWORD",
    help="Its password, the same for all brokers [env: ARTEMIS_PY_CLUSTER_PASSWORD].",
)
@click.option("--force", is_flag=True, help="Replace the configuration of an existing instance; its data stays.")
@click.option("--silent", is_flag=True, help="Ask no questions, and print only errors.")
# Long because click passes each option as a parameter.
def create(
    folder: Path,
    user: str | None,
    password: str | None,
    role: str,
    name: str | None,
    host: str,
    port: int,
    amqp_port: int,
    mqtt_port: int,
    anonymous_access: str | None,
    clustered: bool,
    peers: tuple[str, ...],
    cluster_name: str,
    cluster_host: str | None,
    cluster_user: str,
    cluster_password: str | None,
    force: bool,
    silent: bool,
) -> None:
    """Make an instance in DIR: etc/ with its configuration, data/ for what it stores.

    User and password are asked for if they are not given; there are no defaults. Without --allow-anonymous
    or --require-login, clients on this machine need no name, and all others do.
    """
    if (folder / "etc" / FILE_NAME).exists() and not force:
        raise click.UsageError(f"{folder} already holds an instance; --force replaces its configuration")
    can_ask = not silent and sys.stdin.isatty()
    if user is None:
        if not can_ask:
            raise click.UsageError("--user is missing")
        user = click.prompt("Name of the first user", value_proc=_user_name)
        assert user is not None
    if password is None:
        if not can_ask:
            raise click.UsageError("--password is missing; ARTEMIS_PY_PASSWORD keeps it out of the shell's history")
        password = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
    if not password:
        raise click.UsageError("the password is empty")
    cluster = None
    if clustered:
        if cluster_user == user:
            raise click.UsageError(f"--cluster-user {user} is the first user too; brokers need a user of their own")
        if cluster_password is None and can_ask:
            cluster_password = click.prompt(f"Password of {cluster_user}", hide_input=True, confirmation_prompt=True)
        cluster = _cluster(cluster_name, cluster_host or host, peers, port, cluster_user, cluster_password)
    elif peers:
        raise click.UsageError("--peer is for brokers of a mesh; add --clustered")
    choices = Choices(
        name=name or _name_from(folder),
        host=host,
        port=port,
        amqp_port=amqp_port,
        mqtt_port=mqtt_port,
        user=user,
        password_hash=hash_password(password),
        role=role,
        anonymous_access=anonymous_access or "LOOPBACK",
        cluster=cluster,
    )
    try:
        write_instance(folder, choices)
        load(folder / "etc" / FILE_NAME)
    except OSError as error:
        raise click.UsageError(f"{error.filename or folder}: {error.strerror}") from None
    except ConfigError as error:
        raise Misconfigured(error) from None
    if not silent:
        click.echo(f"created: {folder / 'etc' / FILE_NAME}")
        click.echo(f"start it with: artemis-py run {folder}")


def _cluster(
    name: str, host: str, peers: tuple[str, ...], port: int, user: str, password: str | None
) -> ClusterChoices:
    """Return the choices about the mesh, after checking what the options cannot check one by one."""
    if not password:
        raise click.UsageError(
            "--cluster-password is missing; ARTEMIS_PY_CLUSTER_PASSWORD keeps it out of the shell's history"
        )
    if "${" in password or not password.isprintable() or password != password.strip():
        raise click.UsageError("the cluster password may not begin or end with a blank, or contain ${")
    if not port:
        raise click.UsageError("a broker of a mesh needs a port that others know; --port 0 chooses one at each start")
    return ClusterChoices(
        name=name,
        host=host,
        peers=tuple([_peer(each) for each in peers]),
        user=user,
        password=password,
        password_hash=hash_password(password),
    )


def _peer(text: str) -> tuple[str, int]:
    """Return the host and port of a peer; the port of an acceptor if it has none."""
    found = PEER.fullmatch(text)
    port = 0 if found is None else int(found["port"] or DEFAULT_PORT)
    if found is None or not 0 < port < 65536:
        raise click.BadParameter(f"{text!r} is not HOST or HOST:PORT", param_hint="'--peer'")
    return found["host"].strip("[]"), port


def _user_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise click.BadParameter("use letters, digits, . _ - @")
    return text


def _name_from(folder: Path) -> str:
    """Return the folder's name without the characters that a broker's name may not contain."""
    return re.sub(r"[^\w.@-]", "-", folder.resolve().name) or "broker"
