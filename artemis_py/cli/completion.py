"""`artemis-py completion`: the script that lets a shell complete our commands and options."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    For bash: eval "$(artemis-py completion bash)" in ~/.bashrc. For fish: save it as
    ~/.config/fish/completions/artemis-py.fish.
    """
    from artemis_py.cli import main

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "artemis-py", "_ARTEMIS_PY_COMPLETE").source())
