"""Parsers for the values of options; a ValueError says what the text must be."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote, urlsplit

ACK_POLICIES: Final = ("eager", "engine", "none", "keep=<batches>")

MOST: Final = 2**63 - 1
"""Largest whole number of an option, which may be compared with numbers of Spark."""
MOST_CREDIT: Final = 2**31 - 1
MOST_S: Final = 30 * 86_400
"""Longest duration, 30 days: AMQP has 32 bits for the milliseconds of an idle timeout."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _number(text: str, form: str) -> float:
    """Return a number; raise ValueError with `form`, what the text must be, instead of Python's words."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"must be {form}") from None
    if not abs(value) < float("inf"):
        raise ValueError(f"must be {form}")
    return value


def _whole(text: str, form: str = "a whole number", most: int = MOST) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"must be {form}") from None
    if value > most:
        raise ValueError(f"must be at most {most}")
    return value


def duration_s(text: str) -> float:
    number = text.strip().lower()
    factor = 1.0
    for unit in sorted(_UNITS, key=len, reverse=True):
        if number.endswith(unit):
            number, factor = number.removesuffix(unit), _UNITS[unit]
            break
    value = _number(number, "a duration such as 500ms, 10s or 2m") * factor
    if value < 0:
        raise ValueError("must not be negative")
    if value > MOST_S:
        raise ValueError(f"must be at most {MOST_S} seconds")
    return value


def timeout_s(text: str) -> float:
    value = duration_s(text)
    if value == 0:
        raise ValueError("must be more than 0")
    return value


def count(text: str) -> int:
    value = _whole(text)
    if value < 1:
        raise ValueError("must be 1 or more")
    return value


def credit(text: str) -> int:
    value = _whole(text, most=MOST_CREDIT)
    if value < 1:
        raise ValueError("must be 1 or more")
    return value


def not_negative(text: str) -> int:
    value = _whole(text)
    if value < 0:
        raise ValueError("must not be negative")
    return value


_BYTE_UNITS: Final = {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "k": 1024, "m": 1024**2, "g": 1024**3}


def byte_count(text: str) -> int:
    number = text.strip().lower()
    for unit, factor in _BYTE_UNITS.items():
        if number.endswith(unit):
            return _bytes(number.removesuffix(unit).strip(), factor)
    return _bytes(number, 1)


def _bytes(text: str, factor: int) -> int:
    value = _whole(text, "a number of bytes such as 65536, 64k or 16m", MOST // factor)
    if value < 1:
        raise ValueError("must be 1 or more")
    return value * factor


def frame_bytes(text: str) -> int:
    value = byte_count(text)
    if not 512 <= value <= 1024**2:
        raise ValueError("must be from 512 bytes to 1 MiB")
    return value


def rate(text: str) -> float:
    value = _number(text, "a number of messages per second")
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def flag(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value == "true"


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def word(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        value = text.strip().lower()
        if value not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return value

    return read


def ack_policy(text: str) -> str:
    value = text.strip().lower().replace(" ", "")
    if value.startswith("keep="):
        return f"keep={count(value.removeprefix('keep='))}"
    return word(*ACK_POLICIES)(value)


def folder(text: str) -> str:
    parts = urlsplit(text.strip())
    path = unquote(parts.path) if parts.scheme == "file" else text.strip()
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise ValueError(
            "must be the whole path of a folder, or file:// and the path: files are appended and synced there, which "
            "object stores do not offer"
        )
    return path


def starting_offsets(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        value = text.strip()
        if value.startswith("{"):
            try:
                json.loads(value)
            except ValueError:
                raise ValueError("must be an offset in JSON, as in a checkpoint") from None
            return value
        return word(*words)(value)

    return read


def timestamp_ms(text: str) -> int:
    if text.strip().isascii() and text.strip().isdecimal():
        return _whole(text)
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("must be milliseconds since 1970, or a time like 2030-01-31T12:00:00Z") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
