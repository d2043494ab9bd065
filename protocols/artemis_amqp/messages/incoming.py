"""A message that arrived, as the core takes it."""

from artemis_amqp.engine.extensions import DELIVERY_DELAY, DELIVERY_TIME, ROUTING_TYPE
from artemis_amqp.messages.arrival import Sections
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message
from artemis_py.core.routing.routes import NO_TYPE


def read_message(sections: Sections, now_ms: int, producer: str) -> Message:
    """Return the message that arrived: the fields that routing needs, and its octets.

    An absolute-expiry-time beats the header's ttl, as in Artemis (artemis-model §4.1.5).
    """
    expires_ms = sections.expires_at_ms
    if expires_ms <= 0:
        expires_ms = now_ms + sections.ttl_ms if sections.ttl_ms >= 0 else 0
    message = Message(
        AMQP_FORMAT,
        "",
        sections.bare,
        sections.annotations_raw,
        sections.durable,
        sections.priority,
        expires_ms,
        0,
        NO_TYPE,
        producer,
    )
    if sections.has_group:
        message.has_group = True
    annotations = sections.annotations
    if annotations is not None:
        _read_annotations(message, annotations, now_ms)
    return message


def _read_annotations(message: Message, annotations: dict[object, object], now_ms: int) -> None:
    """Read delivery time and routing type; a value of a wrong type belongs to another application and is ignored."""
    time = annotations.get(DELIVERY_TIME)
    delay = annotations.get(DELIVERY_DELAY)
    if isinstance(time, int) and time > 0:
        message.delivery_time_ms = int(time)
    elif isinstance(delay, int) and delay > 0:
        message.delivery_time_ms = now_ms + int(delay)
    kind = annotations.get(ROUTING_TYPE)
    if isinstance(kind, int) and kind in (0, 1):
        message.routing_type = int(kind)
