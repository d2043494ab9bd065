"""An export in Artemis' own format, which `artemis data imp` imports into a running broker.

    <activemq-journal>
      <bindings>
        <address-binding routing-types="ANYCAST,MULTICAST" name="" id=""/>
        <queue-binding address="" filter-string="" name="" id="" routing-type=""/>
      </bindings>
      <messages>
        <message id="" priority="" expiration="" timestamp="" type="" user-id="">
          <properties><property name="" value="" type=""/></properties>
          <queues><queue name=""/></queues>
          <body>
            <![CDATA[base64, in the alphabet for URLs]]>
          </body>
        </message>
      </messages>
    </activemq-journal>

The format has no place for delivery counts, sequences, pauses, duplicate ids and records. A message that several queues
share is written once for each queue: otherwise it would have to be kept until the last of them comes. A large body is
read into memory, up to `large_body.LOADED_BODY_LIMIT_BYTES`: its form in Core is not known before all of it was read.
"""

import base64
import re
from collections import Counter
from collections.abc import Callable
from typing import BinaryIO, Final
from xml.sax.saxutils import quoteattr

from artemis_py.core.messages.message import Message
from artemis_py.core.messages.record import amend
from artemis_py.errors import DamagedValue, ProtocolError, StoreError
from artemis_py.storetools.core_message import to_core
from artemis_py.storetools.entries import AddressEntry, Entry, QueueEntry, RecordEntry, ReferenceEntry

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WHITE: Final = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
"""White space and its references; unescaped in an attribute it would be read as blanks."""


class XmlWriter:
    """Writer of entries, one after the other; those that the format cannot express are left out and reported."""

    def __init__(self, stream: BinaryIO, shared: Callable[[int], Message], tell: Callable[[str], None]) -> None:
        """Write the beginning of the file; `shared` finds a shared message by its id."""
        self._stream: Final = stream
        self._shared: Final = shared
        self._tell: Final = tell
        self._ids = 0
        self._has_messages = False
        self._records: Counter[str] = Counter()
        """Numbers of records, by space."""
        self._of_hosts = 0
        """Number of addresses, queues and messages of virtual hosts."""
        self._line('<?xml version="1.0" encoding="UTF-8"?>')
        self._line("<activemq-journal>")
        self._line("  <bindings>")

    def write(self, entry: Entry) -> None:
        """Write the next entry; duplicate ids, and shared messages by themselves, have no place in the format."""
        try:
            match entry:
                case AddressEntry(record=record) | QueueEntry(record=record) if record.host:
                    self._of_hosts += 1
                case ReferenceEntry(host=host) if host:
                    self._of_hosts += 1
                case AddressEntry():
                    self._address(entry)
                case QueueEntry():
                    self._queue(entry)
                case ReferenceEntry():
                    self._message(entry)
                case RecordEntry():
                    self._records[entry.space] += 1
        except (ValueError, ProtocolError, StoreError, DamagedValue) as error:
            self._tell(f"left out: {_described(entry)}: {error}")

    def end(self) -> None:
        """Close the open elements, and report what the format has no place for."""
        for space, count in sorted(self._records.items()):
            self._tell(f"left out: {count} records of '{space}': the format has no place for them")
        if self._of_hosts:
            text = "addresses, queues and messages of virtual hosts: Artemis has one set of names"
            self._tell(f"left out: {self._of_hosts} {text}")
        self._begin_messages()
        self._line("  </messages>")
        self._line("</activemq-journal>")

    def _address(self, entry: AddressEntry) -> None:
        types = ",".join(sorted(each.name for each in entry.record.routing_types))
        self._line(
            f"    <address-binding routing-types={_quoted(types)} name={_quoted(entry.record.name)}{self._id()}/>"
        )

    def _queue(self, entry: QueueEntry) -> None:
        config = entry.record.config
        type = "MULTICAST" if config.routing_type is None else config.routing_type.name
        self._line(
            f"    <queue-binding address={_quoted(config.address)} filter-string={_quoted(config.filter or '')} "
            f"name={_quoted(config.name)}{self._id()} routing-type={_quoted(type)}/>"
        )

    def _message(self, entry: ReferenceEntry) -> None:
        message = entry.message if isinstance(entry.message, Message) else self._shared(entry.message)
        if entry.amendment:
            message = amend(message, entry.amendment)
        core = to_core(message)
        properties = [
            f"        <property name={_quoted(each.name)} value={_quoted(each.value)} type={_quoted(each.type)}/>"
            for each in core.properties
        ]
        user = f" user-id={_quoted(core.user_id)}" if core.user_id else ""
        self._begin_messages()
        self._line(
            f'    <message{self._id()} priority="{core.priority}" expiration="{core.expires_ms}" '
            f'timestamp="{core.timestamp_ms}" type="{core.type.name.lower()}"{user}>'
        )
        self._line("\n".join(["      <properties>", *properties, "      </properties>"]))
        self._line(f"      <queues><queue name={_quoted(entry.queue)}/></queues>")
        # Artemis reads what follows the first white space: without the line break it would find no body.
        self._line(f"      <body>\n        <![CDATA[{base64.urlsafe_b64encode(core.body).decode()}]]>\n      </body>")
        self._line("    </message>")

    def _begin_messages(self) -> None:
        if not self._has_messages:
            self._has_messages = True
            self._line("  </bindings>")
            self._line("  <messages>")

    def _id(self) -> str:
        self._ids += 1
        return f' id="{self._ids}"'

    def _line(self, text: str) -> None:
        self._stream.write(text.encode() + b"\n")


def _quoted(text: str) -> str:
    """Return a text as the value of an attribute. Raises ValueError."""
    found = _NOT_IN_XML.search(text)
    if found is not None:
        raise ValueError(f"XML has no place for the character U+{ord(found[0]):04X}")
    return quoteattr(text, _WHITE)


def _described(entry: Entry) -> str:
    match entry:
        case ReferenceEntry(sequence=0):
            return f"a scheduled message of queue '{entry.queue}'"
        case ReferenceEntry():
            return f"message {entry.sequence} of queue '{entry.queue}'"
        case QueueEntry():
            return f"queue {entry.record.config.name!r}"
        case AddressEntry():
            return f"address {entry.record.name!r}"
        case _:
            return "a value"
