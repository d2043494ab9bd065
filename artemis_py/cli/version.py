"""`artemis-py version`: print the version."""

import platform

import click

from artemis_py.cli.render import print_json


def installed_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import version as of_package

    return of_package("artemis_py")


@click.command()
@click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
def version(json_wanted: bool) -> None:
    """Print the version of artemis-py and of the Python it runs on."""
    if json_wanted:
        print_json({"artemis-py": installed_version(), "python": platform.python_version()})
    else:
        click.echo(f"artemis-py {installed_version()} (Python {platform.python_version()})")
