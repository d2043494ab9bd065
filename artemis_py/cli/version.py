"""`artemis-py version` and `artemis-py --version`: print the version."""

import platform

import click

from artemis_py.cli.render import print_json
from artemis_py.release import installed_version, is_compiled


def build() -> str:
    """Return how the modules that every message passes through were installed."""
    return "compiled" if is_compiled() else "pure Python"


def told() -> str:
    """Return version, build and the version of Python on one line."""
    return f"artemis-py {installed_version()} ({build()}; Python {platform.python_version()})"


@click.command()
@click.option("--json", "json_wanted", is_flag=True, help="JSON instead of text.")
def version(json_wanted: bool) -> None:
    """Print the version of artemis-py, whether it is compiled, and the Python it runs on."""
    if json_wanted:
        print_json({"artemis-py": installed_version(), "build": build(), "python": platform.python_version()})
    else:
        click.echo(told())
