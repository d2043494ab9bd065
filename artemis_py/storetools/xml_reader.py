"""The entries of an export that Artemis wrote (`artemis data exp`), or this broker for it (`storetools.xml_writer`).

The file is read as a stream by expat; a document type is refused, so there are no entities to expand. Messages of a
queue get their sequences in the order of the file. Artemis' own addresses (`$sys…`, its notifications) are skipped, and
so is a message that is in no other queue.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, Final
from xml.parsers import expat

from attrs import define, field

from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.store.definitions import AddressRecord, QueueRecord
from artemis_py.storetools.core_body import BodyType
from artemis_py.storetools.core_message import CoreMessage, Property, decode_base64, from_core
from artemis_py.storetools.entries import AddressEntry, Entry, MessageEntry, QueueEntry, ReferenceEntry
from artemis_py.storetools.lines import MalformedLine

CHUNK_BYTES: Final = 1 << 20

_OWN_PREFIXES: Final = ("$sys.", "$.artemis.internal.", "activemq.notifications", "activemq.management")
_MESSAGE_PARTS: Final = frozenset(("properties", "property", "queues", "queue", "body"))


def read_xml(stream: BinaryIO, formats: Mapping[str, MessageFormat]) -> Iterator[tuple[int, Entry]]:
    """Yield entries with the numbers of their lines. Raises MalformedLine. `formats` are not used."""
    reader = _Reader()
    while chunk := stream.read(CHUNK_BYTES):
        reader.feed(chunk)
        while reader.ready:
            yield reader.ready.popleft()
    reader.feed(b"", is_last=True)
    yield from reader.ready


@define
class _OpenMessage:
    """A message whose end has not come yet."""

    attributes: Mapping[str, str]
    properties: list[Property] = field(factory=list)
    queues: list[str] = field(factory=list)
    body: list[str] = field(factory=list)


class _Reader:
    """Translator of expat's events into entries."""

    def __init__(self) -> None:
        self.ready: Final[deque[tuple[int, Entry]]] = deque()
        self._addresses: dict[str, str] = {}
        """Addresses, by queue."""
        self._queues = 0
        self._sequences: Counter[str] = Counter()
        self._messages = 0
        self._message: _OpenMessage | None = None
        self._is_in_body = False
        self._starts: Final[Mapping[str, Callable[[Mapping[str, str]], None]]] = {
            "address-binding": self._address,
            "queue-binding": self._queue,
            "message": self._begin_message,
            "property": self._property,
            "queue": self._message_queue,
            "body": self._begin_body,
        }
        self._parser: Final = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, data: bytes, is_last: bool = False) -> None:
        """Parse more of the file. Raises MalformedLine."""
        try:
            self._parser.Parse(data, is_last)
        except expat.ExpatError as error:
            raise MalformedLine(error.lineno, f"it is not XML: {expat.errors.messages[error.code]}") from error
        except KeyError as error:
            raise MalformedLine(self._parser.CurrentLineNumber, f"the attribute {error} is missing") from error
        except ValueError as error:
            raise MalformedLine(self._parser.CurrentLineNumber, str(error)) from error

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _MESSAGE_PARTS and self._message is None:
            raise ValueError(f"{name} is outside of a message")
        start = self._starts.get(name)
        if start is not None:
            start(attributes)
        elif name not in ("activemq-journal", "bindings", "messages", "properties", "queues"):
            raise ValueError(f"{name} is not an element of an Artemis export")

    def _end(self, name: str) -> None:
        if name == "body":
            self._is_in_body = False
        elif name == "message":
            self._end_message()

    def _text(self, text: str) -> None:
        if self._is_in_body and self._message is not None:
            self._message.body.append(text)

    def _doctype(self, *_: object) -> None:
        raise ValueError("a document type is not allowed here")

    def _address(self, attributes: Mapping[str, str]) -> None:
        name = attributes["name"]
        types = frozenset(_routing_type(each.strip()) for each in attributes["routing-types"].split(","))
        if not name.startswith(_OWN_PREFIXES):
            record = AddressRecord(name=name, routing_types=types, auto_created=False, internal=False, paused=False)
            self._add(AddressEntry(record=record))

    def _queue(self, attributes: Mapping[str, str]) -> None:
        name, address = attributes["name"], attributes["address"]
        if address.startswith(_OWN_PREFIXES):
            return
        self._addresses[name] = address
        config = QueueConfig(
            name=name,
            address=address,
            routing_type=_routing_type(attributes.get("routing-type", "MULTICAST")),
            filter=attributes.get("filter-string") or None,
        )
        self._queues += 1
        self._add(QueueEntry(id=self._queues, record=QueueRecord(config=config, paused=False), next_sequence=1))

    def _begin_message(self, attributes: Mapping[str, str]) -> None:
        self._message = _OpenMessage(dict(attributes))

    def _property(self, attributes: Mapping[str, str]) -> None:
        assert self._message is not None
        self._message.properties.append(
            Property(name=attributes["name"], type=attributes["type"], value=attributes["value"])
        )

    def _message_queue(self, attributes: Mapping[str, str]) -> None:
        assert self._message is not None
        self._message.queues.append(attributes["name"])

    def _begin_body(self, attributes: Mapping[str, str]) -> None:
        self._is_in_body = True

    def _end_message(self) -> None:
        opened, self._message = self._message, None
        assert opened is not None
        queues = [name for name in opened.queues if name in self._addresses]
        if not queues:
            return
        attributes = opened.attributes
        core = CoreMessage(
            type=_body_type(attributes["type"]),
            body=decode_base64("".join(opened.body)),
            priority=int(attributes.get("priority", "4")),
            expires_ms=int(attributes.get("expiration", "0")),
            timestamp_ms=int(attributes.get("timestamp", "0")),
            user_id=attributes.get("user-id", ""),
            properties=tuple(opened.properties),
        )
        message = from_core(core, self._addresses[queues[0]])
        self._messages += 1
        message.id = self._messages
        if len(queues) > 1:
            self._add(MessageEntry(message=message))
        for name in queues:
            sequence = 0
            if not message.delivery_time_ms:
                self._sequences[name] += 1
                sequence = self._sequences[name]
            self._add(ReferenceEntry(queue=name, sequence=sequence, message=message.id if len(queues) > 1 else message))

    def _add(self, entry: Entry) -> None:
        self.ready.append((self._parser.CurrentLineNumber, entry))


def _routing_type(name: str) -> RoutingType:
    if name not in RoutingType.__members__:
        raise ValueError(f"'{name}' is not a routing type")
    return RoutingType[name]


def _body_type(name: str) -> BodyType:
    if name.upper() not in BodyType.__members__:
        raise ValueError(f"messages of type '{name}' cannot be read")
    return BodyType[name.upper()]
