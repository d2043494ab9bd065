"""OpenWire commands with any fields, and damage to their octets.

The commands are made of a few names, so that most of them are about something that exists: also of another client.
"""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from artemis_openwire.engine.codec import TYPES, fields_of
from artemis_openwire.engine.commands import (
    BaseCommand,
    ConsumerInfo,
    Message,
    MessageAck,
    MessagePull,
    ProducerInfo,
    TransactionInfo,
)
from artemis_openwire.engine.structure import (
    ARRAY,
    BOOLEAN,
    BYTE,
    BYTES,
    INT,
    LONG,
    NESTED,
    OCTETS_8,
    STRING,
    THROWABLE,
    Structure,
    Throwable,
    Wire,
)
from artemis_openwire.engine.structures import (
    ActiveMQDestination,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
    XATransactionId,
)
from artemis_openwire.engine.transitions import HANDLED, MESSAGE_ACK, MESSAGES
from artemis_openwire.engine.values import write_map

NAMES: Final = ("c1", "c1", "c1", "steady", "other")
PLACES: Final = (
    *("q", "q", "t", "a,b", "q::q", "t::s", "::", "a::", "a.*", "a.>", "*", ">", "", "queue://x,topic://y", ",", "\0"),
    *("ActiveMQ.Advisory.TempQueue", "ActiveMQ.Advisory.>", "q?consumer.prefetchSize=0", "x" * 300, "ü/😀"),
)
SELECTORS: Final = ("a = 1", "", " ", "a =", "a LIKE 'x%' ESCAPE '\\'", "1", "TRUE", "JMSPriority > 3 OR a IS NULL")
COMMANDS: Final = [kind for kind in TYPES.values() if kind.code in HANDLED | {MESSAGE_ACK} | set(MESSAGES)]
OFTEN: Final = (ConsumerInfo, ConsumerInfo, ProducerInfo, TransactionInfo, MessageAck, MessagePull)
CONTENTS: Final = (b"", b"\0\0\0\2hi", b"\0\0\0\xff", b"\xff" * 9, b"x\x9c\x03\0\0\0\0\1")
PROPERTIES: Final = (
    write_map({"a": 1, "AMQ_SCHEDULED_DELAY": 5}),
    write_map({"JMSXGroupID": "g", "_AMQ_DUPL_ID": "d", "b": "ü"}),
    *(b"", b"\0\0\0\1", write_map({"a": 1})[:-1]),
)


class Disorder:
    """Makes commands of one version."""

    def __init__(self, seed: int, version: int) -> None:
        self.random: Final = random.Random(seed)
        self.version: Final = version

    def command(self) -> BaseCommand:
        """Any that a client may send."""
        kinds = [kind for kind in COMMANDS if kind.since <= self.version]
        often = [kind for kind in OFTEN if kind.since <= self.version]
        made = self._make(self.random.choice((*kinds, *often)))
        assert isinstance(made, BaseCommand)
        return made

    def _make(self, kind: type[Structure], depth: int = 0) -> Structure:
        values = {name: self._value(name, wire, inner, depth) for name, wire, inner in fields_of(kind, self.version)}
        if issubclass(kind, Message) and self.random.random() < 0.9:
            number = self.random.randint(1, 9)
            values["message_id"] = MessageId(producer_id=self._nested(ProducerId, 1), producer_sequence_id=number)
        return kind(**values)

    def _value(self, name: str, wire: Wire, inner: type[Structure], depth: int) -> Any:
        choose = self.random.choice
        match wire.kind:
            case kind if kind == BOOLEAN:
                return self.random.random() < 0.3
            case kind if kind == BYTE:
                return choose((0, 1, 2, 3, 4, 5, 6, 7, -1, 127))
            case kind if kind == INT:
                return choose((0, 1, 2, 1000, -1, (1 << 31) - 1, -(1 << 31)))
            case kind if kind == LONG:
                return choose((0, 1, 2, -1, -2, (1 << 63) - 1, -(1 << 63)))
            case kind if kind == STRING:
                return choose((None, *(SELECTORS if name == "selector" else ("s", "c1", "", "x" * 300, "\0", "ü"))))
            case kind if kind == BYTES:
                return choose((None, *(PROPERTIES if "properties" in name else CONTENTS)))
            case kind if kind == OCTETS_8:
                return b"ActiveMQ"
            case kind if kind == THROWABLE:
                return choose((None, Throwable("a.B", "why"), Throwable(None, None)))
            case kind if kind == ARRAY:
                return choose((None, (), (self._nested(inner, depth),)))
        assert wire.kind == NESTED
        return self._nested(inner, depth)

    def _nested(self, inner: type[Structure], depth: int) -> Any:
        choose = self.random.choice
        name, number = choose(NAMES), choose((1, 1, 1, 2, 0, -1, 77))
        if self.random.random() < 0.05 or depth > 3:
            return None
        if issubclass(inner, ActiveMQDestination):
            forms = (ActiveMQQueue, ActiveMQQueue, ActiveMQTopic, ActiveMQTempQueue, ActiveMQTempTopic)
            return choose(forms)(physical_name=choose((None, *PLACES)))
        if inner is ConnectionId:
            return ConnectionId(value=name)
        if inner in (ConsumerId, ProducerId):
            return inner(connection_id=name, session_id=choose((1, 1, 1, -1, 2)), value=number)
        if inner is SessionId:
            return SessionId(connection_id=name, value=number)
        if inner is MessageId:
            return MessageId(producer_id=self._nested(ProducerId, 1), broker_sequence_id=number)
        if inner is TransactionId:
            xid = XATransactionId(format_id=number, global_transaction_id=choose((None, b"", b"g", b"g" * 65)))
            return choose((None, xid, LocalTransactionId(value=number, connection_id=ConnectionId(value=name))))
        kinds = [kind for kind in TYPES.values() if issubclass(kind, inner) and kind.since <= self.version]
        return self._make(choose(kinds), depth + 1)


def damaged(octets: bytes, chance: random.Random) -> bytes:
    """Overwritten at one place, cut off, or with something put in."""
    at, kind = chance.randrange(len(octets)), chance.randrange(4)
    noise = bytes(chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256))) for _ in range(chance.randint(1, 4)))
    if kind == 0:
        return octets[:at] + noise + octets[at:]
    if kind == 1:
        return octets[:at] + octets[at + len(noise) :]
    return octets[:at] + noise + octets[at + len(noise) :]


def pieces(octets: bytes, chance: random.Random) -> Sequence[bytes]:
    """The octets, cut at random."""
    cuts = sorted({0, len(octets), *(chance.randrange(len(octets)) for _ in range(chance.choice((0, 0, 1, 5))))})
    return [octets[start:end] for start, end in pairwise(cuts)]
