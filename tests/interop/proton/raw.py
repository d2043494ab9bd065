"""A socket that speaks whatever it is told, and AMQP frames written by hand: no library would send these.

Proton's codec reads what comes back.
"""

import socket
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from proton import Data, Described

from tests.interop.broker_process import BrokerProcess

AMQP: Final = b"AMQP\x00\x01\x00\x00"
SASL: Final = b"AMQP\x03\x01\x00\x00"
TIMEOUT_S: Final = 60.0

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)


def frame(body: bytes, channel: int = 0, kind: int = 0, offset: int = 2) -> bytes:
    """One frame (AMQP 1.0 §2.3.1)."""
    return (8 + len(body)).to_bytes(4, "big") + bytes((offset, kind)) + channel.to_bytes(2, "big") + body


def performative(code: int, fields: bytes = b"", count: int = 0) -> bytes:
    """A described list32 of already encoded fields."""
    return bytes((0, 0x53, code)) + b"\xd0" + (len(fields) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + fields


def encoded(value: object) -> bytes:
    """Any value, by Proton's codec."""
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def composed(code: int, *fields: object) -> bytes:
    """A performative of values; one that is bytes is taken as encoded already."""
    parts = [field if isinstance(field, bytes) else encoded(field) for field in fields]
    return performative(code, b"".join(parts), len(parts))


def text(value: str) -> bytes:
    """A str8."""
    content = value.encode()
    return b"\xa1" + bytes((len(content),)) + content


def opening(container: str) -> bytes:
    """Protocol header and open."""
    return AMQP + frame(performative(OPEN, text(container), 1))


# remote-channel null, next-outgoing-id 0, windows of 100 frames
BEGIN_FRAME: Final = frame(performative(BEGIN, b"\x40\x43\x52\x64\x52\x64", 4))


class Raw:
    """One connection, byte by byte."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.socket: Final = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
        self._received = b""

    def __enter__(self) -> "Raw":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Write; a peer that closed meanwhile is an answer too."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def read_to_end(self) -> bytes:
        """All the broker says until it closes the socket; fails if it does not."""
        received = b""
        while True:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return received
            if not data:
                return received
            received += data

    def next(self, code: int) -> tuple[list[Any], bytes]:
        """The fields and payload of the next performative of this kind; others before it are passed over."""
        while True:
            if self._received[:4] == b"AMQP":
                self._received = self._received[8:]
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) < 8 or len(self._received) < size:
                data = self.socket.recv(65536)
                assert data, f"the broker closed before {code:#x}"
                self._received += data
                continue
            body, self._received = self._received[8:size], self._received[size:]
            if body:
                found, fields, payload = read(body)
                if found == code:
                    return fields, payload

    def close(self) -> None:
        """Drop the socket."""
        self.socket.close()


def read(body: bytes) -> tuple[int, Any, bytes]:
    """Code, fields and payload of a frame body."""
    decoder = Data()
    size = decoder.decode(body)
    decoder.rewind()
    decoder.next()
    value = _value(decoder)
    assert isinstance(value, Described)
    code: Any = value.descriptor
    return int(code), value.value, body[size:]


def _value(data: Data) -> Any:
    """The value the decoder stands on. Proton's own `get_object` cannot read a map with binary keys."""
    kind = data.type()
    if kind == Data.BINARY:
        return bytes(data.get_binary())
    if kind not in (Data.MAP, Data.LIST, Data.DESCRIBED):
        return data.get_object()
    items = []
    data.enter()
    while data.next():
        items.append(_value(data))
    data.exit()
    if kind == Data.MAP:
        return dict(zip(items[::2], items[1::2], strict=True))
    return Described(*items) if kind == Data.DESCRIBED else items


def performatives(data: bytes) -> list[tuple[int, Any]]:
    """The performatives in an AMQP stream after its headers, as (code, fields)."""
    found = []
    while data[:4] == b"AMQP":
        data = data[8:]
    while len(data) >= 8:
        size = int.from_bytes(data[:4], "big")
        body = data[data[4] * 4 : size]
        if body:
            found.append(read(body)[:2])
        data = data[size:]
    return found


def ending(data: bytes) -> str:
    """The condition of the close, end or detach that carries an error."""
    for code, fields in reversed(performatives(data)):
        error = {CLOSE: 0, END: 0, DETACH: 2}.get(code)
        if error is not None and len(fields) > error and fields[error] is not None:
            return str(fields[error].value[0])
    raise AssertionError(f"no error in {performatives(data)}")
