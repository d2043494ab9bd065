"""Messages whose content does not stay in memory: it goes to a file as it comes, and from there to consumers."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve

from artemis_openwire.engine.codec import write_frame
from artemis_openwire.engine.commands import ConnectionError, KeepAliveInfo, ProducerAck, ProducerInfo
from artemis_openwire.engine.large_output import PIECE_BYTES
from artemis_openwire.engine.structures import ProducerId
from artemis_openwire.engine.values import write_map
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.errors import StoreError
from artemis_py.store.large import body_files
from artemis_py.storetools.check import check_folder
from tests.openwire_site import Client, Site, connected, queue, text_of

ORDERS = queue("orders")
POISON = 1
SMALL = 1000
CONTENT = "".join(chr(32 + number % 90) for number in range(5000))
"""As an application sees it; four octets more are sent."""


def client_of(site: Site, name: str = "c1", version: int = 12, **parameters: str) -> Client:
    """One whose messages are large from 1,000 octets on."""
    return connected(site, name, version, **({"openwireMinLargeMessageSize": str(SMALL)} | parameters))


def waiting(site: Site, name: str = "orders") -> list[Any]:
    found = site.host.sessions.find_queue(name)
    assert found is not None
    return [one.message for one in iterate(found.backlog.lists[4].head)]


def iterate(reference: Any) -> Any:
    while reference is not None:
        yield reference
        reference = reference.next


@pytest.mark.parametrize("version", range(1, 13))
def test_content_is_kept_outside_of_memory_and_arrives_whole(version: int) -> None:
    site = Site()
    client = client_of(site, version=version)
    client.send(ORDERS, CONTENT)
    (message,) = waiting(site)
    assert isinstance(message.large, LargeBody)
    assert message.large.size == len(CONTENT) + 4
    assert message.size < SMALL
    client.consume(ORDERS)
    (dispatch,) = client.dispatches()
    client.ack(dispatch, dispatch)

    assert text_of(dispatch) == CONTENT
    assert not message.large.path.exists()  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(20))
def test_a_frame_may_come_in_pieces_of_any_size(seed: int) -> None:
    """The command behind it may come in the same piece."""
    site = Site()
    client = client_of(site)
    client.consume(ORDERS)
    dice = Random(seed)
    small = client.text(ORDERS, "small")
    texts = [CONTENT[: dice.randint(0, 5000)] for _ in range(3)]
    stream = b"".join(
        write_frame(evolve(one, command_id=100 + number, response_required=True), 12)
        for number, one in enumerate([*[client.text(ORDERS, text) for text in texts], small])
    )
    while stream:
        size = dice.choice((1, 10, 300, 3000, 20_000)) if dice.random() < 0.9 else 1
        client.handler.receive_data(stream[:size], 0.0)
        stream = stream[size:]

    assert client.texts() == [*texts, "small"]


def test_a_client_of_another_version_gets_the_same() -> None:
    site = Site()
    sender, receiver = client_of(site), client_of(site, "c2", version=2)
    receiver.consume(ORDERS)
    sender.send(ORDERS, CONTENT, marshalled_properties=write_map({"colour": "red"}))

    (dispatch,) = receiver.dispatches()
    assert text_of(dispatch) == CONTENT
    assert dispatch.message is not None
    assert dispatch.message.marshalled_properties == write_map({"colour": "red"})


def test_nothing_comes_within_a_frame() -> None:
    """Answers and signs of life wait until the content was sent."""
    site = Site()
    sender, client = client_of(site), client_of(site, "c2")
    body = "x" * (3 * PIECE_BYTES)
    client.consume(ORDERS)
    sender.send(ORDERS, body)
    first = client.handler.data_to_send()
    client.tell(KeepAliveInfo(), answered=True)
    client.handler.handle_deadline(1000.0)
    rest = b""
    while data := client.handler.data_to_send():
        rest += data
    size = int.from_bytes(first[:4], "big")

    assert len(first) < size
    frame = (first + rest)[4 : 4 + size]
    assert body.encode() in frame
    assert len(first + rest) > 4 + size


def test_a_selector_finds_properties_and_other_protocols_the_body() -> None:
    site = Site()
    client = client_of(site)
    client.send(ORDERS, CONTENT, marshalled_properties=write_map({"colour": "red"}))
    (message,) = waiting(site)

    assert message.lookup("colour") == "red"
    assert message.view.body == CONTENT


def test_a_message_that_is_moved_keeps_its_content() -> None:
    site = Site(settings=AddressSettings(dead_letter_address="DLQ"))
    client = client_of(site)
    client.consume(queue("DLQ"), value=2)
    client.send(ORDERS, CONTENT)
    client.consume(ORDERS)
    (dispatch,) = client.dispatches()
    client.ack(dispatch, dispatch, kind=POISON)
    (letter,) = client.dispatches()

    assert letter.message is not None
    assert (text_of(letter), letter.message.original_destination) == (CONTENT, ORDERS)


def test_what_cannot_be_stored_is_refused_when_it_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    client = client_of(site)

    def refuse(durable: bool) -> LargeBody:
        raise StoreError("a large message cannot be stored: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(site.host.storage, "create_large", refuse)
        assert client.refused(client.text(ORDERS, CONTENT)) == "JMSException"
    client.send(ORDERS, CONTENT)

    assert [message.large.size for message in waiting(site)] == [len(CONTENT) + 4]


def test_content_that_is_longer_than_its_frame_ends_the_connection() -> None:
    site = Site()
    client = client_of(site)
    frame = bytearray(write_frame(evolve(client.text(ORDERS, CONTENT), command_id=9), 12))
    at = frame.index(b"\1" + (len(CONTENT) + 4).to_bytes(4, "big"))
    frame[at + 1 : at + 5] = (len(CONTENT) + 1000).to_bytes(4, "big")
    client.handler.receive_data(bytes(frame), 0.0)

    (error,) = client.received()
    assert isinstance(error, ConnectionError)
    assert client.handler.closed


def test_a_frame_above_the_limit_is_refused_before_it_comes() -> None:
    client = client_of(Site(), openwireMaxFrameSize=str(1 << 20))
    client.handler.receive_data((2 << 20).to_bytes(4, "big") + b"\x1c", 0.0)

    (error,) = client.received()
    assert isinstance(error, ConnectionError)
    assert error.exception is not None
    assert "openwireMaxFrameSize" in str(error.exception.message)


def test_a_client_that_leaves_in_the_middle_leaves_no_file(tmp_path: Path) -> None:
    site = Site(tmp_path)
    client = client_of(site)
    frame = write_frame(evolve(client.text(ORDERS, CONTENT), command_id=9), 12)
    client.handler.receive_data(frame[:3000], 0.0)
    before = len(list(body_files(tmp_path / "large-messages")))
    client.lose()
    site.commit()
    after = len(list(body_files(tmp_path / "large-messages")))

    site.crash()
    assert (before, after) == (1, 0)


def test_a_client_that_leaves_while_it_is_sent_to_gives_the_message_back() -> None:
    site = Site()
    client = client_of(site)
    client.send(ORDERS, "x" * (3 * PIECE_BYTES))
    client.consume(ORDERS, prefetch=1)
    site.turn()
    client.handler.data_to_send()
    client.lose()
    again = client_of(site, "c2")
    again.consume(ORDERS)

    (dispatch,) = again.dispatches()
    assert len(text_of(dispatch)) == 3 * PIECE_BYTES


def test_an_acknowledgement_of_a_window_has_the_size_of_the_content() -> None:
    """openwire §13: the client adds the same figure to its window."""
    client = client_of(Site())
    producer = ProducerId(connection_id="c1", session_id=1, value=2)
    client.done(ProducerInfo(producer_id=producer, destination=ORDERS, window_size=100_000))
    client.tell(client.text(ORDERS, CONTENT, producer_id=producer))

    (acknowledgement,) = [one for one in client.received() if isinstance(one, ProducerAck)]
    assert acknowledgement.size == 1024 + len(CONTENT) + 4


def test_large_messages_survive_a_crash(tmp_path: Path) -> None:
    site = Site(tmp_path)
    client_of(site).send(ORDERS, CONTENT, CONTENT[:2000])
    site.crash()
    assert check_folder(tmp_path) == []
    again = Site(tmp_path)
    client = client_of(again)
    client.consume(ORDERS)

    texts = client.texts()
    again.crash()
    assert texts == [CONTENT, CONTENT[:2000]]


def test_each_part_of_a_list_refers_to_the_same_file() -> None:
    site = Site()
    client = client_of(site)
    client.send(queue("a,b"), CONTENT)
    client.consume(queue("a"), value=1)
    client.consume(queue("b"), value=2)

    assert client.texts() == [CONTENT, CONTENT]


def test_a_large_message_is_scheduled() -> None:
    site = Site()
    client = client_of(site)
    asked = {"AMQ_SCHEDULED_DELAY": 100, "AMQ_SCHEDULED_PERIOD": 100, "AMQ_SCHEDULED_REPEAT": 2}
    client.send(ORDERS, CONTENT, marshalled_properties=write_map(asked))
    site.pass_time(1)
    client.consume(ORDERS)

    assert client.texts() == [CONTENT] * 3


def test_small_messages_stay_in_memory() -> None:
    site = Site()
    client = client_of(site)
    client.send(ORDERS, CONTENT[: SMALL - 5])
    off = connected(site, "c2", 12, openwireMinLargeMessageSize="-1")
    off.send(ORDERS, "x" * 200_000)

    assert [message.large for message in waiting(site)] == [None, None]
