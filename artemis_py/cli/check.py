"""`artemis-py check`: find everything that is wrong with a configuration, without opening a socket."""

from pathlib import Path

import click
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cli.errors import Misconfigured
from artemis_py.cli.instance import configuration_file
from artemis_py.config import BrokerConfig, check_parameters, load
from artemis_py.config.letters import problems_of_letters
from artemis_py.config.reader import FILE_NAME, shipped_folder
from artemis_py.deployment.plan import plan
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.errors import ConfigError, Problem
from artemis_py.security.users import UserFiles
from artemis_py.transport.tls import server_context


def examine(file: Path) -> BrokerConfig:
    """Read a broker.xml and everything that it refers to. Raises ConfigError with every mistake."""
    config = load(file)
    problems: list[Problem] = problems_of_letters(config, config.places)
    # A broker in memory is built from the file, and reports what it would refuse at a start.
    broker = Broker(evolve(config, persistence_enabled=False))
    refused = broker.deployment.apply(plan(broker.deployment.running(config), config))
    problems += [Problem(str(file), each.line, each.element, each.message) for each in refused]
    managers = [factory(broker.host) for factory in installed_protocols()]
    for acceptor in config.acceptors:
        problems += check_parameters(acceptor, managers)
        try:
            server_context(acceptor)
        except ConfigError as error:
            problems += error.problems
    if config.security_enabled:
        login = config.login
        try:
            UserFiles(login.folder / login.users_file, login.folder / login.roles_file).load()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return config


@click.command()
@click.argument("place", metavar="[DIR|FILE]", required=False, type=click.Path(path_type=Path))
def check(place: Path | None) -> None:
    """Validate the configuration of the instance in DIR, or a broker.xml; without either, the shipped one.

    Prints every mistake as "file:line: element: what is wrong, what would be right". Exit code 2 if there are any.
    """
    file = shipped_folder() / FILE_NAME if place is None else configuration_file(place)
    try:
        config = examine(file)
    except ConfigError as error:
        raise Misconfigured(error) from None
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"ok: {file}")
