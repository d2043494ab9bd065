"""What management shows of the body of one message. Whoever asks needs the permission to browse its queue."""

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.reference import Reference
from artemis_py.core.queues.treating import Treatment, treat
from artemis_py.core.runtime.background import Steps
from artemis_py.errors import ProtocolError, StoreError
from artemis_py.management.control import Operation, Row, browsing, view
from artemis_py.management.message_control import ID, single
from artemis_py.management.message_facts import message_facts

if TYPE_CHECKING:
    from artemis_py.management.queue_control import QueueControl

SHOWN_BYTES: Final = 64 * 1024
"""Octets, or characters of a text, that are shown of a body; messages that are larger are mostly kept in files."""

DEEPEST: Final = 20
"""Levels of maps and lists that are shown as such; what is below is shown as one text."""


class Showing(Treatment):
    """Describes one message with its body, and changes nothing."""

    def __init__(self) -> None:
        super().__init__(removes=False)
        self.shown: dict[str, object] | None = None

    def begin(self, reference: Reference) -> bool:
        """Describe the message."""
        self.shown = {**message_facts(reference), "body": body_of(reference)}
        return True


def body_of(reference: Reference) -> dict[str, object]:
    """Return a body as JSON: its `kind`, its `length`, what there is to read (`text`), and octets in base64 (`data`).

    The kind is `none`, `text`, `bytes`, `structure` (maps, lists and single values, as JSON), `large` (in a file, which
    is not read) or `unreadable`. The length is that of the whole: characters of a text or a structure, or octets.
    `isCut` says that not all of it is here. Octets that are text in UTF-8 have a `text` as well.
    """
    message = reference.message
    if message.large is not None:
        return {"kind": "large", "length": message.content_size, "text": None, "isCut": True}
    had_view = message.view_cache is not None
    try:
        body = message.view.body
    except (ProtocolError, StoreError) as error:
        return {"kind": "unreadable", "length": message.content_size, "text": str(error), "isCut": True}
    if not had_view:
        # Nothing counts the memory of decoded messages.
        message.view_cache = None
    if body is None:
        return {"kind": "none", "length": 0, "text": "", "isCut": False}
    if isinstance(body, bytes):
        some = body[:SHOWN_BYTES]
        return {
            "kind": "bytes",
            "length": len(body),
            "text": _text_of(body),
            "data": base64.b64encode(some).decode("ascii"),
            "isCut": len(some) < len(body),
        }
    kind, text = ("text", body) if isinstance(body, str) else ("structure", json.dumps(plain(body), indent=1))
    return {"kind": kind, "length": len(text), "text": text[:SHOWN_BYTES], "isCut": len(text) > SHOWN_BYTES}


def _text_of(body: bytes) -> str | None:
    """Return octets as text; None if they are none."""
    try:
        return body.decode("utf-8")[:SHOWN_BYTES]
    except UnicodeDecodeError:
        return None


def plain(value: object, depth: int = 0) -> object:
    """Return a value in JSON's types; octets are hexadecimal, and what JSON does not have is text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if depth < DEEPEST and isinstance(value, Mapping):
        return {str(plain(key)): plain(item, depth + 1) for key, item in value.items()}
    if depth < DEEPEST and isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    return str(value)


def _show(control: "QueueControl", number: int) -> Steps:
    """Return the message with this number, as JSON text; None if none of that number waits."""
    showing = Showing()
    yield from treat(control.queue, single(number), showing, -1, 1)
    return None if showing.shown is None else json.dumps(showing.shown)


BODY_OPERATIONS: Final[Mapping[str, Row]] = {"showMessage": browsing(view(Operation(_show, ID)))}
"""Operations of `queue.<name>`."""
