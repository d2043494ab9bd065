"""Turns Java key stores into PEM: JKS, which is read here, and PKCS 12, for which `cryptography` is needed.

A JKS file is a list of entries between a head and a keyed hash; numbers are big-endian:

    feedfeed  version(4)  count(4)  entry...  sha1(20)
    entry     tag(4)  alias  time(8)  then for tag 1: key  chain;  for tag 2: certificate
    alias     length(2)  octets
    key       length(4)  EncryptedPrivateKeyInfo, whose content is salt(20)  masked key  sha1(20)
    chain     count(4)  certificate...
    certificate  type as an alias  length(4)  DER

The key is masked with a chain of SHA-1 hashes that begins with the password and the salt.
"""

import base64
import hashlib
import hmac
import struct
from typing import Final

from attrs import Factory, define

_MAGIC: Final = b"\xfe\xed\xfe\xed"
_MAGIC_JCEKS: Final = b"\xce\xce\xce\xce"
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_SIZE_LIMIT_BYTES: Final = 10 * 1024 * 1024
_LIBRARY: Final = "needs the package cryptography: pip install 'artemis-py-broker[migrate]'"


class KeyStoreError(ValueError):
    """A key store cannot be read; the text says why and has no password."""


@define
class KeyStore:
    """What a key store contains, as PEM."""

    key: str = ""
    chain: list[str] = Factory(list)
    """Certificates of the key, its own first."""
    trusted: list[str] = Factory(list)

    def identity(self) -> bytes:
        """Return key and chain as one PEM file. Raises KeyStoreError if there is no key."""
        if not self.key:
            raise KeyStoreError("has no private key")
        return "".join([*self.chain, self.key]).encode()

    def trust(self) -> bytes:
        """Return all certificates that are trusted as one PEM file. Raises KeyStoreError if there are none."""
        if not self.trusted:
            raise KeyStoreError("has no trusted certificate")
        return "".join(self.trusted).encode()


def read_key_store(data: bytes, password: str, key_password: str | None = None) -> KeyStore:
    """Read a key store of any kind. Raises KeyStoreError."""
    if len(data) > _SIZE_LIMIT_BYTES:
        raise KeyStoreError(f"is larger than {_SIZE_LIMIT_BYTES} bytes")
    if data.startswith(_MAGIC):
        try:
            return _read_jks(data, password, password if key_password is None else key_password)
        except (struct.error, IndexError, UnicodeDecodeError):
            raise KeyStoreError("is damaged") from None
    if data.startswith(_MAGIC_JCEKS):
        raise KeyStoreError("is a JCEKS store; turn it into PKCS 12 with `keytool -importkeystore`")
    if data.lstrip().startswith(b"-----BEGIN"):
        return _read_pem(data)
    return _read_pkcs12(data, password)


def _read_pem(data: bytes) -> KeyStore:
    blocks = [f"-----BEGIN {block.strip()}\n" for block in data.decode("latin-1").split("-----BEGIN ")[1:]]
    certificates = [block for block in blocks if block.startswith("-----BEGIN CERTIFICATE")]
    keys = [block for block in blocks if "PRIVATE KEY-----" in block]
    return KeyStore("".join(keys[:1]), certificates, certificates)


class _Cursor:
    """Reads numbers and octets one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._offset)
        self._offset += struct.calcsize(form)
        return int(value)

    def octets(self, count: int) -> bytes:
        if count > len(self._data) - self._offset:
            raise IndexError(count)
        self._offset += count
        return self._data[self._offset - count : self._offset]

    def certificate(self, version: int) -> str:
        if version == 2:
            self.octets(self.number(">H"))
        return _pem("CERTIFICATE", self.octets(self.number(">I")))


def _read_jks(data: bytes, password: str, key_password: str) -> KeyStore:
    body, signature = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest()
    if not hmac.compare_digest(expected, signature):
        raise KeyStoreError("was made with another password, or is damaged")
    store = KeyStore()
    cursor = _Cursor(body)
    cursor.octets(len(_MAGIC))
    version = cursor.number(">I")
    for _ in range(cursor.number(">I")):
        tag = cursor.number(">I")
        cursor.octets(cursor.number(">H"))
        cursor.number(">Q")
        if tag == 1:
            key = cursor.octets(cursor.number(">I"))
            chain = [cursor.certificate(version) for _ in range(cursor.number(">I"))]
            if not store.key:
                store.key, store.chain = _pem("PRIVATE KEY", _unmask(key, key_password)), chain
        elif tag == 2:
            store.trusted.append(cursor.certificate(version))
        else:
            raise KeyStoreError("is damaged")
    return store


def _unmask(key: bytes, password: str) -> bytes:
    """Return the PKCS 8 key in an EncryptedPrivateKeyInfo of JKS."""
    _, content, _ = _der(key, 0)
    start, _, after = _der(key, content)  # the algorithm, of which JKS has only one
    _, start, end = _der(key, after)
    protected = key[start:end]
    salt, masked, check = protected[:20], protected[20:-20], protected[-20:]
    secret = password.encode("utf-16-be")
    mask, link = b"", salt
    while len(mask) < len(masked):
        link = hashlib.sha1(secret + link).digest()
        mask += link
    plain = bytes(one ^ other for one, other in zip(masked, mask, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise KeyStoreError("has a key with another password")
    return plain


def _der(data: bytes, offset: int) -> tuple[int, int, int]:
    """Return where a DER value begins, where its content begins, and where it ends."""
    length, start = data[offset + 1], offset + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    return offset, start, start + length


def _pem(label: str, der: bytes) -> str:
    text = base64.b64encode(der).decode("ascii")
    lines = [text[index : index + 64] for index in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _read_pkcs12(data: bytes, password: str) -> KeyStore:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise KeyStoreError(f"is no JKS store, and any other {_LIBRARY}") from None
    try:
        found = pkcs12.load_pkcs12(data, password.encode())
    except ValueError:
        raise KeyStoreError("is neither JKS nor PKCS 12, or was made with another password") from None
    pem = serialization.Encoding.PEM
    others = [each.certificate.public_bytes(pem).decode() for each in found.additional_certs]
    if found.key is None:
        return KeyStore(trusted=others)
    key = found.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    own = [found.cert.certificate.public_bytes(pem).decode()] if found.cert is not None else []
    return KeyStore(key, [*own, *others], others)
