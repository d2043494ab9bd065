"""Artemis' XML: a file that `artemis data exp` wrote comes in, and what goes out says the same."""

from io import BytesIO
from pathlib import Path
from uuid import UUID

import pytest

from artemis_amqp.messages.conversion import from_view
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages import large_body as large
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.errors import StoreError
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.core_body import BodyType, read_body, write_body
from artemis_py.storetools.entries import AddressEntry, Entry, MessageEntry, QueueEntry, ReferenceEntry
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.lines import MalformedLine
from artemis_py.storetools.xml_reader import read_xml
from artemis_py.storetools.xml_writer import XmlWriter
from tests.unit.store.world import World, bodies
from tests.unit.storetools.stores import fill

SAMPLE = Path(__file__).with_name("artemis-2.40-export.xml")
"""Written by `artemis data exp` 2.40.0: six AMQP messages in an anycast queue and in two subscriptions, and two of its
own producer. Only the times of expiry were moved to the year 2100."""

FORMATS: dict[str, MessageFormat] = {PLAIN_FORMAT.name: PLAIN_FORMAT, AMQP_FORMAT.name: AMQP_FORMAT}


def read(data: bytes) -> list[Entry]:
    """The entries of a file."""
    return [entry for _, entry in read_xml(BytesIO(data), FORMATS)]


def written(*messages: Message) -> tuple[bytes, list[str]]:
    """Messages in the queue `q` as XML, and what was left out."""
    stream, told = BytesIO(), list[str]()
    writer = XmlWriter(stream, lambda id: messages[0], told.append)
    entries = read(
        b'<activemq-journal><bindings><address-binding routing-types="ANYCAST" name="q" id="1"/>'
        b'<queue-binding address="q" filter-string="a &lt; \'&amp;\'" name="q" id="2" routing-type="ANYCAST"/>'
        b"</bindings></activemq-journal>"
    )
    for entry in entries:
        writer.write(entry)
    for number, message in enumerate(messages, 1):
        writer.write(ReferenceEntry(queue="q", sequence=number, message=message))
    writer.end()
    return stream.getvalue(), told


def amqp(view: MessageView, **attributes: object) -> Message:
    """A message of an AMQP client that says so."""
    annotations, data = from_view(view)
    message = Message(AMQP_FORMAT, "q", data, annotations, durable=True)
    for name, value in attributes.items():
        setattr(message, name, value)
    return message


def returned(message: Message) -> Message:
    """A message after its way through XML."""
    data, told = written(message)
    assert told == []
    (entry,) = (entry for entry in read(data) if isinstance(entry, ReferenceEntry))
    assert isinstance(entry.message, Message)
    return entry.message


def test_what_artemis_exports_comes_in(tmp_path: Path) -> None:
    """Bodies of all types, in their queues and in their order; its own addresses stay out."""
    import_file(tmp_path, SAMPLE, FileFormat.XML, FORMATS)

    assert check_folder(tmp_path) == []
    with World(tmp_path) as world:
        assert set(world.domain.addresses) == {"DLQ", "ExpiryQueue", "core", "topic", "orders2"}
        assert set(world.domain.queues) == {"DLQ", "ExpiryQueue", "core", "t1", "t2", "q1"}
        expected = ["grüße", b"\x00\x01bytes", {"k": 1, "n": "t"}, [1, "two", 2.5], b"", b"raw"]
        assert bodies(world.queue("t1")) == expected
        assert bodies(world.queue("t2")) == expected
        # The order is that of the file: one of priority 7 came first anyway.
        assert bodies(world.queue("q1")) == expected
        assert bodies(world.queue("core")) == ["hellö ]]> <x>", b"." * 20]
        queue = world.domain.queues["q1"]
        assert queue.filter is not None
        assert queue.address.routing_types == {RoutingType.ANYCAST}


def test_fields_of_what_artemis_exports_come_in() -> None:
    """What Artemis keeps as properties are fields again."""
    message = next(entry.message for entry in read(SAMPLE.read_bytes()) if isinstance(entry, ReferenceEntry))
    assert isinstance(message, Message)
    view = message.view

    assert (message.priority, message.address, message.durable) == (7, "orders2", True)
    assert (view.message_id, view.correlation_id, view.subject, view.reply_to) == ("id-1", "c1", "subj", "rep")
    assert (view.content_type, view.user_id, view.group_id, view.group_sequence) == ("text/plain", b"me", "g", 3)
    assert view.annotations == {"x-opt-a": "v"}
    assert view.properties == {"s": "x", "i": 5, "l": 7, "b": True, "f": 1.5, "n": None}


def test_a_message_of_several_queues_is_shared() -> None:
    """As in Artemis: stored once."""
    entries = read(SAMPLE.read_bytes())
    shared = [entry for entry in entries if isinstance(entry, MessageEntry)]
    places = [entry.queue for entry in entries if isinstance(entry, ReferenceEntry) and isinstance(entry.message, int)]

    assert len(shared) == 6
    assert places == ["t1", "t2"] * 6


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "text \U0001f600 \0 \ud800",
        b"",
        bytes(range(256)),
        {},
        {"a": 1, "b": "x", "c": None, "d": True, "e": 1.5, "f": b"\0", "g": -(1 << 40), "": "e"},
        [1, "x" * 8, "x" * 9, "ä\0\U0001f600" * 20, "x" * 5000, None, True, b"", 2.5, 1 << 62],
    ],
)
def test_bodies_come_back(body: object) -> None:
    """Each of the forms a string can have, and each type of value."""
    assert read_body(*write_body(body)) == body


def test_the_octets_of_bodies_are_those_of_artemis() -> None:
    """The same as in the sample."""
    assert write_body("grüße") == (BodyType.TEXT, bytes.fromhex("010000000a67007200fc00df006500"))
    assert write_body([1 << 40, "two", 2.5])[1] == bytes.fromhex(
        "0700000100000000000a010000000300740077006f094004000000000000"
    )


def test_a_message_comes_back_with_its_fields() -> None:
    """Out of AMQP, into the broker's own format."""
    view = MessageView(
        message_id=UUID(int=5),
        correlation_id="c",
        user_id=b"me",
        subject="s",
        reply_to="r",
        content_type="text/plain",
        content_encoding="none",
        creation_time_ms=12345,
        group_id="g",
        group_sequence=3,
        reply_to_group_id="rg",
        properties={"t": '<\t\n&">', "i": 5, "l": 1 << 40, "f": 1.5, "b": False, "n": None, "bin": b"\xff"},
        annotations={"x-opt-a": "v"},
        body="text",
    )
    message = amqp(view, priority=9, expires_ms=99, producer="client", routing_type=1, extra={"_AMQ_ORIG_QUEUE": "o"})

    back = returned(message)

    assert back.view == message.view
    assert (back.priority, back.expires_ms, back.producer, back.routing_type) == (9, 99, "client", 1)
    assert back.extra == {"_AMQ_ORIG_QUEUE": "o"}


@pytest.mark.parametrize("id", ["text", "ID:text", UUID(int=7), 12, b"\x01\x02"])
def test_ids_keep_their_types(id: object) -> None:
    """As JMS clients of AMQP spell them."""
    view = returned(amqp(MessageView(message_id=id, correlation_id=id))).view

    assert view.message_id == id
    assert view.correlation_id == id


def test_a_scheduled_message_is_scheduled_again(tmp_path: Path) -> None:
    """It has no sequence before its time."""
    data, _ = written(amqp(MessageView(body="later"), delivery_time_ms=1 << 42))
    (entry,) = (entry for entry in read(data) if isinstance(entry, ReferenceEntry))

    assert entry.sequence == 0
    assert isinstance(entry.message, Message)
    assert entry.message.delivery_time_ms == 1 << 42


def test_a_body_stands_in_a_line_of_its_own() -> None:
    """`artemis data imp` passes over one text before it: without white space there it would be the body."""
    data, _ = written(amqp(MessageView(body=b"raw")))

    assert b"<body>\n        <![CDATA[cmF3]]>\n      </body>" in data


def test_definitions_come_back() -> None:
    """Names and filters with characters that XML has for itself."""
    data, _ = written()
    address, queue = read(data)

    assert isinstance(address, AddressEntry)
    assert isinstance(queue, QueueEntry)
    assert address.record.routing_types == {RoutingType.ANYCAST}
    assert (queue.record.config.name, queue.record.config.filter) == ("q", "a < '&'")


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (MessageView(body={"a": {"b": 1}}), "a list or map inside of another"),
        (MessageView(properties={"a": "\0"}), r"no place for the character U\+0000"),
        (MessageView(annotations={"x-opt-a": [1]}), "property 'JMS_AMQP_MA_x-opt-a'"),
    ],
)
def test_what_the_format_cannot_hold_is_left_out_and_named(view: MessageView, said: str) -> None:
    """Better than something else under its name."""
    data, told = written(amqp(MessageView(body="good")), amqp(view))

    assert len([entry for entry in read(data) if isinstance(entry, ReferenceEntry)]) == 1
    (line,) = told
    assert line.startswith("left out: message 2 of queue 'q': ")
    assert pytest.raises(AssertionError, match=said).matches(AssertionError(line))


def test_a_store_goes_through_xml(tmp_path: Path) -> None:
    """The whole way, with shared and scheduled messages."""
    fill(tmp_path / "a")
    exported = export_folder(tmp_path / "a", tmp_path / "a.xml", FileFormat.XML, FORMATS)
    import_file(tmp_path / "b", tmp_path / "a.xml", FileFormat.XML, FORMATS)

    assert exported.left_out == []
    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert bodies(world.queue()) == ["a", "b"]
        assert world.queue().scheduled_count == 1
        assert bodies(world.domain.queues["t.a"]) == bodies(world.domain.queues["t.b"]) == ["shared"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<activemq-journal>\n", "it is not XML: no element found"),
        ("<activemq-journal>\n<other/></activemq-journal>", "other is not an element of an Artemis export"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>\n<activemq-journal/>', "a document type is not allowed"),
        ('<activemq-journal>\n<address-binding name="q"/></activemq-journal>', "attribute 'routing-types' is missing"),
        ('<activemq-journal>\n<address-binding name="q" routing-types="X"/></activemq-journal>', "not a routing type"),
        ("<activemq-journal>\n<body/></activemq-journal>", "body is outside of a message"),
    ],
)
def test_a_file_with_mistakes_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With its line."""
    with pytest.raises(MalformedLine, match=said):
        read(text.encode())
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"a\.xml:[12]: "):
        import_file(tmp_path / "b", tmp_path / "a.xml", FileFormat.XML, FORMATS)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('type="map"', 'type="other"', "messages of type 'other' cannot be read"),
        ("AQAAAApnAHIA_ADfAGUA", "AQAAAApn", "its body ends too early"),
        ("BwAAAAAAAAABCgEAAAADAHQAdwBvCUAEAAAAAAAA", "Aw==", "its body ends too early"),
        ("BwAAAAAAAAABCgEAAAADAHQAdwBvCUAEAAAAAAAA", "Lw==", "a value of unknown type 47"),
        ('value="5" type="integer"', 'value="5" type="what"', "has the unknown type 'what'"),
        ('value="5" type="integer"', 'value="x" type="integer"', "invalid literal"),
    ],
)
def test_a_message_with_mistakes_is_refused(old: str, new: str, said: str) -> None:
    """Nothing is guessed."""
    text = SAMPLE.read_text(encoding="utf-8")
    assert old in text

    with pytest.raises(MalformedLine, match=said):
        read(text.replace(old, new).encode())


def test_a_large_body_comes_in_pieces() -> None:
    """Artemis writes large messages as several texts of base64, each with its own end."""
    text = SAMPLE.read_text(encoding="utf-8").replace(
        "<![CDATA[cmF3]]>", "<![CDATA[cmE=]]>\n<![CDATA[dw==]]><![CDATA[ICA-Pg==]]>"
    )

    assert bodies_of(text)[5] == b"raw  >>"


def bodies_of(text: str) -> list[object]:
    """Of the messages that have a queue to themselves."""
    found = (entry.message for entry in read(text.encode()) if isinstance(entry, ReferenceEntry))
    return [message.view.body for message in found if isinstance(message, Message)]


def test_large_bodies_go_through_xml_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are brought into memory. One that is too large for that is named, and so are records."""
    texts = ["large " * 20_000, "larger " * 20_000]
    monkeypatch.setattr(large, "LOADED_BODY_LIMIT_BYTES", len(texts[0]) + 100)
    with World(tmp_path / "a") as world:
        world.queue("big")
        for text in texts:
            annotations, data = from_view(MessageView(body=text))
            message = Message(AMQP_FORMAT, "big", data[:2], annotations, durable=True)
            message.large = world.store.create_large(durable=True)
            message.large.append(data[2:])
            message.large.finish()
            world.domain.route(message, world.domain.addresses["big"])
            message.large.release()
        world.store.save_record("mqtt", b"key", b"value")
        world.stop()

    told = export_folder(tmp_path / "a", tmp_path / "a.xml", FileFormat.XML, FORMATS).left_out
    import_file(tmp_path / "b", tmp_path / "a.xml", FileFormat.XML, FORMATS)

    assert [line.split(": ")[1] for line in told] == ["message 2 of queue 'big'", "1 records of 'mqtt'"]
    assert check_folder(tmp_path / "b") == []
    with World(tmp_path / "b") as world:
        assert bodies(world.queue("big")) == texts[:1]


def test_times_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    """A key has no place for them."""
    text = SAMPLE.read_text(encoding="utf-8").replace('expiration="0"', f'expiration="{1 << 60}"')
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")

    with pytest.raises(StoreError, match=r"a\.xml:\d+: the message names a time"):
        import_file(tmp_path / "b", tmp_path / "a.xml", FileFormat.XML, FORMATS)
