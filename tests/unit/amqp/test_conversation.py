"""The client's core against a broker in memory: neither has a socket."""

from typing import Final

import pytest

from artemis_amqp.client import Accepted, ReceiverLink, SenderLink, SenderLinkHandler, Source, Target, encode
from artemis_amqp.client.conversation import Conversation
from artemis_amqp.client.failures import LinkFailed
from artemis_amqp.engine.handlers import ReceiverLinkHandler
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.performatives import AmqpError
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_py.protocol import ConnectionContext
from artemis_py.security.authenticator import OpenAuthenticator
from tests.amqp_broker import Broker, value
from tests.core_harness import settle_down


class Inbound(ReceiverLinkHandler):
    """Keeps and accepts what comes."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def on_transfer(self, link: ReceiverLink, delivery: TransferFrame) -> None:
        self.payloads.append(delivery.payload)
        link.session.settle_incoming(delivery.delivery_id, delivery.delivery_id, encode(Accepted()), True)

    def on_settled(self, link: ReceiverLink, delivery_id: int, tag: bytes) -> None:
        raise AssertionError("rcv-settle-mode first")


class Outbound(SenderLinkHandler):
    """Notes outcomes."""

    def __init__(self) -> None:
        self.outcomes: list[object] = []

    def on_credit(self, link: SenderLink) -> None:
        """Looked at by the test."""

    def on_disposition(self, link: SenderLink, delivery_id: int, token: object, state: object, settled: bool) -> None:
        self.outcomes.append((token, settled))


class Wire:
    """A client and a broker, joined."""

    def __init__(self, broker: Broker) -> None:
        self.broker: Final = broker
        self.woken = 0
        context = ConnectionContext(
            connection_id=1, peer="peer", is_loopback=True, authenticator=OpenAuthenticator(), wake=lambda: None
        )
        self.server: Final = broker.manager.connect(context)
        self.client: Final = Conversation("us", ConnectionLimits(), self._wake, hostname="there")

    def _wake(self) -> None:
        self.woken += 1

    def run(self) -> None:
        """Carry octets until neither side has any."""
        while True:
            ours = self.client.engine.data_to_send()
            if ours:
                self.server.receive_data(ours, 0.0)
            settle_down(self.broker.domain)
            theirs = self.server.data_to_send()
            if theirs:
                self.client.engine.receive_data(theirs, 0.0)
            if not ours and not theirs:
                return


@pytest.fixture
def wire() -> Wire:
    """Past login, open and begin."""
    broker = Broker()
    broker.queue("q")
    wire = Wire(broker)
    wire.client.start("ANONYMOUS", b"", "there")
    wire.run()
    assert wire.client.is_open
    wire.client.begin()
    return wire


def test_the_open_follows_the_login_by_itself(wire: Wire) -> None:
    """Its output wakes whoever writes to the socket, and the answer says what the broker can do."""
    assert wire.woken > 0
    assert wire.server.container_id == "us"
    assert "ANONYMOUS-RELAY" in wire.client.offered


def test_what_is_sent_is_accepted_and_received(wire: Wire) -> None:
    """Both directions over the one session."""
    sender = wire.client.attach(Source(), Target(address="q"), True, 0)
    receiver = wire.client.attach(Source(address="q"), Target(), False, 0)
    wire.run()
    assert isinstance(sender, SenderLink)
    assert isinstance(receiver, ReceiverLink)
    outbound, inbound = sender.handler, receiver.handler = Outbound(), Inbound()

    sender.send(b"", value(b"hello"), "token", False)
    receiver.grant(10)
    wire.run()

    assert {sender, receiver} == set(wire.client.attached)
    assert outbound.outcomes == [("token", True)]
    assert [payload[-5:] for payload in inbound.payloads] == [b"hello"]
    assert wire.broker.count() == 0


def test_a_refused_link_has_the_reason_of_the_broker(wire: Wire) -> None:
    """It is in `detached` and never in `attached`; `check` raises."""
    link = wire.client.attach(Source(address="q"), Target(), True, 0)
    wire.run()
    refused = wire.client.attach(Source(), None, True, 0)
    wire.run()

    wire.client.check(link)
    with pytest.raises(LinkFailed) as raised:
        wire.client.check(refused)
    assert raised.value.condition == "amqp:not-found"
    assert refused not in wire.client.attached


def test_the_first_failure_counts(wire: Wire) -> None:
    """The broker closes with a reason; that the socket goes after it is no news."""
    wire.client.has_news = False

    wire.server.end(AmqpError("amqp:connection:forced", "going down"))
    wire.run()

    failure = wire.client.failure
    assert wire.client.has_news
    assert failure is not None
    assert (failure.condition, str(failure), failure.what) == (
        "amqp:connection:forced",
        "going down",
        "connection closed",
    )
