"""`python -m artemis_py.cli`: the command `artemis-py` when it is not on the path."""

from artemis_py.cli import main

main(prog_name="artemis-py")
