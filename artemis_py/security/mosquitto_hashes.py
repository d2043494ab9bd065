"""Hashes as `mosquitto_passwd` writes them: `$7$iterations$salt$hash`, PBKDF2 with SHA-512, fields in base64.

Its users keep their passwords when they move here. The default of mosquitto, 101 iterations, is far less work per guess
than argon2, so a new password should be hashed by `artemis-py user hash`.
"""

import base64
import hashlib
import hmac
from typing import Final

_PREFIX: Final = "$7$"
# Without an upper bound, a typing mistake could stop all logins.
_MOST_ITERATIONS: Final = 10_000_000


def is_one(text: str) -> bool:
    """Tell whether a text is meant as such a hash."""
    return text.startswith(_PREFIX)


def parse(text: str) -> tuple[int, bytes, bytes]:
    """Return iterations, salt and hash. Raises ValueError, whose text repeats nothing of the input."""
    fields = text.removeprefix(_PREFIX).split("$")
    expected = ValueError("expected $7$iterations$salt$hash, as mosquitto_passwd writes it")
    if len(fields) != 3 or not (fields[0].isascii() and fields[0].isdigit()) or len(fields[0]) > 8:
        raise expected
    try:
        salt, digest = (base64.b64decode(field, validate=True) for field in fields[1:])
    except ValueError:
        raise expected from None
    iterations = int(fields[0])
    if not 1 <= iterations <= _MOST_ITERATIONS or not salt or len(digest) != hashlib.sha512().digest_size:
        raise expected
    return iterations, salt, digest


def check(text: str, password: bytes) -> bool:
    """Tell whether a password matches, in constant time; a text that is no such hash matches nothing."""
    try:
        iterations, salt, digest = parse(text)
    except ValueError:
        return False
    return hmac.compare_digest(hashlib.pbkdf2_hmac("sha512", password, salt, iterations), digest)
