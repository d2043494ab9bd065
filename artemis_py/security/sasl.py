"""SASL mechanisms, server side: ANONYMOUS, PLAIN, EXTERNAL and SCRAM-SHA-256 (amqp10 §3).

Each exchange is a small state machine that fulfils `protocol.SaslExchange`. Data from a peer affects only the
outcome: malformed data ends in a failed login, like a wrong password, and never raises.
"""

import base64
import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Final

from attrs import evolve, frozen

from artemis_py.core.runtime.access import Subject
from artemis_py.protocol import LoginOutcome, LoginResult
from artemis_py.security.logins import Attempt, LoginService
from artemis_py.security.passwords import SCRAM_NAME, ScramKeys

ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"

Challenge = Callable[[bytes], None]
Done = Callable[[LoginResult], None]


class AnonymousExchange:
    """RFC 4505: the client is logged in without a name, whatever trace text it sends."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def respond(self, data: bytes | None, challenge: Challenge, done: Done) -> None:
        done(LoginResult(LoginOutcome.OK, self._subject))


class _ClientFirstExchange(ABC):
    """A mechanism in which the client speaks first; if it does not, it is asked once with an empty challenge.

    A null initial response differs from an empty one; some clients send PLAIN that way (amqp10 §3).
    """

    def __init__(self, logins: LoginService, peer: str, mechanism: str) -> None:
        self._logins = logins
        self._attempt = Attempt(None, peer, mechanism)
        self._asked = False

    def respond(self, data: bytes | None, challenge: Challenge, done: Done) -> None:
        if data is not None:
            self._receive(data, challenge, done)
        elif self._asked:
            self._fail("no response", done)
        else:
            self._asked = True
            challenge(b"")

    @abstractmethod
    def _receive(self, data: bytes, challenge: Challenge, done: Done) -> None:
        """Process one response."""

    def _fail(self, reason: str, done: Done) -> None:
        self._logins.fail(self._attempt, reason, done)


class PlainExchange(_ClientFirstExchange):
    """RFC 4616: `[authzid] NUL authcid NUL password` in UTF-8."""

    def __init__(self, logins: LoginService, peer: str) -> None:
        super().__init__(logins, peer, PLAIN)

    def _receive(self, data: bytes, challenge: Challenge, done: Done) -> None:
        try:
            parts = data.decode("utf-8").split("\0")
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3 or not parts[1]:
            return self._fail("malformed response", done)
        authorization, user, password = parts
        self._attempt = evolve(self._attempt, user=user)
        if authorization not in ("", user):
            return self._fail("wants to act as another user", done)
        return self._logins.check_password(self._attempt, password, done)


class ExternalExchange(_ClientFirstExchange):
    """RFC 4422 appendix A: the TLS layer has verified a certificate; its whole subject name is the user."""

    def __init__(self, logins: LoginService, peer: str, certificate_subject: str) -> None:
        super().__init__(logins, peer, EXTERNAL)
        self._user = certificate_subject
        self._attempt = evolve(self._attempt, user=certificate_subject)

    def _receive(self, data: bytes, challenge: Challenge, done: Done) -> None:
        if data not in (b"", self._user.encode("utf-8", "replace")):
            return self._fail("wants to act as another user", done)
        return self._logins.succeed(self._logins.users.subject(self._user), done)


class _ScramState(Enum):
    """State of a SCRAM exchange: what it waits for."""

    CLIENT_FIRST = "client-first-message"
    KEYS = "keys from the worker"
    CLIENT_FINAL = "client-final-message"
    ENDED = "nothing"


@frozen
class _ClientFirst:
    gs2_header: str
    """GS2 header, including its last comma."""
    bare: str
    user: str
    authorization: str
    nonce: str


class ScramExchange(_ClientFirstExchange):
    """RFC 5802 with SHA-256 (RFC 7677), without channel binding.

    The server-final message goes out with the outcome, where Proton and Qpid JMS read it (amqp10 §3).
    """

    def __init__(self, logins: LoginService, peer: str, nonce: Callable[[], str]) -> None:
        """Create it; `nonce` returns a new value each time, in printable ASCII without commas."""
        super().__init__(logins, peer, SCRAM_NAME)
        self._make_nonce = nonce
        self._state = _ScramState.CLIENT_FIRST
        self._first = _ClientFirst("", "", "", "", "")
        self._server_first = ""
        self._nonce = ""
        self._keys = ScramKeys(0, b"", b"", b"")
        self._genuine = False

    def _receive(self, data: bytes, challenge: Challenge, done: Done) -> None:
        state, self._state = self._state, _ScramState.ENDED
        if state is _ScramState.CLIENT_FIRST:
            self._receive_first(data, challenge, done)
        elif state is _ScramState.CLIENT_FINAL:
            self._receive_final(data, done)
        else:
            self._fail("out of turn", done)

    def _receive_first(self, data: bytes, challenge: Challenge, done: Done) -> None:
        first = _parse_client_first(data)
        if first is None:
            return self._fail("malformed client-first-message", done)
        self._first = first
        self._attempt = evolve(self._attempt, user=first.user)
        if first.authorization not in ("", first.user):
            return self._fail("wants to act as another user", done)

        def found(keys: ScramKeys, genuine: bool) -> None:
            if self._state is not _ScramState.KEYS:
                return
            self._state = _ScramState.CLIENT_FINAL
            self._keys, self._genuine = keys, genuine
            self._nonce = first.nonce + self._make_nonce()
            self._server_first = f"r={self._nonce},s={_to_text(keys.salt)},i={keys.iterations}"
            challenge(self._server_first.encode())

        self._state = _ScramState.KEYS
        return self._logins.scram_keys(self._attempt, found, done)

    def _receive_final(self, data: bytes, done: Done) -> None:
        """Check RFC 5802 §3: ClientKey = ClientProof XOR ClientSignature, and H(ClientKey) must be StoredKey."""
        text = data.decode("utf-8", "replace")
        without_proof, separator, encoded = text.rpartition(",p=")
        fields = without_proof.split(",")
        proof = _from_text(encoded)
        expected = [f"c={_to_text(self._first.gs2_header.encode())}", f"r={self._nonce}"]
        if not separator or len(proof) != 32 or fields[:2] != expected or any(map(_is_mandatory, fields[2:])):
            return self._fail("malformed client-final-message", done)
        message = f"{self._first.bare},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(self._keys.stored_key, message, "sha256")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        proven = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._keys.stored_key)
        if not (proven and self._genuine):
            return self._fail("wrong password" if self._genuine else "no such user, or no SCRAM keys", done)
        final = b"v=" + base64.b64encode(hmac.digest(self._keys.server_key, message, "sha256"))
        return self._logins.succeed(self._logins.users.subject(self._first.user), done, final)


def _parse_client_first(data: bytes) -> _ClientFirst | None:
    """Parse `n,[a=authzid],n=user,r=nonce[,extensions]`; None for anything else, channel binding included."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    fields = text.split(",")
    if len(fields) < 4 or fields[0] not in ("n", "y") or any(map(_is_mandatory, fields[2:])):
        return None
    authorization = _decode_name(fields[1].removeprefix("a=")) if fields[1] else ""
    user = _decode_name(fields[2].removeprefix("n="))
    nonce = fields[3].removeprefix("r=")
    if fields[1] and not fields[1].startswith("a="):
        return None
    if not (fields[2].startswith("n=") and user and fields[3].startswith("r=") and nonce and authorization is not None):
        return None
    gs2_header = f"{fields[0]},{fields[1]},"
    return _ClientFirst(gs2_header, text[len(gs2_header) :], user, authorization, nonce)


def _is_mandatory(field: str) -> bool:
    """Tell whether a field is an extension that the server must know; it knows none (RFC 5802 §5.1, attribute m)."""
    return field.startswith("m=")


def _decode_name(text: str) -> str | None:
    """Decode `=2C` to a comma and `=3D` to an equals sign; None for any other use of `=` (RFC 5802 §5.1)."""
    name = text.replace("=2C", ",")
    return name.replace("=3D", "=") if name.count("=") == name.count("=3D") else None


def _to_text(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _from_text(text: str) -> bytes:
    """Decode base64; return empty bytes if the text is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
