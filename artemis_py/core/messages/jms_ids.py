"""Message and correlation ids as JMS clients write them: as texts (artemis-model §4.1.6).

Some protocols have ids that are octets, numbers or UUIDs. Their text names the type, so that the answer to a message
can carry the id in its own type again: a client that knows texts only copies the message id into the correlation id.
"""

from typing import Final
from uuid import UUID

_PREFIX: Final = "ID:"
_BINARY: Final = "ID:AMQP_BINARY:"
_NO_PREFIX: Final = "ID:AMQP_NO_PREFIX:"
_STRING: Final = "ID:AMQP_STRING:"
_ULONG: Final = "ID:AMQP_ULONG:"
_UUID: Final = "ID:AMQP_UUID:"
_TYPE_PREFIXES: Final = (_BINARY, _NO_PREFIX, _STRING, _ULONG, _UUID)


def jms_id(value: object, is_correlation: bool = False) -> str | None:
    """Return a message id as JMS clients spell it: a string from which the id can be restored.

    A correlation id may be any string of the application: without `ID:` it stays as it is.
    """
    if isinstance(value, str):
        if not value.startswith(_PREFIX):
            return str(value) if is_correlation else f"{_NO_PREFIX}{value}"
        return f"{_STRING}{value}" if value.startswith(_TYPE_PREFIXES) else str(value)
    if isinstance(value, UUID):
        return f"{_UUID}{value}"
    if isinstance(value, bytes):
        return f"{_BINARY}{value.hex().upper()}"
    if isinstance(value, int):
        return f"{_ULONG}{int(value)}"
    return None


def native_id(text: str) -> object:
    """Return the id that `jms_id` wrote, with its type; any other text is an id itself."""
    if text.startswith(_NO_PREFIX):
        return text[len(_NO_PREFIX) :]
    if text.startswith(_STRING):
        return text[len(_STRING) :]
    try:
        if text.startswith(_UUID):
            return UUID(text[len(_UUID) :])
        if text.startswith(_BINARY):
            return bytes.fromhex(text[len(_BINARY) :])
        if text.startswith(_ULONG) and 0 <= int(text[len(_ULONG) :]) < 1 << 64:
            return int(text[len(_ULONG) :])
    except ValueError:
        pass
    return text
