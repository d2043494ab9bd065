"""Key stores of Java become PEM files that OpenSSL takes."""

import base64
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from artemis_py.migrate.key_stores import KeyStoreError, read_key_store
from tests.unit.migrate.jks import jks, private, trusted


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key and its certificate, as PEM and as PKCS 12."""
    folder = tmp_path_factory.mktemp("keys")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-keyout", "key.pem", "-out", "cert.pem"
    )
    openssl("pkcs12", "-export", "-inkey", "key.pem", "-in", "cert.pem", "-out", "store.p12", "-passout", "pass:sesame")
    return folder


def der(pem: Path) -> bytes:
    """The content of a PEM file."""
    lines = pem.read_text().splitlines()
    return base64.b64decode("".join(line for line in lines if not line.startswith("-----")))


def loads(identity: bytes, folder: Path) -> bool:
    """Whether OpenSSL takes key and chain, and they belong together."""
    file = folder / "both.pem"
    file.write_bytes(identity)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
    return True


def test_jks(pair: Path, tmp_path: Path) -> None:
    key, certificate = der(pair / "key.pem"), der(pair / "cert.pem")
    store = read_key_store(jks("sesame", private("a", key, "sesame", certificate), trusted("b", certificate)), "sesame")

    assert loads(store.identity(), tmp_path)
    assert store.trust() == (pair / "cert.pem").read_bytes()


def test_a_key_with_a_password_of_its_own(pair: Path, tmp_path: Path) -> None:
    data = jks("sesame", private("a", der(pair / "key.pem"), "inner", der(pair / "cert.pem")))

    assert loads(read_key_store(data, "sesame", "inner").identity(), tmp_path)
    with pytest.raises(KeyStoreError, match="has a key with another password"):
        read_key_store(data, "sesame")


def test_pkcs12(pair: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")

    assert loads(read_key_store((pair / "store.p12").read_bytes(), "sesame").identity(), tmp_path)


def test_pem_is_taken_as_it_is(pair: Path, tmp_path: Path) -> None:
    data = (pair / "cert.pem").read_bytes() + (pair / "key.pem").read_bytes()

    assert loads(read_key_store(data, "").identity(), tmp_path)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: data, "another password"),
        (lambda data: data[:-25], "another password, or is damaged"),
        (lambda data: b"\xce\xce\xce\xce", "JCEKS"),
        (lambda data: bytes(11 * 1024 * 1024), "larger"),
    ],
)
def test_what_cannot_be_read(damage: Callable[[bytes], bytes], text: str) -> None:
    with pytest.raises(KeyStoreError, match=text) as caught:
        read_key_store(damage(jks("sesame", trusted("a", b"x"))), "swordfish")
    assert "swordfish" not in str(caught.value)


def test_a_store_that_is_cut_within_an_entry_is_damaged(pair: Path) -> None:
    whole = trusted("a", der(pair / "cert.pem"))

    with pytest.raises(KeyStoreError, match="is damaged"):
        read_key_store(jks("sesame", whole[:-5]), "sesame")


def test_a_store_without_what_is_wanted(pair: Path) -> None:
    with pytest.raises(KeyStoreError, match="no private key"):
        read_key_store(jks("x"), "x").identity()
    with pytest.raises(KeyStoreError, match="no trusted certificate"):
        read_key_store(jks("x"), "x").trust()
