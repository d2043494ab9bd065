"""The MQTT engine under any fragmentation, any damage, and against another encoder and a model."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from artemis_mqtt.engine.codec import ServerPacket, write_packet
from artemis_mqtt.engine.delivery import Delivery
from artemis_mqtt.engine.fields import MAX_VARINT, read_varint, write_varint
from artemis_mqtt.engine.flight import RELEASED, OutgoingFlight
from artemis_mqtt.engine.limits import ConnectionLimits
from artemis_mqtt.engine.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    PacketType,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from artemis_mqtt.engine.properties import ALLOWED, KINDS, WILL, Properties, Property, read_properties, write_properties
from artemis_mqtt.engine.publish import split_properties
from artemis_mqtt.engine.reasons import CLIENT_DISCONNECT_CODES, PacketError
from artemis_mqtt.engine.topics import topic_field
from tests.examples import examples
from tests.mqtt_harness import (
    PINGREQ,
    Conversation,
    Recorder,
    ack,
    auth,
    connect,
    disconnect,
    publish,
    read_server_packets,
    subscribe,
    unsubscribe,
)

LIMITS = ConnectionLimits(
    login_packet_size=400, max_packet_size=500, receive_maximum=5, topic_alias_maximum=3, max_subscribe_filters=4
)

versions = st.sampled_from([3, 4, 5])
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
levels = st.text(st.characters(codec="utf-8", exclude_characters="\0+#/"), max_size=4)
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.one_of(
    topics.filter(lambda name: not name.startswith("$share")),
    st.sampled_from(["#", "+", "a/+/b", "/#", "$share/g/a", "$share/g/#", "$SYS/#"]),
)
octets = st.binary(max_size=20)
packet_ids = st.integers(1, 65535)
few_ids = st.integers(1, 7)


@st.composite
def properties(draw: st.DrawFn, where: int) -> Properties:
    """Some of those that a packet may carry."""
    values: dict[str, Any] = {}
    for code in draw(st.lists(st.sampled_from(sorted(ALLOWED[where])), unique=True, max_size=4)):
        name = code.name.lower()
        match code:
            case Property.USER_PROPERTY:
                values["user_properties"] = tuple(draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=3)))
            case Property.SUBSCRIPTION_IDENTIFIER:
                values["subscription_identifiers"] = (draw(st.integers(1, MAX_VARINT)),)
            case Property.RESPONSE_TOPIC:
                values[name] = draw(topics)
            case _:
                kind = KINDS[code]
                if kind is KINDS[Property.CONTENT_TYPE]:
                    values[name] = draw(texts)
                elif kind is KINDS[Property.CORRELATION_DATA]:
                    values[name] = draw(octets)
                elif kind is KINDS[Property.MAXIMUM_QOS]:
                    values[name] = draw(st.integers(0, 1))
                else:
                    values[name] = draw(st.integers(1, 65535))
    return Properties(**values)


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    """A CONNECT that the engine takes."""
    is_v5 = version == 5
    will = None
    if draw(st.booleans()):
        of_will = draw(properties(WILL)) if is_v5 else Properties()
        carried = evolve(of_will, will_delay_interval=None, message_expiry_interval=None)
        will = Will(
            topic=draw(topics),
            payload=draw(octets),
            qos=draw(st.integers(0, 2)),
            retain=draw(st.booleans()),
            properties=of_will,
            publish_properties=write_properties(carried),
        )
    username = draw(st.none() | texts)
    said = draw(properties(PacketType.CONNECT)) if is_v5 else Properties()
    if said.authentication_method is None:
        said = evolve(said, authentication_data=None)
    return Connect(
        version=version,
        client_id=draw(texts.filter(bool)),
        clean_start=draw(st.booleans()),
        keep_alive_s=draw(st.integers(0, 65535)),
        username=username,
        password=draw(st.none() | octets) if is_v5 or username is not None else None,
        will=will,
        properties=said,
    )


@st.composite
def subscribes(draw: st.DrawFn, version: int) -> Subscribe:
    """A SUBSCRIBE that the engine takes."""
    subscriptions = []
    for topic_filter in draw(st.lists(filters, min_size=1, max_size=4)):
        subscriptions.append(
            Subscription(
                topic_filter=topic_filter,
                qos=draw(st.integers(0, 2)),
                no_local=version == 5 and not topic_filter.startswith("$share/") and draw(st.booleans()),
                retain_as_published=version == 5 and draw(st.booleans()),
                retain_handling=draw(st.integers(0, 2)) if version == 5 else 0,
            )
        )
    said = draw(properties(PacketType.SUBSCRIBE)) if version == 5 else Properties()
    return Subscribe(packet_id=draw(packet_ids), subscriptions=tuple(subscriptions), properties=said)


@st.composite
def client_packets(draw: st.DrawFn, version: int) -> bytes:
    """Any packet of a client that is in."""
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            qos = draw(st.integers(0, 2))
            said = draw(properties(PacketType.PUBLISH)) if version == 5 else Properties()
            said = evolve(said, subscription_identifiers=(), topic_alias=draw(st.none() | st.integers(1, 3)))
            packet_id = draw(few_ids) if qos else 0
            return publish(version, draw(topics), draw(octets), qos, packet_id, properties=said)
        case 3:
            return ack(PacketType.PUBREL, draw(few_ids))
        case 4:
            return ack(draw(st.integers(4, 7)), draw(few_ids))
        case 5:
            return subscribe(version, draw(subscribes(version)))
        case 6:
            topic_filters = tuple(draw(st.lists(filters, min_size=1, max_size=4)))
            return unsubscribe(version, Unsubscribe(packet_id=draw(packet_ids), topic_filters=topic_filters))
        case 7:
            return ack(draw(st.integers(4, 7)), draw(few_ids), draw(st.sampled_from([0, 0x80, 0x92])))
        case 8:
            return draw(st.sampled_from([PINGREQ, disconnect(version), auth(Auth(reason=0x19))]))
        case _:
            return PINGREQ


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, bytes]:
    """What a client of some version sends, from CONNECT on."""
    version = draw(versions)
    packets = draw(st.lists(client_packets(version), max_size=12))
    return version, connect(draw(connects(version))) + b"".join(packets)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, bytes]:
    """A stream with some octets overwritten, taken out or put in."""
    version, stream = draw(streams())
    data = bytearray(stream)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 2)):
            case 0:
                data[at] = draw(st.integers(0, 255))
            case 1:
                del data[at : at + draw(st.integers(1, 3))]
                data = data or bytearray(b"\0")
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=3))
    return version, bytes(data)


def cuts(data: bytes, at: Sequence[int]) -> list[bytes]:
    """The pieces of `data`."""
    edges = [0, *sorted({index % (len(data) + 1) for index in at}), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


def session(version: int, pieces: Sequence[bytes]) -> tuple[list[tuple[Any, ...]], bytes, bool]:
    """What a server makes of the pieces: calls, output, and whether it closed."""
    handler = Recorder()
    for packet_id, qos in ((1, 1), (2, 2), (3, 2)):
        handler.outgoing.restore(Delivery(packet_id, qos, RELEASED if packet_id == 3 else 0, None, False))
    server = Conversation(version, LIMITS, handler)
    written = b""
    for piece in pieces:
        server.engine.receive_data(piece, 0.0)
        while handler.outgoing.next_resend() is not None:
            pass
        written += server.engine.data_to_send()
    calls = [call for call in server.calls if call[0] != "writable"]
    return calls, written, server.engine.closed


class Eager(Recorder):
    """Sends again what is to be sent again before anything else is read, so that reads may end anywhere."""

    def accept(self, packet: Connect) -> None:
        """As a session without anything under way."""
        self.outgoing = OutgoingFlight()
        for packet_id, qos in ((1, 1), (2, 2), (3, 2)):
            self.outgoing.restore(Delivery(packet_id, qos, RELEASED, None, False))
        super().accept(packet)


def replay(version: int, pieces: Sequence[bytes]) -> tuple[list[tuple[Any, ...]], bytes, bool]:
    """As `session`, independent of where reads end."""
    server = Conversation(version, LIMITS, Eager())
    written = b""
    for piece in pieces:
        server.engine.receive_data(piece, 0.0)
        written += server.engine.data_to_send()
    return [call for call in server.calls if call[0] != "writable"], written, server.engine.closed


@given(streams() | damaged(), st.lists(st.integers(0, 2000), max_size=8))
@example((5, b"\x10\x80\x80\x80\x80\x01"), [1, 2, 3, 4, 5])
@example((4, bytes.fromhex("110c00044d515454040200000000")), [2])
@example((4, bytes.fromhex("100c00044d51545404020000000030ffff7f")), [14, 15, 16, 17])
@settings(max_examples=examples(200))
def test_fragmentation_changes_nothing(stream: tuple[int, bytes], at: list[int]) -> None:
    """Where TCP cuts the stream is nobody's business: same calls, same octets, same end."""
    version, data = stream
    whole = replay(version, [data])

    assert replay(version, cuts(data, at)) == whole
    assert replay(version, [bytes((octet,)) for octet in data]) == whole


@given(damaged())
@settings(max_examples=examples(300))
def test_damage_ends_its_own_connection_at_worst(stream: tuple[int, bytes]) -> None:
    """[MQTT-4.13.1-1] nothing a client sends raises; the failure is told once, last, and version 5 is told why."""
    version, data = stream
    calls, written, closed = session(version, [data])
    names = [call[0] for call in calls]

    assert "failed" not in names[:-1]
    assert closed is (bool(names) and names[-1] in ("failed", "disconnect"))
    if names[:1] == ["connect"]:
        spoken = calls[0][1].version
        packets = read_server_packets(spoken, written)
        if names[-1] == "failed" and spoken == 5:
            assert packets[-1].reason == calls[-1][1]


@given(st.binary(max_size=60))
def test_noise_before_connect(data: bytes) -> None:
    """Whoever talks to us by mistake."""
    calls, _, _ = session(5, [data])

    assert [call[0] for call in calls] in ([], ["failed"], ["connect"], ["connect", "failed"])


# -- round trips -------------------------------------------------------------------------------------------------


@given(st.data(), versions)
def test_connect_survives(data: st.DataObject, version: int) -> None:
    """Every version, every flag, every property."""
    packet = data.draw(connects(version))
    server = Conversation(version, handler=Recorder(accepts=False))
    server.send(connect(packet))

    assert server.calls == [("connect", packet)]


@given(st.data(), versions)
def test_what_a_client_sends_survives(data: st.DataObject, version: int) -> None:
    """SUBSCRIBE, UNSUBSCRIBE, DISCONNECT."""
    server = Conversation(version)
    session_expiry = Properties(session_expiry_interval=1) if version == 5 else Properties()
    server.open(Connect(client_id="c", properties=session_expiry))
    asked = data.draw(subscribes(version))
    said = data.draw(properties(PacketType.UNSUBSCRIBE)) if version == 5 else Properties()
    gone = Unsubscribe(packet_id=data.draw(packet_ids), topic_filters=("a", "b"), properties=said)
    last = Disconnect()
    if version == 5:
        said = evolve(data.draw(properties(PacketType.DISCONNECT)), server_reference=None)
        last = Disconnect(reason=data.draw(st.sampled_from(sorted(CLIENT_DISCONNECT_CODES))), properties=said)
    server.send(subscribe(version, asked) + unsubscribe(version, gone) + disconnect(version, last))

    assert server.calls == [("subscribe", asked), ("unsubscribe", gone), ("disconnect", last)]


@given(st.data())
def test_what_a_server_sends_survives(data: st.DataObject) -> None:
    """CONNACK, SUBACK, UNSUBACK, DISCONNECT and AUTH of version 5."""
    codes = tuple(data.draw(st.lists(st.integers(0, 255), min_size=1)))
    packet_id = data.draw(packet_ids)
    packets: list[ServerPacket] = [
        Connack(session_present=data.draw(st.booleans()), properties=data.draw(properties(PacketType.CONNACK))),
        Suback(packet_id=packet_id, reasons=codes, properties=data.draw(properties(PacketType.SUBACK))),
        Unsuback(packet_id=packet_id, reasons=codes, properties=data.draw(properties(PacketType.UNSUBACK))),
        Disconnect(reason=codes[0], properties=data.draw(properties(PacketType.DISCONNECT))),
        Auth(reason=codes[0], properties=data.draw(properties(PacketType.AUTH))),
    ]

    assert read_server_packets(5, b"".join(write_packet(5, packet) for packet in packets)) == packets


@given(st.data(), versions, topics, st.binary(max_size=300), st.integers(0, 2), st.booleans(), packet_ids)
def test_a_message_survives_both_ways(
    data: st.DataObject, version: int, topic: str, payload: bytes, qos: int, retain: bool, packet_id: int
) -> None:
    """Whatever a client publishes, another one gets: topic, payload, QoS, retain, properties."""
    said = data.draw(properties(PacketType.PUBLISH)) if version == 5 else Properties()
    said = evolve(said, subscription_identifiers=(), topic_alias=None)
    server = Conversation(version)
    server.open()
    server.send(publish(version, topic, payload, qos, packet_id if qos else 0, retain=retain, properties=said))
    call = server.calls[0]
    server.engine.writer.send(topic_field(call[1]), call[2], call[3], call[4], False, call[6], call[7])

    kept = evolve(said, message_expiry_interval=None)
    assert server.read()[0] == ("publish", topic, payload, qos, packet_id if qos else 0, retain, False, kept)
    assert call[8] == (-1 if said.message_expiry_interval is None else said.message_expiry_interval)


@given(st.integers(0, MAX_VARINT))
def test_variable_byte_integers_survive(value: int) -> None:
    """[MQTT-1.5.5-1] in as few octets as there can be."""
    data = write_varint(value)

    assert read_varint(data, 0, len(data)) == (value, len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))


@given(properties(PacketType.PUBLISH))
def test_splitting_a_message_s_properties_is_reading_them(said: Properties) -> None:
    """The hot path and the table agree about what travels, and about what is wrong."""
    data = write_properties(said)
    if said.subscription_identifiers:
        return
    kept, expiry_s, alias = split_properties(data, 0, len(data), 128)

    read = read_properties(kept, 0, len(kept), PacketType.PUBLISH)
    assert read == evolve(said, topic_alias=None, message_expiry_interval=None)
    assert (expiry_s, alias) == (
        -1 if said.message_expiry_interval is None else said.message_expiry_interval,
        said.topic_alias or 0,
    )


@given(st.binary(max_size=30))
def test_both_readers_of_a_message_s_properties_refuse_the_same(data: bytes) -> None:
    """But for what only a server sends, and topics, which the hot path checks as well."""
    try:
        kept = split_properties(data, 0, len(data), 128)[0]
    except PacketError:
        return
    read_properties(data, 0, len(data), PacketType.PUBLISH)
    read_properties(kept, 0, len(kept), PacketType.PUBLISH)


# -- against another implementation --------------------------------------------------------------------------------


@given(st.data(), st.sampled_from([PacketType.CONNECT, PacketType.PUBLISH, PacketType.CONNACK, PacketType.DISCONNECT]))
def test_paho_reads_and_writes_the_same_properties(data: st.DataObject, where: PacketType) -> None:
    """The Eclipse client has tables of its own."""
    said = data.draw(properties(where))
    paho: Any = PahoProperties(getattr(PacketTypes, where.name))
    encoded = write_properties(said)
    paho.unpack(write_varint(len(encoded)) + encoded)
    packed = paho.pack()
    size, offset = read_varint(packed, 0, len(packed))

    assert read_properties(packed, offset, offset + size, where) == said


# -- in flight ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from("12arRcx"), st.integers(0, 5)), max_size=60))
def test_the_window_is_never_overrun_and_nothing_is_lost(window: int, steps: list[tuple[str, int]]) -> None:
    """[MQTT-4.9.0-1] A model: what was added is under way until it is over, in order; at most `window` unanswered."""
    flight = OutgoingFlight()
    flight.begin(window)
    model: dict[int, tuple[int, str]] = {}
    unsent: list[int] = []
    for action, choice in steps:
        known = list(model)
        packet_id = known[choice % len(known)] if known else 9
        qos, state = model.get(packet_id, (0, ""))
        match action:
            case "1" | "2":
                added = flight.add(int(action), None)
                assert bool(added) == (not unsent and len(model) - released_before(model) < window)
                if added:
                    assert added not in model
                    model[added] = (int(action), "sent")
            case "a" if qos == 1 and packet_id not in unsent:
                assert flight.acknowledge(packet_id) is not None
                del model[packet_id]
            case "r" if qos == 2 and state == "sent" and packet_id not in unsent:
                received = flight.receive(packet_id, False)
                assert received is not None
                assert received is flight.deliveries.get(packet_id)
                received.state = RELEASED
                model[packet_id] = (2, "released")
            case "R" if qos == 2 and state == "sent" and packet_id not in unsent:
                flight.receive(packet_id, True)
                del model[packet_id]
            case "c" if state.startswith("released"):
                flight.complete(packet_id)
                del model[packet_id]
            case "x":
                flight.begin(window)
                unsent = [key for key in model if model[key][1] == "sent"]
                model = {key: value if key in unsent else (2, "released before") for key, value in model.items()}
        while (again := flight.next_resend()) is not None:
            assert again.packet_id == unsent.pop(0)
        assert [delivery.packet_id for delivery in flight.deliveries.in_order()] == list(model)
        assert 0 <= flight.quota <= window


def released_before(model: dict[int, tuple[int, str]]) -> int:
    """Deliveries that take nothing of this connection's window."""
    return sum(state == "released before" for _, state in model.values())


def replay_in_shares(
    version: int, pieces: Sequence[bytes], shares: Sequence[int], patience: int
) -> tuple[list[tuple[Any, ...]], bytes, bool]:
    """As `replay`, by a server whose turns are too short for what comes; `patience`: turns between two reads."""
    server = Conversation(version, LIMITS, Eager())
    engine = server.engine
    written = b""
    count = 0

    def begin_share() -> None:
        nonlocal count
        engine.meter.end = engine.meter.work + shares[count % len(shares)]
        count += 1

    for piece in pieces:
        begin_share()
        engine.receive_data(piece, 0.0)
        for _ in range(patience):
            begin_share()
            engine.work(0.0)
            written += engine.data_to_send()
    while engine.has_input:
        begin_share()
        engine.work(0.0)
    written += engine.data_to_send()
    return [call for call in server.calls if call[0] != "writable"], written, engine.closed


@given(
    streams() | damaged(),
    st.lists(st.integers(0, 2000), max_size=8),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(0, 3),
)
@settings(max_examples=examples(200))
def test_shares_change_nothing(stream: tuple[int, bytes], at: list[int], shares: list[int], patience: int) -> None:
    """However little of it is done in a turn: same calls, same octets, same end."""
    version, data = stream

    assert replay_in_shares(version, cuts(data, at), shares, patience) == replay(version, [data])
