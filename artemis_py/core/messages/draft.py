"""A draft: a copy of a message that a transformer may change before it is routed.

The properties are changed without touching the body (`PropertiesFormat`). A format that cannot do that, and a new body,
have the message written again in the broker's own format.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Final
from uuid import UUID

from attrs import evolve

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.changes import REMOVED, Changes, PropertiesFormat, changed
from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, Message

MAX_PROPERTY_CHARS: Final = 65_535
"""Most characters or octets in the name or the value of a property that a transformer sets: what MQTT can carry."""


class Unchanged(Exception):
    """Raised by a transformer: the message is to be sent on as it came, and counted; the text says why."""


class Properties(MutableMapping[str, object]):
    """The application properties of a draft.

    A value is None, text, octets, a number, a truth value or a UUID. Others can be moved to another name.
    """

    def __init__(self, message: Message) -> None:
        self._message: Final = message
        self._before: dict[str, object] | None = None
        self._now: dict[str, object] = {}

    def _values(self) -> dict[str, object]:
        """Return the properties as they are now, decoded when first asked for."""
        if self._before is None:
            format = self._message.format
            if isinstance(format, PropertiesFormat):
                self._before = format.read_properties(self._message)
            else:
                self._before = self._message.view.properties
            self._now = dict(self._before)
        return self._now

    def __getitem__(self, name: str) -> object:
        return self._values()[name]

    def __setitem__(self, name: str, value: object) -> None:
        values = self._values()
        assert self._before is not None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_PROPERTY_CHARS:
            raise ValueError(f"the name of a property has 1 to {MAX_PROPERTY_CHARS} characters")
        if not is_simple(value) and not any(value is each for each in self._before.values()):
            raise ValueError(f"property '{name[:100]}' cannot be this {type(value).__name__}")
        values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def changes(self) -> dict[str, object]:
        """Return what differs from the message."""
        before, now = self._before, self._now
        if before is None:
            return {}
        changed = {name: value for name, value in now.items() if name not in before or before[name] is not value}
        return changed | {name: REMOVED for name in before if name not in now}


def is_simple(value: object) -> bool:
    """Tell whether every protocol has a form for a property with this value."""
    if isinstance(value, bool) or value is None or isinstance(value, float | UUID):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | bytes) and len(value) <= MAX_PROPERTY_CHARS


class Draft:
    """A copy of a message, for one transformer. Changes count when the transformer returns; if it raises, none does."""

    def __init__(self, message: Message, now_ms: int) -> None:
        self._message: Final = message
        self._body: object = None
        self._has_new_body = False
        self.now_ms: Final = now_ms
        """The broker's time, in milliseconds since 1970."""
        self.properties: Final = Properties(message)
        self.priority: int = message.priority
        """0 to 9."""
        self.expires_ms: int = message.expires_ms
        """Time at which the copy expires, in milliseconds since 1970; 0 means never."""

    @property
    def address(self) -> str:
        """Address that the original was sent to."""
        return self._message.address

    @property
    def durable(self) -> bool:
        """Whether it survives a restart."""
        return self._message.durable

    @property
    def size(self) -> int:
        """Octets of properties and body, without decoding them."""
        return self._message.content_size

    @property
    def body(self) -> object:
        """The body as in `MessageView`. Raises ProtocolError if it is damaged, StoreError if it is too large.

        The original shares it, so it must not be changed in place. A new body takes time and memory, because all of
        the message is written again.
        """
        return self._body if self._has_new_body else self._message.view.body

    @body.setter
    def body(self, body: object) -> None:
        self._body = body
        self._has_new_body = True

    def lookup(self, name: str) -> object:
        """Return the value that a selector finds under a name; None if there is none. Changes do not show."""
        return self._message.lookup(name)

    def apply(self) -> None:
        """Change the message, which must not be routed yet.

        Raises TypeError or ValueError for a value that no message can have, ProtocolError or StoreError if its present
        content cannot be read.
        """
        message = self._message
        priority, expires_ms = self.priority, self.expires_ms
        if type(priority) is not int or not 0 <= priority <= 9:
            raise ValueError(f"the priority is {priority!r}; it is a whole number from 0 to 9")
        if type(expires_ms) is not int or not 0 <= expires_ms < 2**63:
            raise ValueError(f"the time of expiry is {expires_ms!r}; it is in milliseconds since 1970")
        changes = self.properties.changes()
        if self._has_new_body or (changes and not isinstance(message.format, PropertiesFormat)):
            self._write_again(changes)
        elif changes and isinstance(message.format, PropertiesFormat):
            message.data, message.annotations = message.format.with_properties(message, changes)
        message.priority = priority
        message.expires_ms = expires_ms
        if changes or self._has_new_body:
            message.size = len(message.data) + len(message.annotations) + MESSAGE_OVERHEAD_BYTES
            message.view_cache = None
            message.encodings = None

    def _write_again(self, changes: Changes) -> None:
        """Give the message another content, in the broker's own format."""
        message = self._message
        view = message.view
        written = plain_message(
            message.address,
            evolve(view, properties=changed(view.properties, changes), body=self.body),
        )
        message.format = PLAIN_FORMAT
        message.data = written.data
        message.annotations = b""
        message.large = None


Transformer = Callable[[Draft], object]
"""Changes a draft. It must return quickly, because the broker does nothing else in that time.

If it raises `Unchanged`, the message is sent on as it came; after any other exception it is not sent on.
"""

TransformerFactory = Callable[[Mapping[str, str]], Transformer]
"""Makes a transformer from the properties in the configuration. Raises ValueError for one that is wrong or missing."""
