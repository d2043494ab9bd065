"""A client of another AMQP gets our header (AMQP 1.0 §2.2), and the log names what it speaks."""

import logging

import pytest

from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_broker import Broker


@pytest.mark.parametrize(
    ("header", "text"),
    [(b"AMQP\x00\x00\x09\x01", "0-9-1, as of RabbitMQ"), (b"AMQP\x07\x00\x00\x00", "another version")],
)
def test_the_log_names_the_version(header: bytes, text: str, caplog: pytest.LogCaptureFixture) -> None:
    context = ConnectionContext(
        connection_id=1, peer="192.0.2.1:5", is_loopback=True, authenticator=OpenAuthenticator(), wake=lambda: None
    )
    connection = Broker().manager.connect(context)
    with caplog.at_level(logging.WARNING):
        connection.receive_data(header, 0.0)

    assert connection.data_to_send().startswith(b"AMQP")
    assert [message for message in caplog.messages if f"({text}); this broker speaks 1.0" in message] != []
