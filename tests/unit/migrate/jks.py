"""Writes key stores of Java, for tests: the format as keytool writes it, in the smallest form."""

import hashlib
import struct


def jks(password: str, *entries: bytes) -> bytes:
    """A JKS file."""
    body = b"\xfe\xed\xfe\xed" + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def trusted(alias: str, certificate: bytes) -> bytes:
    """An entry with a certificate that is trusted."""
    return struct.pack(">I", 2) + _text(alias) + struct.pack(">Q", 0) + _certificate(certificate)


def private(alias: str, key: bytes, password: str, *chain: bytes) -> bytes:
    """An entry with a PKCS 8 key, masked with a password."""
    secret, salt = password.encode("utf-16-be"), b"0123456789abcdefghij"
    mask, link = b"", salt
    while len(mask) < len(key):
        link = hashlib.sha1(secret + link).digest()
        mask += link
    masked = bytes(one ^ other for one, other in zip(key, mask, strict=False))
    content = salt + masked + hashlib.sha1(secret + key).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    info = _der(0x30, algorithm + _der(0x04, content))
    head = struct.pack(">I", 1) + _text(alias) + struct.pack(">Q", 0) + struct.pack(">I", len(info)) + info
    return head + struct.pack(">I", len(chain)) + b"".join(map(_certificate, chain))


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _certificate(der: bytes) -> bytes:
    return _text("X.509") + struct.pack(">I", len(der)) + der


def _der(tag: int, content: bytes) -> bytes:
    size = len(content).to_bytes(4, "big")
    return bytes([tag, 0x84]) + size + content


EMPTY_TRUST_STORE = jks("other")
