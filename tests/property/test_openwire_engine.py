"""The OpenWire engine under any fragmentation and any damage, in all versions; messages against the general codec."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from attrs import evolve, fields_dict
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.codec import TYPES, fields_of, read_frame, write_frame, write_nested
from artemis_openwire.engine.commands import (
    ActiveMQMessage,
    BaseCommand,
    BrokerInfo,
    ConnectionInfo,
    KeepAliveInfo,
    Message,
    MessageAck,
    MessageDispatch,
    RemoveInfo,
    ShutdownInfo,
    WireFormatInfo,
)
from artemis_openwire.engine.composing import MessageDraft
from artemis_openwire.engine.dispatch_writer import DispatchWriter
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.rewriting import Changes, rewrite, transcode
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
    ActiveMQTopic,
    ConnectionId,
    MessageId,
)
from artemis_openwire.engine.values import write_map
from artemis_py.errors import ProtocolError
from artemis_py.wire.outbox import Outbox
from tests.examples import examples
from tests.openwire_harness import CONNECTION, CONSUMER, QUEUE, Conversation, frames, message_ack, wire_format

LIMITS = ConnectionLimits(login_frame_size=800, command_size=900, max_frame_size=1500, login_buffer_size=3000)

versions = st.integers(1, 12)
texts = st.text(max_size=6)
octets = st.binary(max_size=12)
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    BYTE: st.integers(-128, 127),
    INT: st.integers(-(1 << 31), (1 << 31) - 1),
    LONG: st.integers(-(1 << 63), (1 << 63) - 1),
    STRING: st.none() | texts,
    BYTES: st.none() | octets,
    OCTETS_8: st.binary(min_size=8, max_size=8),
    THROWABLE: st.none() | st.builds(Throwable, st.none() | texts, st.none() | texts),
}


@st.composite
def structures(draw: st.DrawFn, of: type[Structure], version: int, depth: int = 0) -> Structure:
    """A structure of a type, or of one that extends it."""
    kinds = [kind for kind in TYPES.values() if issubclass(kind, of) and kind.since <= version]
    kind = draw(st.sampled_from(kinds))
    values: dict[str, Any] = {}
    for name, wire, inner in fields_of(kind, version):
        values[name] = draw(field_values(wire, inner, version, depth))
    return kind(**values)


def field_values(wire: Wire, inner: type[Structure], version: int, depth: int) -> st.SearchStrategy[Any]:
    """What may stand in one field."""
    if wire.kind not in (NESTED, ARRAY):
        return SIMPLE[wire.kind]
    if depth == 2:
        return st.none()
    one = st.none() | structures(inner, version, depth + 1)
    return one if wire.kind == NESTED else st.none() | st.lists(one, max_size=2).map(tuple)


@st.composite
def versioned(draw: st.DrawFn, of: type[Structure]) -> tuple[int, Any]:
    """A version, and a structure that it has."""
    version = draw(versions)
    return version, draw(structures(of, version))


@given(versioned(Structure))
@settings(max_examples=examples(200))
def test_structures_round_trip(case: tuple[int, Structure]) -> None:
    """Every type, every version."""
    version, structure = case

    assert read_frame(write_frame(structure, version)[4:], version) == structure


@given(versioned(Structure), st.integers(0, 400), st.binary(min_size=1, max_size=4))
@settings(max_examples=examples(200))
def test_damaged_structures_raise_nothing_else(case: tuple[int, Structure], at: int, damage: bytes) -> None:
    """Overwritten anywhere; also cut off there."""
    version, structure = case
    body = bytearray(write_frame(structure, version)[4:])
    at %= len(body)
    body[at : at + len(damage)] = damage

    for octets in (bytes(body), bytes(body[:at])):
        for read in (read_frame, MessageFields().read, AckFields().read):
            with suppress(ProtocolError):
                read(octets, version)


# -- messages ----------------------------------------------------------------------------------------------------------


@st.composite
def messages(draw: st.DrawFn, version: int) -> Message:
    """A message that a client may send: it has an id and a producer in it."""
    message = draw(structures(Message, version, 1))
    assert isinstance(message, Message)
    identified = draw(structures(TYPES[110], version, 1))
    producer = draw(structures(TYPES[123], version, 1))
    changes: dict[str, Any] = {"message_id": evolve(identified, producer_id=producer)}  # type: ignore[call-arg]
    return evolve(message, **changes)


@st.composite
def kept_messages(draw: st.DrawFn) -> tuple[int, Message, bytes, bytes]:
    """A version, a message in it, and what is kept of that message."""
    version = draw(versions)
    message = draw(messages(version))
    fields = MessageFields()
    body = write_frame(message, version)[4:]
    fields.read(body, version)
    return version, message, fields.header(77), body


@given(kept_messages(), versions, st.integers(0, 1 << 40), st.integers(0, 1000), st.booleans())
def test_a_delivery_is_the_message_with_a_few_fields_changed(
    kept: tuple[int, Message, bytes, bytes], to: int, sequence: int, redeliveries: int, is_first: bool
) -> None:
    """From any version to any other, against the general codec."""
    _, message, header, body = kept
    outbox = Outbox(1 << 20, lambda: None)
    writer = DispatchWriter(outbox, to, 1 << 20, write_nested(CONSUMER, to))

    assert writer.send(header, body, write_nested(QUEUE, to), sequence, redeliveries, 88, is_first)

    (frame,) = frames(outbox.take())
    dispatch = read_frame(frame, to)
    assert isinstance(dispatch, MessageDispatch)
    assert (dispatch.consumer_id, dispatch.destination) == (CONSUMER, QUEUE)
    assert (dispatch.redelivery_counter, dispatch.command_id) == (redeliveries, 0)
    assert message.message_id is not None
    expected = evolve(
        message,
        redelivery_counter=redeliveries,
        message_id=evolve(message.message_id, broker_sequence_id=sequence),
        broker_in_time=77,
        broker_out_time=88,
        jmsx_group_first_for_consumer=is_first or message.jmsx_group_first_for_consumer,
    )
    if type(expected).since > to:
        own = list(fields_dict(ActiveMQMessage))
        expected = ActiveMQMessage(**{name: getattr(expected, name) for name in own})
    try:
        encoded = write_frame(expected, to)
    except ValueError:
        # The type of its subject does not exist in that version.
        encoded = write_frame(evolve(expected, data_structure=None), to)
    assert dispatch.message == read_frame(encoded[4:], to)


@given(kept_messages(), st.integers(0, 1 << 50), st.dictionaries(texts, texts, max_size=3))
def test_a_rewritten_message_differs_in_what_was_asked_for(
    kept: tuple[int, Message, bytes, bytes], expires_ms: int, entries: dict[str, str]
) -> None:
    """Against the general codec."""
    version, message, header, body = kept
    to, origin = ActiveMQQueue(physical_name="DLQ"), ActiveMQTopic(physical_name="t")
    properties = write_map(entries) if entries else b""
    changes = Changes(
        destination=to,
        original_destination=origin,
        expiration_ms=expires_ms,
        properties=properties,
        user_id="joe",
        drops_transaction=True,
    )

    rewritten, found = rewrite(header, body, changes)

    expected = evolve(
        message,
        destination=to,
        original_destination=origin,
        expiration=expires_ms,
        marshalled_properties=properties or None,
        user_id="joe",
        transaction_id=None,
    )
    assert read_frame(found, version) == expected
    assert rewrite(rewritten, found, Changes()) == (rewritten, found)


@given(st.sampled_from(range(23, 29)), structures(TYPES[123], 12), structures(ActiveMQDestination, 12), st.data())
def test_a_new_message_is_encoded_as_the_general_codec_does_it(
    code: int, producer: Structure, destination: Structure, data: st.DataObject
) -> None:
    """All of its fields."""
    number, sequence = data.draw(SIMPLE[LONG]), data.draw(SIMPLE[INT])
    draft = MessageDraft(code, write_nested(producer, 12), number, write_nested(destination, 12))
    subject = data.draw(st.none() | structures(TYPES[2], 12, 1))
    draft.text_id, draft.correlation_id, draft.jms_type, draft.group_id, draft.user_id = (
        data.draw(SIMPLE[STRING]) for _ in range(5)
    )
    draft.persistent, draft.priority = data.draw(st.booleans()), data.draw(st.integers(0, 9))
    draft.expiration_ms, draft.timestamp_ms = data.draw(SIMPLE[LONG]), data.draw(SIMPLE[LONG])
    draft.content, draft.properties = data.draw(SIMPLE[BYTES]), data.draw(SIMPLE[BYTES])
    draft.reply_to_field, draft.group_sequence = write_nested(destination, 12), sequence
    draft.structure_field = write_nested(subject, 12)

    header, body = draft.encode(77)

    named = MessageId(text_view=draft.text_id, producer_id=producer, producer_sequence_id=number)  # type: ignore[arg-type]
    values: dict[str, Any] = {
        "producer_id": producer,
        "destination": destination,
        "message_id": named,
        "group_id": draft.group_id,
        "group_sequence": sequence,
        "correlation_id": draft.correlation_id,
        "persistent": draft.persistent,
        "expiration": draft.expiration_ms,
        "priority": draft.priority,
        "reply_to": destination,
        "timestamp": draft.timestamp_ms,
        "type": draft.jms_type,
        "content": draft.content,
        "marshalled_properties": draft.properties,
        "data_structure": subject,
        "user_id": draft.user_id,
    }
    assert body == write_frame(TYPES[code](**values), 12)[4:]
    fields = MessageFields()
    fields.read(body, 12)
    assert header == fields.header(77)


@given(kept_messages())
def test_one_reader_reads_messages_one_after_the_other(kept: tuple[int, Message, bytes, bytes]) -> None:
    """What is remembered of a message's head must not change what the next one says."""
    version, message, header, body = kept
    others = [evolve(message, destination=QUEUE), evolve(message, command_id=5, group_id="g"), message]
    fields = MessageFields()

    for other in [message, *others, *others]:
        octets = write_frame(other, version)[4:]
        fields.read(octets, version)
        fresh = MessageFields()
        fresh.read(octets, version)
        assert vars_of(fields) == vars_of(fresh)
        assert fields.destination == other.destination
    assert fields.header(77) == header
    assert transcode(header, body, version) == (header, body)


@given(versioned(MessageAck), st.integers(0, 300))
def test_one_reader_reads_acknowledgements_one_after_the_other(case: tuple[int, Any], cut: int) -> None:
    """As above; a damaged one in between makes no difference."""
    version, ack = case
    others = [evolve(ack, consumer_id=CONSUMER), evolve(ack, command_id=5, message_count=2), ack]
    fields = AckFields()

    for other in [ack, *others, *others]:
        octets = write_frame(other, version)[4:]
        with suppress(ProtocolError):
            fields.read(octets[: cut % len(octets)], version)
        fields.read(octets, version)
        fresh = AckFields()
        fresh.read(octets, version)
        assert vars_of(fields) == vars_of(fresh)


def vars_of(fields: MessageFields | AckFields) -> dict[str, object]:
    """Offsets and octets."""
    names = [name for name in dir(fields) if name.endswith("_at")]
    return {name: getattr(fields, name) for name in [*names, "body", "version"]}


# -- conversations -----------------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, bytes]:
    """What a client sends from its first octet on."""
    version = draw(versions)
    commands: list[Structure] = [
        wire_format(version),
        ConnectionInfo(command_id=1, response_required=draw(st.booleans()), connection_id=CONNECTION),
    ]
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["message", "ack", "command", "keep-alive", "remove", "login"]))
        match kind:
            case "message":
                commands.append(draw(messages(version)))
            case "ack":
                ack = draw(structures(MessageAck, version, 1)) if draw(st.booleans()) else message_ack(1, 2)
                commands.append(ack)
            case "command":
                found = draw(structures(BaseCommand, version, 1))
                # What only brokers send, and the client's own end, would leave nothing behind it to be read.
                if not isinstance(found, (BrokerInfo, ShutdownInfo)) and not 30 <= found.code <= 34:
                    commands.append(found)
            case "keep-alive":
                commands.append(KeepAliveInfo(response_required=draw(st.booleans())))
            case "remove":
                commands.append(RemoveInfo(response_required=True, object_id=CONNECTION))
            case "login":
                commands.append(ConnectionInfo(response_required=True, connection_id=ConnectionId(value="x")))
    if draw(st.booleans()):
        commands.append(ShutdownInfo(response_required=draw(st.booleans())))
    return version, b"".join([write_frame(command, version) for command in commands])


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, bytes]:
    """Such a stream with octets overwritten."""
    version, data = draw(streams())
    octets = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(octets) - 1))
        octets[at : at + 4] = draw(st.binary(min_size=1, max_size=4))
    return version, bytes(octets)


def cuts(data: bytes, at: Sequence[int]) -> list[bytes]:
    """Data in pieces."""
    offsets = sorted({0, len(data), *(offset % (len(data) + 1) for offset in at)})
    return [data[start:end] for start, end in pairwise(offsets)]


def replay(pieces: Sequence[bytes], shares: Sequence[int] = ()) -> tuple[list[tuple[Any, ...]], bytes, bool]:
    """What the handler is told, what the engine writes, and whether it is closed."""
    server = Conversation(limits=LIMITS)
    engine = server.engine
    written = b""
    turns = 0

    def begin_share() -> None:
        nonlocal turns
        if shares:
            engine.meter.end = engine.meter.work + shares[turns % len(shares)]
            turns += 1

    for piece in pieces:
        begin_share()
        engine.receive_data(piece, 0.0)
        written += engine.data_to_send()
    while engine.has_input:
        begin_share()
        engine.work(0.0)
        written += engine.data_to_send()
    return [call for call in server.calls if call[0] != "writable"], written, engine.closed


@given(streams() | damaged(), st.lists(st.integers(0, 3000), max_size=12))
@settings(max_examples=examples(300))
def test_fragmentation_changes_nothing(stream: tuple[int, bytes], at: list[int]) -> None:
    """Same calls, same octets, same end; and nothing is raised."""
    _, data = stream

    assert replay(cuts(data, at)) == replay([data])


@given(streams())
def test_single_octets_are_enough(stream: tuple[int, bytes]) -> None:
    """The finest fragmentation."""
    _, data = stream

    assert replay([bytes((octet,)) for octet in data]) == replay([data])


@given(streams() | damaged(), st.lists(st.integers(0, 3000), max_size=8), st.lists(st.integers(1, 3), min_size=1))
def test_shares_change_nothing(stream: tuple[int, bytes], at: list[int], shares: list[int]) -> None:
    """However little of it is done in a turn."""
    _, data = stream

    assert replay(cuts(data, at), shares) == replay([data])


@given(streams())
def test_what_a_client_sends_reaches_the_handler(stream: tuple[int, bytes]) -> None:
    """Each message and acknowledgement once, in order, if nothing was wrong; otherwise up to there."""
    version, data = stream
    commands = [read_frame(frame, version if at else 1) for at, frame in enumerate(frames(data))]
    assume(not any(isinstance(command, (RemoveInfo, WireFormatInfo)) for command in commands[1:]))
    calls, _, closed = replay([data])
    told = [call[1] for call in calls if call[0] in ("message", "ack")]
    sent = [command for command in commands if isinstance(command, (Message, MessageAck))]

    assert told == sent[: len(told)]
    assert len(told) == len(sent) or (closed and calls[-1][0] == "failed")
