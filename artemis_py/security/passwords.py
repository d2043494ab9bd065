"""Stored passwords: how they are written, derived and checked.

In the users file a password is `ENC(argon2id)` or `ENC(argon2id|scram)`:

    ENC($argon2id$v=19$m=7168,t=5,p=1$<salt>$<hash>|SCRAM-SHA-256$<iterations>$<salt>$<StoredKey>$<ServerKey>)

The first half is argon2's usual text and checks a password that the client sends (PLAIN). The second half, with fields
in base64, lets a client prove that it knows the password without sending it (RFC 5802); without it the user cannot log
in with SCRAM-SHA-256. Neither half allows logging in as the user, but a thief of the file can try passwords against
the cheaper one.

Hashes of other brokers are checked and never written, so that their users keep their passwords: in place of the first
half one of mosquitto (`security.mosquitto_hashes`), and Artemis' `ENC(<iterations>:<salt>:<hash>)`, in hexadecimal:
PBKDF2 with HMAC-SHA-1, 1024 rounds. They cost a thief of the file little.
"""

import base64
import hashlib
import hmac
import secrets
import unicodedata
from typing import Final

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError
from attrs import frozen

from artemis_py.security import mosquitto_hashes

SCRAM_NAME: Final = "SCRAM-SHA-256"

# RFC 7677 calls fewer iterations weak. Without an upper bound, a typing mistake could stop all logins.
_LEAST_ITERATIONS: Final = 4096
_MOST_ITERATIONS: Final = 10_000_000

# Artemis writes 64 bytes; a hash of a few bytes would match many passwords, and a long one costs more rounds.
_LEAST_PBKDF2_BYTES: Final = 16
_MOST_PBKDF2_BYTES: Final = 128


@frozen(kw_only=True)
class HashCost:
    """Work that one guess of a password costs."""

    memory_kib: int = 7168
    """Memory of argon2id. 7 MiB with 5 passes, about 20 ms on one core, needs the least memory of the settings that
    OWASP calls equivalent."""
    passes: int = 5
    scram_iterations: int = 50_000
    """Rounds of PBKDF2, about 15 ms; the client must do the same at each login."""


DEFAULT_COST: Final = HashCost()


@frozen
class ScramKeys:
    """Keys that a server stores for SCRAM (RFC 5802 §3)."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


@frozen
class HashedPassword:
    """A password as it is stored."""

    argon2: str
    scram: ScramKeys | None


@frozen
class ArtemisPassword:
    """A password as Artemis stores it."""

    iterations: int
    salt: bytes
    digest: bytes


def hash_password(password: str, cost: HashCost = DEFAULT_COST) -> str:
    """Return the value for the users file, with new salts. Slow on purpose."""
    hasher = PasswordHasher(time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=1, type=Type.ID)
    keys = derive_scram_keys(password, secrets.token_bytes(16), cost.scram_iterations)
    fields = [str(keys.iterations), _to_text(keys.salt), _to_text(keys.stored_key), _to_text(keys.server_key)]
    return f"ENC({hasher.hash(_encode(password))}|{'$'.join([SCRAM_NAME, *fields])})"


def parse_hash(text: str) -> HashedPassword | ArtemisPassword:
    """Read what `hash_password` wrote, with or without the second half, or what Artemis wrote.

    Raises ValueError; its text says what is expected and repeats nothing of the input.
    """
    inside = text.removeprefix("ENC(").removesuffix(")")
    if inside.count(":") == 2:
        return _parse_artemis(inside)
    argon2, separator, scram = inside.partition("|")
    if mosquitto_hashes.is_one(argon2):
        mosquitto_hashes.parse(argon2)
        return HashedPassword(argon2, _parse_scram(scram) if separator else None)
    try:
        parameters = extract_parameters(argon2)
    except InvalidHashError:
        raise ValueError(
            "expected ENC($argon2id$...), as `artemis-py user hash` prints it, or ENC(iterations:salt:hash) of Artemis"
        ) from None
    if parameters.type is not Type.ID:
        raise ValueError("only the argon2id kind of argon2 is supported")
    return HashedPassword(argon2, _parse_scram(scram) if separator else None)


def check_hash(argon2: str, password: str) -> bool:
    """Tell whether `password` matches this hash, in constant time. Slow on purpose; never raises."""
    if mosquitto_hashes.is_one(argon2):
        return mosquitto_hashes.check(argon2, _encode(password))
    try:
        return PasswordHasher().verify(argon2, _encode(password))
    except (Argon2Error, InvalidHashError):
        return False


def check_artemis(stored: ArtemisPassword, password: str) -> bool:
    """Tell whether `password` matches a hash of Artemis, in constant time; never raises."""
    derived = hashlib.pbkdf2_hmac("sha1", _encode(password), stored.salt, stored.iterations, len(stored.digest))
    return hmac.compare_digest(derived, stored.digest)


def hash_of_nobody(cost: HashCost) -> str:
    """Return a hash that no password matches; checking it costs as much as checking a real one."""
    salt, digest = "A" * 22, "A" * 43
    return f"$argon2id$v=19$m={cost.memory_kib},t={cost.passes},p=1${salt}${digest}"


def derive_scram_keys(password: str, salt: bytes, iterations: int) -> ScramKeys:
    """Derive the keys of RFC 5802 §3. Slow on purpose.

    Only the normalization step of SASLprep (RFC 4013) is done; for ASCII passwords that makes no difference.
    """
    salted = hashlib.pbkdf2_hmac("sha256", _encode(unicodedata.normalize("NFKC", password)), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    return ScramKeys(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"))


def _parse_artemis(text: str) -> ArtemisPassword:
    iterations, *fields = text.split(":")
    try:
        salt, digest = (bytes.fromhex(field) for field in fields)
    except ValueError:
        salt = digest = b""
    if not (iterations.isascii() and iterations.isdigit()) or not salt or not digest:
        raise ValueError("expected ENC(iterations:salt:hash), as `artemis mask --hash` prints it, in hexadecimal")
    if len(iterations) > 8 or not 1 <= int(iterations) <= _MOST_ITERATIONS:
        raise ValueError(f"the iterations must be 1 to {_MOST_ITERATIONS}")
    if not _LEAST_PBKDF2_BYTES <= len(digest) <= _MOST_PBKDF2_BYTES:
        raise ValueError(f"the hash must have {_LEAST_PBKDF2_BYTES} to {_MOST_PBKDF2_BYTES} bytes")
    return ArtemisPassword(int(iterations), salt, digest)


def _parse_scram(text: str) -> ScramKeys:
    expected = ValueError(f"expected {SCRAM_NAME}$iterations$salt$StoredKey$ServerKey after the |")
    name, *fields = text.split("$")
    if name != SCRAM_NAME or len(fields) != 4 or not (fields[0].isascii() and fields[0].isdigit()):
        raise expected
    try:
        salt, stored_key, server_key = (base64.b64decode(field, validate=True) for field in fields[1:])
    except ValueError:
        raise expected from None
    if len(fields[0]) > 8 or not _LEAST_ITERATIONS <= int(fields[0]) <= _MOST_ITERATIONS:
        raise ValueError(f"the SCRAM iterations must be {_LEAST_ITERATIONS} to {_MOST_ITERATIONS}")
    if not salt or len(stored_key) != 32 or len(server_key) != 32:
        raise expected
    return ScramKeys(int(fields[0]), salt, stored_key, server_key)


def _encode(password: str) -> bytes:
    """Encode a password; any str can be one, even if it is not valid Unicode."""
    return password.encode("utf-8", "surrogatepass")


def _to_text(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
