"""An instance: a folder with `etc/` (configuration) and `data/`, and how to create one."""

import re
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from attrs import field, frozen

from artemis_py.config.reader import FILE_NAME, shipped_folder
from artemis_py.config.schema import SCHEMA_FILES
from artemis_py.security.permissions import MESH_ROLE

USERS_FILE: Final = "artemis-users.properties"
ROLES_FILE: Final = "artemis-roles.properties"


@frozen(kw_only=True)
class ClusterChoices:
    """The mesh that a new instance belongs to."""

    name: str
    host: str
    """Host under which other brokers and clients reach this one."""
    peers: tuple[tuple[str, int], ...]
    """Hosts and ports of other brokers."""
    user: str
    password: str = field(repr=False)
    password_hash: str = field(repr=False)


@frozen(kw_only=True)
class Choices:
    """Values chosen for a new instance; everything else is as shipped."""

    name: str
    host: str
    port: int
    amqp_port: int
    mqtt_port: int
    user: str
    password_hash: str
    """Hash of the password, as in the users file."""
    role: str
    anonymous_access: str
    """Place from which anonymous clients may log in: LOOPBACK, EVERYWHERE or NOWHERE."""
    cluster: ClusterChoices | None = None


def configuration_file(place: Path) -> Path:
    """Return the broker.xml for a path to an instance folder, an etc folder or the file itself."""
    if not place.is_dir():
        return place
    for candidate in (place / "etc" / FILE_NAME, place / FILE_NAME):
        if candidate.exists():
            return candidate
    return place / "etc" / FILE_NAME


def write_instance(folder: Path, choices: Choices) -> None:
    """Write the files of a new instance to `folder`; replace existing ones. Raises OSError."""
    etc = folder / "etc"
    etc.mkdir(parents=True, exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    shipped = shipped_folder()
    # Beside broker.xml, so that editors can check and complete it.
    for name in SCHEMA_FILES:
        (etc / name).write_text((shipped / name).read_text(encoding="utf-8"), encoding="utf-8")
    written = adapt((shipped / FILE_NAME).read_text(encoding="utf-8"), choices)
    users = f"# user = password, hashed\n{choices.user} = {choices.password_hash}\n"
    roles = f"# role = users\n{choices.role} = {choices.user}\n"
    cluster = choices.cluster
    if cluster is None:
        (etc / FILE_NAME).write_text(written, encoding="utf-8")
    else:
        # It has the password with which this broker logs in to others.
        _write_private(etc / FILE_NAME, with_cluster(written, choices, cluster))
        users += f"{cluster.user} = {cluster.password_hash}\n"
        roles += f"{MESH_ROLE} = {cluster.user}\n"
    _write_private(etc / USERS_FILE, users)
    (etc / ROLES_FILE).write_text(roles, encoding="utf-8")


def adapt(shipped: str, choices: Choices) -> str:
    """Return the text of the shipped broker.xml with its values replaced by the choices."""
    host = f"[{choices.host}]" if ":" in choices.host else choices.host
    role = escape(choices.role, {'"': "&quot;"})
    for pattern, replacement in (
        (r"\$\{ARTEMIS_PY_NAME:[^}]*\}", f"${{ARTEMIS_PY_NAME:{escape(choices.name)}}}"),
        (r"tcp://[^:]+:\$\{ARTEMIS_PY_PORT:\d+\}", f"tcp://{host}:${{ARTEMIS_PY_PORT:{choices.port}}}"),
        (r"tcp://[^:]+:\$\{ARTEMIS_PY_AMQP_PORT:\d+\}", f"tcp://{host}:${{ARTEMIS_PY_AMQP_PORT:{choices.amqp_port}}}"),
        (r"tcp://[^:]+:\$\{ARTEMIS_PY_MQTT_PORT:\d+\}", f"tcp://{host}:${{ARTEMIS_PY_MQTT_PORT:{choices.mqtt_port}}}"),
        (r'roles="amq"', f'roles="{role}"'),
        (r"<anonymous-roles>amq</anonymous-roles>", f"<anonymous-roles>{role}</anonymous-roles>"),
        (
            r"<anonymous-access>\w+</anonymous-access>",
            f"<anonymous-access>{choices.anonymous_access}</anonymous-access>",
        ),
    ):
        # A function, because backslashes in a replacement text would have a special meaning.
        shipped, count = re.subn(pattern, lambda _, text=replacement: text, shipped)  # type: ignore[misc]
        assert count > 0, f"the shipped {FILE_NAME} has no {pattern}"
    return shipped


def with_cluster(shipped: str, choices: Choices, cluster: ClusterChoices) -> str:
    """Return the text of a broker.xml with a mesh in it, and SCRAM-SHA-256 for brokers of other machines."""
    own = _connector("myself", cluster.host, f"${{ARTEMIS_PY_PORT:{choices.port}}}")
    others = [
        _connector(f"peer{number}", host, str(port)) for number, (host, port) in enumerate(cluster.peers, start=1)
    ]
    references = [f"          <connector-ref>peer{number}</connector-ref>" for number in range(1, len(others) + 1)]
    static = ["        <static-connectors>", *references, "        </static-connectors>"] if references else []
    lines = [
        "    <!-- The mesh that this broker belongs to, and brokers of it to begin with. -->",
        "    <connectors>",
        *[own, *others],
        "    </connectors>",
        f"    <cluster-user>{escape(cluster.user)}</cluster-user>",
        f"    <cluster-password>{escape(cluster.password)}</cluster-password>",
        "    <cluster-connections>",
        f'      <cluster-connection name="{escape(cluster.name)}">',
        "        <connector-ref>myself</connector-ref>",
        *static,
        "      </cluster-connection>",
        "    </cluster-connections>",
    ]
    mechanisms = "?saslMechanisms=SCRAM-SHA-256,PLAIN,ANONYMOUS"
    for mark, text in (
        ("    </acceptors>\n", "    </acceptors>\n\n" + "\n".join(lines) + "\n"),
        (f"ARTEMIS_PY_PORT:{choices.port}}}</acceptor>", f"ARTEMIS_PY_PORT:{choices.port}}}{mechanisms}</acceptor>"),
    ):
        assert mark in shipped, f"the shipped {FILE_NAME} has no {mark}"
        shipped = shipped.replace(mark, text, 1)
    return shipped


def _connector(name: str, host: str, port: str) -> str:
    """Return a line with a connector."""
    return f'      <connector name="{name}">tcp://{f"[{host}]" if ":" in host else host}:{port}</connector>'


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
