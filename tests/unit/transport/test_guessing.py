"""What the log says of a connection that was turned away."""

import ssl

import pytest

from artemis_py.transport.guessing import describe_head, tls_reason


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"CONNECT\naccept-version:1.2\n", "434f4e4e (STOMP)"),
        (b"STOMP\r\n", "53544f4d (STOMP)"),
        (b"CONNECT example.org:80 HTTP/1.1\r\n", "434f4e4e (HTTP)"),
        (b"GET / HTTP/1.1\r\n", "47455420 (HTTP)"),
        (b"ARTEMIS\x00\x00", "41525445 (Core, the protocol of Artemis' own clients)"),
        (b"AMQP\x00\x00\x09\x01", "414d5150 (AMQP 0-9-1, as of RabbitMQ)"),
        (b"AMQP\x00\x01\x00\x00", "414d5150 (AMQP)"),
        (b"\x16\x03\x01\x02\x00\x01", "16030102 (TLS; this acceptor has no sslEnabled=true)"),
        (b"\x00\x00\x01\x2a\x01ActiveMQ\x00", "0000012a (OpenWire)"),
        (b"\x10\x10\x00\x04MQTT\x04", "10100004 (MQTT)"),
        (b"PROXY TCP4 ", "50524f58 (PROXY protocol of a load balancer)"),
        (b"secret", "73656372"),
        (b"", ""),
    ],
)
def test_the_first_octets_name_a_protocol(head: bytes, text: str) -> None:
    assert describe_head(head) == text


def test_a_failed_handshake_names_the_option() -> None:
    server, client = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(client, server, server_side=True)
    client.write(b"AMQP\x00\x01\x00\x00" * 2)
    with pytest.raises(ssl.SSLError) as caught:
        tls.do_handshake()

    assert tls_reason(caught.value).endswith("or use an acceptor without sslEnabled")
    assert tls_reason(ssl.SSLError(1, "else")) == str(ssl.SSLError(1, "else"))
