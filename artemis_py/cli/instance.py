"""An instance: a folder with `etc/` (configuration) and `data/`, and how to create one."""

import re
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from attrs import frozen

from artemis_py.config.reader import FILE_NAME, shipped_folder
from artemis_py.config.schema import SCHEMA_FILES

USERS_FILE: Final = "artemis-users.properties"
ROLES_FILE: Final = "artemis-roles.properties"


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
    (etc / FILE_NAME).write_text(written, encoding="utf-8")
    users = f"# user = password, hashed\n{choices.user} = {choices.password_hash}\n"
    _write_private(etc / USERS_FILE, users)
    (etc / ROLES_FILE).write_text(f"# role = users\n{choices.role} = {choices.user}\n", encoding="utf-8")


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


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
