"""Refusals that only OpenWire has, and what clients are told of any refusal."""

from typing import Final

from artemis_openwire.engine import errors
from artemis_openwire.engine.structure import Throwable
from artemis_py.errors import Refusal

JMS_STATE: Final = "javax.jms.IllegalStateException"


class CommandRefused(Refusal):
    """A command cannot be carried out; `class_name` is the Java class that the client is told."""

    def __init__(self, class_name: str, text: str) -> None:
        super().__init__(text)
        self.class_name: str = class_name


def illegal_state(text: str) -> CommandRefused:
    """Return the refusal of a command that names something that does not exist."""
    return CommandRefused(JMS_STATE, text)


def invalid_destination(text: str) -> CommandRefused:
    """Return the refusal of a destination."""
    return CommandRefused(errors.DESTINATION, text)


def told(refusal: Refusal) -> Throwable:
    """Return what a client is told of a refusal."""
    if isinstance(refusal, CommandRefused):
        return Throwable(refusal.class_name, str(refusal))
    return errors.throwable_of(refusal)
