"""Commands over TLS: whom they trust, and what they say about a broker that they do not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.conftest import run_command
from tests.interop.broker_process import BrokerProcess, Instance, start_broker

CERTIFICATES: Final = Path(__file__).resolve().parents[1] / "transport" / "certificates"
AUTHORITY: Final = str(CERTIFICATES / "authority.pem")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose certificate is signed by an authority of our own."""
    parameters = f"sslEnabled=true;keyStorePath={CERTIFICATES / 'broker.pem'}"
    process = start_broker(Instance(parameters=parameters), tmp_path_factory.mktemp("encrypted"))
    yield process
    process.stop()


def url(broker: BrokerProcess, scheme: str = "amqps") -> str:
    return f"{scheme}://localhost:{broker.port}"


def test_messages_pass_over_tls(encrypted: BrokerProcess) -> None:
    """Long enough for several TLS records in one read."""
    login = ("--url", url(encrypted), "--ca", AUTHORITY, "--destination", "q")
    sent = run_command("producer", *login, "--message-size", "200000", "--message-count", "3")
    received = run_command("consumer", *login, "--message-count", "3")
    listed = run_command("queue", "stat", "--url", url(encrypted), "--ca", AUTHORITY)

    assert (sent.code, listed.code) == (0, 0)
    assert received.lines == ["x" * 200_000] * 3


def test_a_broker_with_an_unknown_certificate_is_not_trusted(encrypted: BrokerProcess) -> None:
    outcome = run_command("producer", "--url", url(encrypted))

    assert outcome.code == 3
    assert "certificate is not trusted" in outcome.err
    assert "--ca" in outcome.err


def test_tls_to_a_port_without_it_is_not_connected(broker_process: BrokerProcess) -> None:
    outcome = run_command("producer", "--url", url(broker_process), "--ca", AUTHORITY)

    assert outcome.code == 3


def test_no_tls_to_a_port_with_it_is_not_connected(encrypted: BrokerProcess) -> None:
    outcome = run_command("producer", "--url", url(encrypted, "amqp"))

    assert outcome.code == 3


def test_certificates_that_cannot_be_read_are_a_usage_error(encrypted: BrokerProcess) -> None:
    outcome = run_command("producer", "--url", url(encrypted), "--ca", __file__)

    assert outcome.code == 2
    assert "--ca" in outcome.err
