"""`artemis-py user`: hash passwords for the users file."""

import click

from artemis_py.security.passwords import hash_password


@click.group()
def user() -> None:
    """Prepare entries of artemis-users.properties."""


@user.command("hash")
@click.option("--password", envvar="ARTEMIS_PY_PASSWORD", help="[env: ARTEMIS_PY_PASSWORD]; asked for if missing.")
def hash_command(password: str | None) -> None:
    """Print a password in the form that the users file needs: `name = ENC(...)`."""
    if password is None:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        raise click.UsageError("the password is empty")
    click.echo(hash_password(password))
