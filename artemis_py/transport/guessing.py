"""Says in words what a connection that the acceptor turned away seems to be, for the log. It decides nothing.

A client at the wrong port is the usual reason, so a text says which protocol the client speaks, or which option of
the acceptor to change. The texts contain no more than four octets of what the client sent.
"""

import re
import ssl
from collections.abc import Mapping
from typing import Final

_BEGINNINGS: Final = (
    (re.compile(rb"AMQP[\x00\x01]\x00\x09[\x00\x01]|AMQP\x01\x01[\x00\x08\x09]"), "AMQP 0-9-1, as of RabbitMQ"),
    (re.compile(rb"AMQP\x01\x01\x00\x0a"), "AMQP 0-10"),
    (re.compile(rb"AMQP"), "AMQP"),
    (re.compile(rb"\x16\x03"), "TLS; this acceptor has no sslEnabled=true"),
    (re.compile(rb"(?:CONNECT|STOMP)\r?\n"), "STOMP"),
    (re.compile(rb"ARTEMIS|HORNETQ"), "Core, the protocol of Artemis' own clients"),
    (re.compile(rb"(?:GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|TRACE|CONNECT) |PRI \* HTTP"), "HTTP"),
    (re.compile(rb"PROXY |\r\n\r\n\x00\r\nQUIT\n"), "PROXY protocol of a load balancer"),
    (re.compile(rb"....\x01ActiveMQ", re.DOTALL), "OpenWire"),
    (re.compile(rb"\x10.{1,4}\x00[\x04\x06](?:MQTT|MQIs)", re.DOTALL), "MQTT"),
)
"""Expressions for the first octets of protocols, and what to call them; the first one that matches counts."""


def describe_head(head: bytes) -> str:
    """Return the first octets of a connection in hexadecimal, and the protocol that they seem to be.

    They may be part of a secret that was sent to the wrong port, so no more than four are shown.
    """
    guess = next((name for pattern, name in _BEGINNINGS if pattern.match(head)), None)
    first = head[:4].hex()
    return first if guess is None else f"{first} ({guess})"


_NOT_TLS: Final = "the client does not speak TLS; it has to be told to, or use an acceptor without sslEnabled"
_NOT_TRUSTED: Final = (
    "the client does not trust the certificate of keyStorePath: give the client the certificate of its authority"
)
_VERSIONS: Final = "client and acceptor have no version of TLS in common: this broker speaks 1.2 and 1.3"

_TLS_ADVICE: Final[Mapping[str, str]] = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "HTTPS_PROXY_REQUEST": _NOT_TLS,
    "UNKNOWN_PROTOCOL": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "NO_SHARED_CIPHER": "client and acceptor have no cipher in common: the client's are too old, or keyStorePath has "
    "a kind of key that the client cannot use",
    "UNSUPPORTED_PROTOCOL": _VERSIONS,
    "VERSION_TOO_LOW": _VERSIONS,
    "TLSV1_ALERT_PROTOCOL_VERSION": _VERSIONS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and needClientAuth=true asks for one",
    "CERTIFICATE_VERIFY_FAILED": "the certificate of the client is not signed by an authority of trustStorePath",
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of keyStorePath has expired",
}
"""Advice for OpenSSL's reasons."""


def tls_reason(error: ssl.SSLError) -> str:
    """Return the text of a failed handshake, with the option that it is about, if that is known."""
    advice = _TLS_ADVICE.get(getattr(error, "reason", None) or "")
    return str(error) if advice is None else f"{error}: {advice}"
