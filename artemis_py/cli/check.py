"""`artemis-py check`: find everything that is wrong with a configuration, without opening a socket."""

import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click
from attrs import define, evolve, field

from artemis_py.broker import Broker
from artemis_py.cli.errors import Misconfigured
from artemis_py.cli.instance import configuration_file
from artemis_py.config import BrokerConfig, check_acceptors
from artemis_py.config.letters import problems_of_letters
from artemis_py.config.reader import FILE_NAME, load_all, shipped_folder
from artemis_py.config.report import merged
from artemis_py.config.resolving import repository_of
from artemis_py.core.settings.exchange_config import DeclaredExchanges
from artemis_py.deployment.exchanges import KeepExchange, exchange_changes
from artemis_py.deployment.plan import plan
from artemis_py.deployment.protocols import installed_protocols
from artemis_py.deployment.storage import journal_folder, warnings_of_store
from artemis_py.deployment.web import missing_extra
from artemis_py.errors import ConfigError, Problem, StoreError
from artemis_py.protocol import ProtocolManager
from artemis_py.security.authenticator import AnonymousAccess
from artemis_py.security.users import UserFiles, Users
from artemis_py.storetools.exchanges import stored_exchanges
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.tls import client_context, server_context


@define
class Findings:
    """What is wrong with a configuration, and what is doubtful."""

    problems: list[Problem] = field(factory=list)
    warnings: list[Problem] = field(factory=list)

    def collect(self, act: Callable[[], object]) -> None:
        """Call a function, and note what it objects to."""
        try:
            act()
        except ConfigError as error:
            self.problems += error.problems


def examine(file: Path) -> Findings:
    """Find everything that is wrong with a broker.xml and with all that it refers to, in one pass."""
    findings = Findings()
    try:
        config, report = load_all(file)
    except ConfigError as error:
        findings.problems += error.problems
        return findings
    findings.problems += report.problems
    findings.warnings += [
        *report.warnings,
        *problems_of_letters(config, config.places),
        *[each for host in config.virtual_hosts for each in problems_of_letters(host.contents, host.contents.places)],
        *warnings_of_store(config),
        *_kept_exchanges(config),
    ]
    findings.collect(lambda: _try(config, file, findings))
    return findings


def _kept_exchanges(config: BrokerConfig) -> Iterator[Problem]:
    """Yield a warning for each exchange that the store has, and that cannot become what the file says."""
    declared = config.exchanges
    if not config.persistence_enabled or not declared.exchanges:
        return
    try:
        stored = stored_exchanges(journal_folder(config))
    except StoreError:
        return  # the start says what is wrong with the store
    there = DeclaredExchanges(exchanges=tuple(stored.values()))
    for change in exchange_changes(there, declared, lambda: repository_of(config)):
        if isinstance(change, KeepExchange):
            text = f'"{change.exchange.name}" is in the store, and {change.consequence}'
            yield Problem(change.file, change.line, "exchange", text)


def _try(config: BrokerConfig, file: Path, findings: Findings) -> None:
    """Build a broker in memory, which reports what it would refuse at a start, and look at its acceptors and users."""
    broker = Broker(evolve(config, persistence_enabled=False))
    refused = broker.deployment.apply(plan(broker.deployment.running(config), config))
    findings.problems += [Problem(str(file), each.line, each.element, each.message) for each in refused]
    _check_acceptors(config.acceptors, [factory(broker.host) for factory in installed_protocols()], findings)
    for way in [each for section in config.broker_connections for each in section.ways]:
        findings.collect(partial(client_context, way))
    if config.web is not None:
        _check_socket(config.web.acceptor, findings)
        if find_spec("aiohttp") is None:
            findings.problems.append(missing_extra(config.web))
    if config.security_enabled:
        findings.collect(lambda: _check_users(config, findings))


def _check_acceptors(
    acceptors: Sequence[AcceptorConfig], managers: Sequence[ProtocolManager], findings: Findings
) -> None:
    checked = check_acceptors(acceptors, managers)
    findings.problems += checked.problems
    findings.warnings += checked.warnings
    for acceptor in [each for each in acceptors if each not in checked.left_out]:
        _check_socket(acceptor, findings)


def _check_socket(acceptor: AcceptorConfig, findings: Findings) -> None:
    findings.collect(lambda: server_context(acceptor))
    if not _resolves(acceptor.host):
        text = f"the host {acceptor.host} does not resolve on this machine; write an address such as 0.0.0.0"
        findings.warnings.append(Problem(acceptor.file, acceptor.line, "acceptor", text))


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return False
    return True


def _check_users(config: BrokerConfig, findings: Findings) -> None:
    login = config.login
    files = UserFiles(login.folder / login.users_file, login.folder / login.roles_file)
    users = files.read()
    findings.warnings += [*files.warnings_of(users), *_empty_roles(config, users)]


def _empty_roles(config: BrokerConfig, users: Users) -> Iterator[Problem]:
    """Yield a warning for each role that has a permission, and that nobody can have."""
    login = config.login
    anonymous = () if login.anonymous_access is AnonymousAccess.NOWHERE else login.anonymous_roles
    held = users.roles.union(anonymous)
    for role, (file, line) in config.roles.items():
        if role not in held:
            text = f'nobody has the role "{role}"; add it to {login.roles_file}, or check its spelling'
            yield Problem(file, line, "permission", text)


@click.command()
@click.argument("place", metavar="[DIR|FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Fail if there are warnings.")
def check(place: Path | None, strict: bool) -> None:
    """Validate the configuration of the instance in DIR, or a broker.xml; without either, the shipped one.

    Prints every mistake and warning as "file:line: element: what is wrong, what would be right". Exit code 2 if there
    are mistakes; warnings do not count, unless with --strict.
    """
    file = shipped_folder() / FILE_NAME if place is None else configuration_file(place)
    findings = examine(file)
    warnings = merged(findings.warnings)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if findings.problems:
        raise Misconfigured(ConfigError(sorted(findings.problems, key=lambda problem: (problem.file, problem.line))))
    count = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
    if strict and warnings:
        click.echo(f"{count} found; --strict allows none", err=True)
        raise click.exceptions.Exit(Misconfigured.exit_code)
    click.echo(f"ok: {file}" + (f" ({count})" if warnings else ""))
