"""Changes of the application properties of a message, and the formats that can make them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from artemis_py.core.messages.message import Message


class _Removed:
    """Type of `REMOVED`."""


REMOVED: Final = _Removed()
"""Stands in changes for the value of a property that goes."""

Changes = Mapping[str, object]
"""New values of properties by name; REMOVED for those that go."""


@runtime_checkable
class PropertiesFormat(Protocol):
    """A format that can change the application properties of a message and nothing else."""

    def read_properties(self, message: "Message") -> dict[str, object]:
        """Return the application properties with the types they have in this protocol. Raises ProtocolError."""

    def with_properties(self, message: "Message", changes: Changes) -> tuple[bytes, bytes]:
        """Return `data` and `annotations` of the message with these changes. Raises ProtocolError.

        The octets of everything else stay as they are, even those of the other properties.
        """


def changed(properties: Mapping[str, object], changes: Changes) -> dict[str, object]:
    """Return properties with these changes, the new ones at the end."""
    kept = {name: value for name, value in properties.items() if name not in changes}
    return kept | {name: value for name, value in changes.items() if value is not REMOVED}
