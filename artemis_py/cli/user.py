"""`artemis-py user`: the users of an instance, in its files; a running broker follows them by itself."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from artemis_py.cli.errors import Failed, Misconfigured
from artemis_py.cli.instance import configuration_file
from artemis_py.cli.render import print_json, print_table, say
from artemis_py.config import load
from artemis_py.errors import ConfigError, InvalidRequest
from artemis_py.security.passwords import hash_password
from artemis_py.security.user_editor import UserEditor

T = TypeVar("T")

FOLLOWS = "a running broker follows within a few seconds"

as_json = click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
password_option = click.option(
    "--password", envvar="ARTEMIS_PY_PASSWORD", help="[env: ARTEMIS_PY_PASSWORD]; asked for if missing."
)
instance = click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))


@click.group()
def user() -> None:
    """Add, remove and list the users of the instance in DIR, and set their passwords.

    These commands change the files of users and roles. They need no connection, and a running broker follows the files
    by itself within a few seconds: connections of users that were removed, or have a new password, end.
    """


@user.command()
@instance
@click.argument("name")
@click.option("--role", "roles", multiple=True, required=True, help="A role of the user; repeatable.")
@password_option
@as_json
def add(folder: Path, name: str, roles: tuple[str, ...], password: str | None, json_wanted: bool) -> None:
    """Add the user NAME to the instance in DIR."""
    editor = _editor(folder)
    hashed = hash_password(_asked(password))
    _change(lambda: editor.add(name, hashed, list(dict.fromkeys(roles))))
    _done(f"added: user {name} with {', '.join(roles)}; {FOLLOWS}", {"user": name, "roles": roles}, json_wanted)


@user.command()
@instance
@click.argument("name")
@password_option
@as_json
def passwd(folder: Path, name: str, password: str | None, json_wanted: bool) -> None:
    """Set the password of the user NAME. Its connections end, and log in again with the new one."""
    editor = _editor(folder)
    if not _change(lambda: editor.has_password(name)):
        raise Failed(f"user '{name}' does not exist")
    hashed = hash_password(_asked(password))
    _change(lambda: editor.set_password(name, hashed))
    _done(f"changed: password of user {name}; {FOLLOWS}", {"user": name}, json_wanted)


@user.command()
@instance
@click.argument("name")
@as_json
def remove(folder: Path, name: str, json_wanted: bool) -> None:
    """Remove the user NAME. Its connections end."""
    editor = _editor(folder)
    _change(lambda: editor.remove(name))
    _done(f"removed: user {name}; {FOLLOWS}", {"user": name}, json_wanted)


@user.command("list")
@instance
@as_json
def list_command(folder: Path, json_wanted: bool) -> None:
    """List users with their roles. Those without a password log in with a certificate."""
    editor = _editor(folder)
    rows = [
        {"user": name, "roles": roles, "password": editor.has_password(name)}
        for name, roles in _change(editor.users).items()
    ]
    if json_wanted:
        print_json({"users": rows})
    else:
        print_table(rows, {"user": "USER", "roles": "ROLES", "password": "PASSWORD"})


@user.command("hash")
@password_option
def hash_command(password: str | None) -> None:
    """Print a password in the form that the users file needs: `name = ENC(...)`."""
    click.echo(hash_password(_asked(password)))


def _editor(folder: Path) -> UserEditor:
    """Return the editor of an instance's files, wherever its configuration has them."""
    try:
        login = load(configuration_file(folder)).login
    except ConfigError as error:
        raise Misconfigured(error) from None
    return UserEditor(login.folder / login.users_file, login.folder / login.roles_file)


def _change(change: Callable[[], T]) -> T:
    try:
        return change()
    except InvalidRequest as refusal:
        raise Failed(str(refusal)) from None
    except ConfigError as error:
        raise Misconfigured(error) from None


def _asked(password: str | None) -> str:
    if password is None:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        raise click.UsageError("the password is empty")
    return password


def _done(text: str, fact: dict[str, object], json_wanted: bool) -> None:
    if json_wanted:
        print_json(fact)
    else:
        say(text)
