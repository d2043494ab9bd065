"""Tokens: secrets with which programs log in as a user over HTTP, each for a purpose and until a day.

    apy_<id>_<secret>      id: 12 digits and small letters, which anybody may know; secret: 256 random bits

A token has the roles that its owner has when it is used. It ends on its day, when it is revoked, and when its owner is
removed; a new password of the owner does not end it. Only a hash of the secret is kept, in records of the store by id:

    {"name", "owner", "scope", "hash", "created_ms", "ends_ms", "used_ms"}

A secret of 256 random bits cannot be guessed, so a fast hash (SHA-256, no salt) keeps it as well as a slow one.
"""

import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterator
from enum import Enum
from hashlib import sha256
from typing import Final

from attrs import evolve, frozen

from artemis_py.core.queues.storage import RecordStorage
from artemis_py.errors import InvalidRequest, LimitExceeded
from artemis_py.logs import named_logger
from artemis_py.security.users import Users

LOGGER: Final = named_logger(__name__)

SPACE: Final = "tokens"
"""Space of the store's records of tokens, by their ids."""

DEFAULT_DAYS: Final = 90
"""Days after which a token ends, if it was made without saying so."""
MOST_DAYS: Final = 366
"""Most days that a token may have: one that is forgotten must end some day."""

MOST_TOKENS: Final = 1_000
"""Tokens of a broker, about 300 octets each; they are all in memory."""
MOST_OF_OWNER: Final = 100
"""Tokens of one user: no user may take all of the room."""
LONGEST_NAME: Final = 100
"""Characters of a token's name."""

KEPT_DAYS: Final = 30
"""Days after which a token that has ended is forgotten; until then a list shows it, and the log names it."""

USE_SAVED_MS: Final = 3_600_000
"""A use is stored if the stored one is older than this. A scrape each second must not cost a write each second."""

DAY_MS: Final = 86_400_000

PATTERN: Final = re.compile(r"apy_([0-9a-z]{12})_([A-Za-z0-9_-]{43})")

_IN_TEXT: Final = re.compile(r"(apy_[0-9a-z]{1,12})_[A-Za-z0-9_-]+")
_ID_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 12
_SECRET_BYTES: Final = 32
_NO_HASH: Final = bytes(32)


class Scope(Enum):
    """What a token may be used for, within the rights of its owner."""

    ALL = "all"
    READ = "read"
    """Requests that change nothing: GET, reads of Jolokia, and the metrics."""
    METRICS = "metrics"
    """Only `/metrics`."""


@frozen(kw_only=True)
class Token:
    """One token, without its secret. Times are in milliseconds since 1970."""

    id: str
    name: str
    owner: str
    scope: Scope
    hash: bytes
    """SHA-256 of the secret."""
    created_ms: int
    ends_ms: int
    used_ms: int = 0
    """Time of the last use that is known; 0: never."""


@frozen
class WrongToken:
    """Why a text is no token that opens anything; both are for the log only."""

    owner: str
    """User of the token; empty if that is not known."""
    reason: str


class Tokens:
    """The tokens of one broker."""

    def __init__(self, storage: RecordStorage, now_ms: Callable[[], int]) -> None:
        """Create it without tokens; `now_ms` returns milliseconds since 1970."""
        self._storage: Final = storage
        self._now_ms: Final = now_ms
        self._tokens: Final[dict[str, Token]] = {}
        self._saved_use_ms: Final[dict[str, int]] = {}
        """Last use of each token as it is in the store."""
        self.is_restored = False
        """Whether the tokens of an earlier run are known: a broker answers HTTP before it has read its store."""

    @property
    def is_durable(self) -> bool:
        """Whether tokens survive a restart."""
        return self._storage.is_durable

    def __iter__(self) -> Iterator[Token]:
        return iter(list(self._tokens.values()))

    def restore(self, users: Users | None) -> None:
        """Read the tokens of an earlier run; those whose owner does not exist any more end. Called once.

        `users` is None without `security-enabled`, where anybody exists.
        """
        self.is_restored = True
        for key, value in self._storage.load_records(SPACE):
            token = _read(key, value)
            if token is None:
                LOGGER.warning("token is damaged and does not open anything: id=%s", key.decode("utf-8", "replace"))
                continue
            self._tokens[token.id] = token
            self._saved_use_ms[token.id] = token.used_ms
        self._forget_old()
        if users is not None:
            self.users_changed(users, users)

    def create(self, owner: str, name: str, scope: Scope, days: int) -> tuple[Token, str]:
        """Make a token; return it and the text that its user sends, which nobody can ask for again.

        Raises InvalidRequest, LimitExceeded.
        """
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise InvalidRequest(f"a token needs a name of 1 to {LONGEST_NAME} characters that can be printed")
        if not 1 <= days <= MOST_DAYS:
            raise InvalidRequest(f"a token ends after 1 to {MOST_DAYS} days, not {days}")
        self._forget_old()
        own = [token for token in self if token.owner == owner]
        if any(token.name == name for token in own):
            raise InvalidRequest(f"user '{owner}' has a token named {name!r}: revoke it first, or choose another name")
        if len(own) >= MOST_OF_OWNER:
            raise LimitExceeded(f"user '{owner}' has {MOST_OF_OWNER} tokens, which is the limit: revoke some")
        if len(self._tokens) >= MOST_TOKENS:
            raise LimitExceeded(f"there are {MOST_TOKENS} tokens, which is the limit: revoke some")
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        now_ms = self._now_ms()
        token = Token(
            id=self._new_id(),
            name=name,
            owner=owner,
            scope=scope,
            hash=_hash(secret),
            created_ms=now_ms,
            ends_ms=now_ms + days * DAY_MS,
        )
        self._tokens[token.id] = token
        self._save(token)
        return token, f"apy_{token.id}_{secret}"

    def revoke(self, id: str) -> bool:
        """End a token for good; False if there is none of this id."""
        if self._tokens.pop(id, None) is None:
            return False
        self._saved_use_ms.pop(id, None)
        self._storage.save_record(SPACE, id.encode(), None)
        return True

    def users_changed(self, old: Users, new: Users) -> None:
        """End the tokens of users that were removed."""
        for owner in {token.owner for token in self if not new.exists(token.owner)}:
            ended = [token for token in self if token.owner == owner]
            for token in ended:
                self.revoke(token.id)
            if ended:
                LOGGER.info("tokens ended, because their owner was removed: owner=%s tokens=%d", owner, len(ended))

    def check(self, text: str) -> Token | WrongToken:
        """Return the token that a text is, or why it is none. Secrets are compared in constant time."""
        match = PATTERN.fullmatch(text)
        if match is None:
            return WrongToken("", "it is not a token")
        token = self._tokens.get(match[1])
        is_right = hmac.compare_digest(_hash(match[2]), _NO_HASH if token is None else token.hash)
        if token is None:
            return WrongToken("", "no such token")
        if not is_right:
            return WrongToken(token.owner, f"wrong secret of token {token.id}")
        if self._now_ms() >= token.ends_ms:
            return WrongToken(token.owner, f"token {token.id} has ended")
        return token

    def note_use(self, token: Token) -> None:
        """Remember that a token was used now; to be called within a turn of the broker."""
        now_ms = self._now_ms()
        used = self._tokens[token.id] = evolve(token, used_ms=now_ms)
        if now_ms - self._saved_use_ms.get(token.id, 0) >= USE_SAVED_MS:
            self._save(used)

    def _save(self, token: Token) -> None:
        self._saved_use_ms[token.id] = token.used_ms
        self._storage.save_record(SPACE, token.id.encode(), _record(token))

    def _new_id(self) -> str:
        while True:
            id = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
            if id not in self._tokens:
                return id

    def _forget_old(self) -> None:
        before_ms = self._now_ms() - KEPT_DAYS * DAY_MS
        for token in self:
            if token.ends_ms < before_ms:
                self.revoke(token.id)


def without_secrets(text: str) -> str:
    """Return a text in which of each token only the id is left."""
    return _IN_TEXT.sub(r"\1_…", text)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("ascii")).digest()


def _record(token: Token) -> bytes:
    record = {
        "name": token.name,
        "owner": token.owner,
        "scope": token.scope.value,
        "hash": token.hash.hex(),
        "created_ms": token.created_ms,
        "ends_ms": token.ends_ms,
        "used_ms": token.used_ms,
    }
    return json.dumps(record).encode()


def _read(key: bytes, value: bytes) -> Token | None:
    """Return the token of a record; None if it cannot be read."""
    try:
        record = json.loads(value)
        return Token(
            id=key.decode("ascii"),
            name=str(record["name"]),
            owner=str(record["owner"]),
            scope=Scope(record["scope"]),
            hash=bytes.fromhex(record["hash"]),
            created_ms=int(record["created_ms"]),
            ends_ms=int(record["ends_ms"]),
            used_ms=int(record["used_ms"]),
        )
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        return None
