"""A sender that gets no credit is told why, in the properties of the link's state (AMQP 1.0 §2.7.4)."""

from artemis_amqp.engine.extensions import WAITS_FOR
from artemis_amqp.engine.performatives import Flow
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from tests.amqp_broker import Broker
from tests.amqp_harness import Frame


def flows(frames: list[Frame]) -> list[tuple[int | None, object]]:
    """Credit and reason of each flow of a link."""
    found = [one for _, one, _ in frames if isinstance(one, Flow) and one.handle is not None]
    return [(flow.link_credit, (flow.properties or {}).get(WAITS_FOR)) for flow in found]


def test_a_full_disk_is_the_reason_until_there_is_room() -> None:
    broker = Broker()
    broker.queue()
    peer = broker.connect()
    broker.domain.dispatcher.disk_changed(is_full=True, is_exhausted=False)
    waiting = flows(peer.send())
    broker.domain.dispatcher.disk_changed(is_full=False, is_exhausted=False)
    ((credit, reason),) = flows(peer.hear())

    assert waiting == [(0, "the disk of the broker is nearly full")]
    assert (bool(credit), reason) == (True, None)


def test_a_full_address_is_named_with_its_limit() -> None:
    broker = Broker({"q": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.BLOCK)})
    broker.queue()
    peer = broker.connect()
    peer.send()
    peer.say(peer.transfer(b"first"))
    waiting = flows(broker.connect().send())

    assert waiting == [(0, "address 'q' is full: 1 of 1 messages")]
