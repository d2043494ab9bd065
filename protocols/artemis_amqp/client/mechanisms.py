"""SASL mechanisms, client side: EXTERNAL, SCRAM-SHA-256, PLAIN and ANONYMOUS (RFC 4422, 5802, 4616, 4505).

A login takes the strongest mechanism that the server offers and that its credentials allow. A password is sent as it is
only where nobody can listen, unless PLAIN is allowed by name.
"""

import base64
import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Callable
from typing import Final

from artemis_amqp.engine.handlers import ClientLogin
from artemis_amqp.engine.types import Symbol

EXTERNAL: Final = "EXTERNAL"
SCRAM: Final = "SCRAM-SHA-256"
PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"

MOST_ITERATIONS: Final = 1_000_000
"""Rounds of PBKDF2 that a server may ask for, about 0.3 s: they run on the loop, and more would stop it."""
LEAST_ITERATIONS: Final = 4096
"""RFC 7677 calls fewer rounds weak: a server that asks for them wants to guess the password."""


def make_nonce() -> str:
    """Return 144 random bits in the form that SCRAM requires: printable and without a comma."""
    return base64.b64encode(secrets.token_bytes(18)).decode("ascii")


class StrongestLogin(ClientLogin):
    """Logs in with the strongest mechanism that both sides have."""

    def __init__(
        self,
        user: str | None,
        password: str | None,
        has_certificate: bool,
        may_send_password: bool,
        nonce: Callable[[], str] = make_nonce,
        allowed: tuple[str, ...] = (),
        may_be_anonymous: bool = False,
    ) -> None:
        """Create it; `may_send_password`: the connection is encrypted, or does not leave this machine.

        Mechanisms that are not `allowed` are not used; none: all are. `may_be_anonymous`: without a user the login is
        an anonymous one.
        """
        self._user: Final = user
        self._password: Final = password
        self._has_certificate: Final = has_certificate
        self._may_send_password: Final = may_send_password
        self._nonce: Final = nonce
        self._allowed: Final = allowed
        self._may_be_anonymous: Final = may_be_anonymous
        self._scram: ScramClient | None = None
        self.mechanism = ""
        """Mechanism that was chosen; empty before."""

    def begin(self, offered: tuple[Symbol, ...]) -> tuple[str, bytes | None] | None:
        """Choose EXTERNAL, else SCRAM-SHA-256, else PLAIN, else ANONYMOUS."""
        response: bytes
        usable = [each for each in offered if not self._allowed or each in self._allowed]
        may_send_password = self._may_send_password or PLAIN in self._allowed
        if self._has_certificate and EXTERNAL in usable:
            self.mechanism, response = EXTERNAL, b""
        elif self._user is not None and self._password is not None and SCRAM in usable:
            self._scram = ScramClient(self._user, self._password, self._nonce())
            self.mechanism, response = SCRAM, self._scram.first()
        elif self._user is not None and self._password is not None and PLAIN in usable and may_send_password:
            self.mechanism, response = PLAIN, f"\0{self._user}\0{self._password}".encode()
        elif self._user is None and self._may_be_anonymous and ANONYMOUS in usable:
            self.mechanism, response = ANONYMOUS, b""
        else:
            return None
        return self.mechanism, response

    def respond(self, challenge: bytes) -> bytes | None:
        """Answer a challenge of SCRAM; the other mechanisms have none."""
        return None if self._scram is None else self._scram.final(challenge)

    def complete(self, data: bytes) -> bool:
        """Tell whether the server knows the password too, if the mechanism proves that."""
        return self._scram is None or self._scram.is_proven(data)


class ScramClient:
    """One exchange of SCRAM-SHA-256, without channel binding."""

    def __init__(self, user: str, password: str, nonce: str) -> None:
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._password: Final = unicodedata.normalize("NFKC", password).encode()
        self._nonce: Final = nonce
        self._bare: Final = f"n={name},r={nonce}"
        self._signature = b""
        """Signature that the server must send; empty before it is known."""

    def first(self) -> bytes:
        """Return the client-first-message."""
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes | None:
        """Return the client-final-message; None for a server-first-message that is not acceptable (RFC 5802 §5)."""
        if self._signature:
            return None
        text = server_first.decode("utf-8", "replace")
        fields = dict(each.split("=", 1) for each in text.split(",") if each[1:2] == "=")
        nonce, salt, rounds = fields.get("r", ""), _decoded(fields.get("s", "")), fields.get("i", "")
        if "m" in fields or not salt or not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            return None
        if not (rounds.isascii() and rounds.isdigit() and LEAST_ITERATIONS <= int(rounds[:8]) <= MOST_ITERATIONS):
            return None
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, int(rounds))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._bare},{text},{without_proof}".encode()
        proof = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        mixed = bytes([one ^ other for one, other in zip(client_key, proof, strict=True)])
        return f"{without_proof},p={base64.b64encode(mixed).decode('ascii')}".encode()

    def is_proven(self, server_final: bytes) -> bool:
        """Tell whether the server-final-message proves that the server knows the password."""
        signature = _decoded(server_final.decode("utf-8", "replace").removeprefix("v="))
        return bool(self._signature) and hmac.compare_digest(signature, self._signature)


def _decoded(text: str) -> bytes:
    """Decode base64; return empty bytes if the text is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
