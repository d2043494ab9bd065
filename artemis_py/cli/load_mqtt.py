"""The load of `artemis-py perf` over MQTT 3.1.1: a client that knows only the packets that a load needs."""

import asyncio
import time
from collections import deque
from struct import Struct
from typing import Final
from urllib.parse import urlsplit

from artemis_mqtt.engine.fields import read_varint, with_header, write_binary, write_text, write_u16
from artemis_mqtt.engine.packets import PacketType
from artemis_mqtt.engine.publish import encode_publish
from artemis_mqtt.engine.topics import topic_field
from artemis_py.cli.load import BATCH, STAMP, Plan, Run, Violation
from artemis_py.errors import ArtemisError

_TIMEOUT_S: Final = 10.0
_ACK: Final = Struct(">BBH")
_PUBACK: Final = 0x40
_PUBREC: Final = 0x50
_PUBREL: Final = 0x62
_PUBCOMP: Final = 0x70
_LAST_ID: Final = 65535


class MqttFailed(ArtemisError):
    """The broker refused a connection or a subscription, or ended one."""


class Link(asyncio.Protocol):
    """One connection; subclasses process the packets that arrive once it is open."""

    def __init__(self, run: "MqttRun") -> None:
        self._run: Final = run
        self._received = b""
        self._answered: asyncio.Future[int] | None = None
        self.transport: asyncio.Transport | None = None
        self.is_write_paused = False

    async def ask(self, packet: bytes) -> int:
        """Send CONNECT or SUBSCRIBE; return the last byte of the answer."""
        assert self.transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(packet)
        return await asyncio.wait_for(self._answered, _TIMEOUT_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(MqttFailed("the broker closed the connection; its log says why"))

    def pause_writing(self) -> None:
        self.is_write_paused = True

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self.writable()

    def data_received(self, data: bytes) -> None:
        data = self._received + data
        offset = 0
        size = len(data)
        while offset + 2 <= size:
            length, body = data[offset + 1], offset + 2
            if length >= 0x80:
                if size - offset < 5:
                    break
                length, body = read_varint(data, offset + 1, size)
            if body + length > size:
                break
            self.packet(data[offset], data, body, body + length)
            offset = body + length
        self._received = data[offset:]
        self.end_of_read()

    def packet(self, first: int, data: bytes, offset: int, end: int) -> None:
        """Process one packet; answers to CONNECT and SUBSCRIBE go to the caller of `ask`."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(data[end - 1])

    def end_of_read(self) -> None:
        """Act after all packets of a read were processed."""

    def writable(self) -> None:
        """Act when there is room to write again."""

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
        else:
            self._run.fail(error)


class Publisher(Link):
    """Sends its share as fast as window and pace allow."""

    def __init__(self, run: "MqttRun", number: int) -> None:
        super().__init__(run)
        self._number: Final = number
        self._plan: Final = run.plan
        self._topic: Final = topic_field(run.plan.address)
        self._filler: Final = bytes(run.plan.size - STAMP.size)
        self._is_planned = False
        self.share: Final = self._plan.share(number)
        self.allowed = self.share if self._plan.rate is None else 0
        self.sent = 0
        self.confirmed = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was sent, and confirmed if that is required."""
        return self.sent == self.share and (self._plan.qos == 0 or self.confirmed == self.share)

    def packet(self, first: int, data: bytes, offset: int, end: int) -> None:
        if first in (_PUBACK, _PUBCOMP):
            self.confirmed += 1
        elif first == _PUBREC:
            assert self.transport is not None
            self.transport.write(_ACK.pack(_PUBREL, 2, data[offset] << 8 | data[offset + 1]))
        else:
            super().packet(first, data, offset, end)

    def end_of_read(self) -> None:
        if self.sent < self.allowed:
            self.plan_turn()
        elif self.is_done:
            self._run.check()

    def writable(self) -> None:
        self.plan_turn()

    def plan_turn(self) -> None:
        """Plan to send in the next iteration of the loop."""
        if not self._is_planned:
            self._is_planned = True
            self._run.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        plan, transport = self._plan, self.transport
        if transport is None or self.is_write_paused:
            return
        left = min(self.allowed - self.sent, BATCH)
        if plan.qos:
            left = min(left, min(plan.window, _LAST_ID) - (self.sent - self.confirmed))
        packets: list[bytes] = []
        for _ in range(left):
            body = STAMP.pack(plan.run, self._number, self.sent, time.perf_counter_ns()) + self._filler
            packet_id = self.sent % _LAST_ID + 1 if plan.qos else 0
            packets.append(encode_publish(False, self._topic, body, plan.qos, False, False, packet_id, b""))
            self.sent += 1
        if packets:
            transport.write(b"".join(packets))
        if self.sent < self.allowed and (plan.qos == 0 or self.sent - self.confirmed < plan.window):
            self.plan_turn()
        elif self.is_done:
            self._run.check()


class Subscriber(Link):
    """Receives and acknowledges messages, and records them in the ledger."""

    def __init__(self, run: "MqttRun", number: int) -> None:
        super().__init__(run)
        self._number: Final = number
        self._answers: Final[deque[bytes]] = deque()

    def packet(self, first: int, data: bytes, offset: int, end: int) -> None:
        if first >> 4 == PacketType.PUBLISH:
            run = self._run
            qos = first >> 1 & 3
            if qos:
                offset += 2 + (data[offset] << 8 | data[offset + 1])
                answer = _PUBACK if qos == 1 else _PUBREC
                self._answers.append(_ACK.pack(answer, 2, data[offset] << 8 | data[offset + 1]))
            try:
                run.ledger.take(self._number, data[end - run.plan.size : end], time.perf_counter_ns())
            except Violation as violation:
                run.fail(violation)
        elif first == _PUBREL:
            self._answers.append(_ACK.pack(_PUBCOMP, 2, data[offset] << 8 | data[offset + 1]))
        else:
            super().packet(first, data, offset, end)

    def end_of_read(self) -> None:
        if self._answers and self.transport is not None:
            self.transport.write(b"".join(self._answers))
            self._answers.clear()
        if self._run.ledger.is_complete:
            self._run.check()


class MqttRun(Run):
    """A measurement with MQTT connections."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._links: Final[list[Link]] = []

    async def open(self) -> None:
        """Connect subscribers, then publishers. Raises MqttFailed or OSError."""
        for number in range(self.plan.consumers):
            subscriber = Subscriber(self, number)
            await self._connect(subscriber, f"perf-{self.plan.run}-s{number}")
            body = write_u16(1) + write_text(self.plan.address) + bytes((self.plan.qos,))
            if await subscriber.ask(with_header(0x82, body)) >= 0x80:
                raise MqttFailed("the broker refused the subscription")
        for number in range(self.plan.producers):
            publisher = Publisher(self, number)
            await self._connect(publisher, f"perf-{self.plan.run}-p{number}")
            self.producers.append(publisher)

    async def _connect(self, link: Link, client_id: str) -> None:
        target = self.plan.target
        parts = urlsplit(target.url)
        tls = target.tls() if parts.scheme == "amqps" else None
        assert parts.hostname is not None
        assert parts.port is not None
        await self.loop.create_connection(lambda: link, parts.hostname, parts.port, ssl=tls)
        self._links.append(link)
        flags = 0x02
        login = b""
        if target.user is not None:
            flags |= 0xC0
            login = write_text(target.user) + write_binary((target.password or "").encode())
        body = write_text("MQTT") + bytes((4, flags)) + write_u16(0) + write_text(client_id) + login
        code = await link.ask(with_header(0x10, body))
        if code:
            raise MqttFailed(f"the broker refused the connection with code {code}")

    async def close(self) -> None:
        """Disconnect all clients."""
        for link in self._links:
            if link.transport is not None:
                link.transport.write(b"\xe0\x00")
                link.transport.close()
