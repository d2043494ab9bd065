"""Checks acceptors against the installed protocols, and leaves out what a file made for Artemis has besides."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from artemis_py.config.known import ACCEPTOR_PARAMETERS
from artemis_py.config.report import Place, Report
from artemis_py.config.values import suggest
from artemis_py.config.verdicts import PARAMETERS, PROTOCOLS
from artemis_py.core.settings.declaration import Option
from artemis_py.errors import Problem
from artemis_py.protocol import ProtocolManager
from artemis_py.transport.config import ACCEPTOR_OPTIONS, TLS_OPTIONS, AcceptorConfig
from artemis_py.wire.parameters import InvalidParameter, parse_parameter


@frozen
class CheckedAcceptors:
    """What is to be said about acceptors, and those that would be opened."""

    acceptors: Sequence[AcceptorConfig]
    """Without the protocols and parameters that were left out."""
    left_out: Sequence[AcceptorConfig]
    """Acceptors that speak only protocols which are not installed."""
    problems: Sequence[Problem]
    warnings: Sequence[Problem]


def check_acceptors(acceptors: Sequence[AcceptorConfig], managers: Sequence[ProtocolManager]) -> CheckedAcceptors:
    """Check acceptors, given all installed protocols.

    An acceptor that speaks only protocols of Artemis which are not installed is left out with a warning; it is a
    problem if no acceptor remains. The managers must be the same objects for all acceptors of a broker: they remember
    values that have to agree.
    """
    checker = _Checker(managers)
    opened = [each for each in map(checker.check, acceptors) if each is not None]
    if acceptors and not opened and not checker.problems:
        first = acceptors[0]
        place = Place(file=first.file, line=first.line, element="acceptor")
        report = Report(first.file)
        report.problem(place, f"no acceptor would be opened; add one that speaks {_either(checker.names)}")
        checker.problems += report.problems
    return CheckedAcceptors(opened, checker.left_out, checker.problems, checker.warnings)


class _Checker:
    """Checks one acceptor after the other."""

    def __init__(self, managers: Iterable[ProtocolManager]) -> None:
        self._by_name: Final = {manager.name: manager for manager in managers}
        self.left_out: Final[list[AcceptorConfig]] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    @property
    def names(self) -> Iterable[str]:
        """Names of the installed protocols."""
        return self._by_name

    def check(self, acceptor: AcceptorConfig) -> AcceptorConfig | None:
        """Return the acceptor as it is opened; None if it is left out or wrong."""
        report = Report(acceptor.file)
        place = Place(file=acceptor.file, line=acceptor.line, element="acceptor")
        checked = self._check(acceptor, place, report)
        self.problems += report.problems
        self.warnings += report.warnings
        return None if report.problems else checked

    def _check(self, acceptor: AcceptorConfig, place: Place, report: Report) -> AcceptorConfig | None:
        missing = [name for name in acceptor.protocols if name not in self._by_name]
        for name in missing:
            if name not in PROTOCOLS:
                place_of_name = evolve(place, part="parameter protocols")
                report.problem(place_of_name, f"{name}: {suggest(name, self._by_name)}")
        protocols = tuple(name for name in acceptor.protocols if name in self._by_name)
        if missing and not protocols and not report.problems:
            text = f"{acceptor.name} is left out: artemis_py does not speak {_either(missing)}"
            report.warning(place, f"{text}, nobody can connect to port {acceptor.port}")
            self.left_out.append(acceptor)
            return None
        if missing and not report.problems:
            text = f"{_either(missing)}: left out, artemis_py does not speak it"
            report.warning(evolve(place, part="parameter protocols"), text)
        spoken = [each for name, each in self._by_name.items() if name in protocols or not acceptor.protocols]
        parameters = self._parameters(acceptor, spoken, place, report)
        if not report.problems:
            for manager in spoken:
                try:
                    manager.read_parameters(acceptor.name, parameters)
                except InvalidParameter as error:
                    report.problem(evolve(place, part=f"parameter {error.name}"), str(error))
        return evolve(acceptor, protocols=protocols, parameters=parameters)

    def _parameters(
        self, acceptor: AcceptorConfig, spoken: Iterable[ProtocolManager], place: Place, report: Report
    ) -> Mapping[str, str]:
        """Return the parameters that the acceptor's protocols read; report the others, and values that are wrong."""
        legal = {parameter.name: parameter for manager in spoken for parameter in manager.parameters}
        kept: dict[str, str] = {}
        for name, text in acceptor.parameters.items():
            at = evolve(place, part=f"parameter {name}")
            if name not in legal:
                self._report_other(name, text, legal, at, report)
                continue
            kept[name] = text
            try:
                parse_parameter(legal[name], text)
            except InvalidParameter as error:
                report.problem(at, str(error))
        return kept

    def _report_other(self, name: str, text: str, legal: Mapping[str, Option], place: Place, report: Report) -> None:
        """Report a parameter that no protocol of the acceptor reads."""
        for manager in self._by_name.values():
            if any(parameter.name == name for parameter in manager.parameters):
                report.warning(
                    place, f"has no effect here: it is for {manager.name}, which this acceptor does not speak"
                )
                return
        if name in PARAMETERS:
            PARAMETERS[name].tell([text.replace(" ", "")], place, report)
            return
        if name in ACCEPTOR_PARAMETERS:
            report.warning(place, "has no effect here: no installed protocol reads it")
            return
        own = [option.name for option in (*ACCEPTOR_OPTIONS, *TLS_OPTIONS)]
        report.problem(place, f"is unknown; {suggest(name, [*own, *legal])}")


def _either(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
