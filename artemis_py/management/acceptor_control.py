"""Management of one listening socket: the resource `acceptor.<name>`."""

from typing import ClassVar

from artemis_py.management.control import Control
from artemis_py.management.facts import AcceptorFacts


class AcceptorControl(Control):
    """One acceptor; nothing about it can be changed while it runs."""

    def __init__(self, acceptor: AcceptorFacts) -> None:
        super().__init__(f"acceptor.{acceptor.name}")
        self.acceptor = acceptor

    attributes: ClassVar = {
        "Name": lambda control: control.acceptor.name,
        "Host": lambda control: control.acceptor.host,
        "Port": lambda control: control.acceptor.port,
        "Protocols": lambda control: list(control.acceptor.protocols),
    }
