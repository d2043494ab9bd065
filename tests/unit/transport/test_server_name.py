"""The name that a TLS client asks for (SNI), which routers may have as their key."""

import ssl
from pathlib import Path

import pytest

from artemis_py.transport.config import AcceptorConfig, TlsConfig
from artemis_py.transport.tls import server_context, server_name

CERTIFICATES = Path(__file__).parents[2] / "transport" / "certificates"


@pytest.mark.parametrize("name", ["eu.example", None])
def test_the_name_is_kept(name: str | None) -> None:
    """Any name, or none: nobody is refused for it."""
    tls = TlsConfig(key_store_path=CERTIFICATES / "broker.pem")
    context = server_context(AcceptorConfig(name="a", tls=tls))
    assert context is not None
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(there, back, server_side=True)
    client = client_context.wrap_bio(back, there, server_hostname=name)
    for _ in range(4):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue

    assert server_name(server) == name
    assert server.version() is not None
