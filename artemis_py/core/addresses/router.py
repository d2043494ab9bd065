"""A router: chooses the bindings of an address that get a message."""

from collections.abc import Callable

from mypy_extensions import mypyc_attr

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Router:
    """The table of one address; made again when bindings changed (`is_stale`)."""

    def __init__(self) -> None:
        self.only: Binding | None = None
        """Set if every message that is not multicast goes to this one: the usual case needs no choice."""
        self.is_stale: bool = False
        """Bindings changed since it was made, and `only` counts no more."""
        self.wildcard_version: int = 0
        """Version of the wildcard bindings that it was made from."""
        self.choices: int = 0
        """Bindings that have to be asked whether they want a message."""

    def select(self, message: Message) -> list[Binding]:
        """Choose the bindings that get this message, each at most once."""
        raise NotImplementedError


RouterMaker = Callable[[list[list[Binding]], Router | None], Router]
"""Makes the router of an address from its own bindings and those of each wildcard address that matches it.

The router that it replaces is there for whose turn it is; None if there was none, or one of another kind may come.
"""
