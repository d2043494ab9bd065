"""A router: chooses the bindings of an address that get a message."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message

if TYPE_CHECKING:
    from artemis_py.core.addresses.address import Address


@mypyc_attr(allow_interpreted_subclasses=True)
class Router:
    """The routing table of one address; replaced when bindings have changed (`is_stale`)."""

    def __init__(self) -> None:
        self.only: Binding | None = None
        """The binding that gets every message that is not multicast, if there is just one: the usual case."""
        self.is_stale: bool = False
        """Whether bindings have changed since it was made; `only` is then no longer valid."""
        self.wildcard_version: int = 0
        """Version of the wildcard bindings from which it was made."""
        self.choices: int = 0
        """Number of bindings that have to be asked whether they accept a message."""
        self.forwards: bool = False
        """Whether any of the bindings sends messages on; set by the owner of the router."""

    def select(self, message: Message) -> list[Binding]:
        """Choose the bindings that get this message, each at most once. Do not change the list: it may be kept."""
        raise NotImplementedError

    def sole(self, routing_type: int) -> Binding | None:
        """Return the one binding that gets every message of a routing type (-1: messages without one), if any does."""
        return None

    def select_special(self, message: Message) -> list[Binding]:
        """Choose those bindings among them that supersede others or take messages of any type."""
        return []


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteBindings:
    """Destinations at other brokers, asked when a router is made, so that they cost nothing for each message."""

    def bindings(self, address: "Address") -> list[Binding]:
        """Return what gets messages of an address, besides everything that is bound to it here."""
        raise NotImplementedError


RouterMaker = Callable[[list[list[Binding]], Router | None], Router]
"""Makes the router of an address from its own bindings and those of each wildcard address that matches it.

It gets the router that it replaces, to continue the rotation; None if there was none, or one of another kind may come.
"""
