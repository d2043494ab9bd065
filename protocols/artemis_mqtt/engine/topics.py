"""Topic names and filters (MQTT 5.0 §4.7, §4.8.2): which are valid, and how a shared one is taken apart.

The rules of syntax only; how a topic maps to an address is the handler's.
"""

from typing import Final

from artemis_mqtt.engine.fields import MAX_FIELD_BYTES, write_binary
from artemis_mqtt.engine.reasons import TOPIC_FILTER_INVALID, TOPIC_NAME_INVALID, PacketError, malformed

SHARE: Final = "$share/"


def check_topic(topic: str, max_levels: int) -> None:
    """Check that a topic name has at least one character [MQTT-4.7.3-1] and no wildcards [MQTT-3.3.2-2].

    Raises PacketError: malformed, or 0x90 for more than `max_levels` levels.
    """
    if not topic:
        raise malformed("a topic name is empty")
    if "+" in topic or "#" in topic:
        raise malformed("a topic name has wildcards")
    if topic.count("/") >= max_levels:
        raise PacketError(TOPIC_NAME_INVALID, f"a topic name has more than {max_levels} levels")


def check_filter(topic_filter: str, max_levels: int) -> None:
    """Check that a topic filter has at least one character [MQTT-4.7.3-1], `#` only as its last level [MQTT-4.7.1-1],
    `+` only as a whole level [MQTT-4.7.1-2]; a shared one names its group [MQTT-4.8.2-1] and a filter [MQTT-4.8.2-2].

    Raises PacketError: malformed, or 0x8F for more than `max_levels` levels.
    """
    if topic_filter.startswith(SHARE) or topic_filter == "$share":
        group, slash, topic_filter = topic_filter[len(SHARE) :].partition("/")
        if not group or not slash or "+" in group or "#" in group:
            raise malformed("a shared subscription without a valid group name")
    if not topic_filter:
        raise malformed("a topic filter is empty")
    if topic_filter.count("/") >= max_levels:
        raise PacketError(TOPIC_FILTER_INVALID, f"a topic filter has more than {max_levels} levels")
    if "+" in topic_filter or "#" in topic_filter:
        levels = topic_filter.split("/")
        if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels) or "#" in levels[:-1]:
            raise malformed("a topic filter has a wildcard where none is allowed")


def split_shared(topic_filter: str) -> tuple[str, str]:
    """Split a valid topic filter into its group (empty: not shared) and the filter proper."""
    if not topic_filter.startswith(SHARE):
        return "", topic_filter
    group, _, rest = topic_filter[len(SHARE) :].partition("/")
    return group, rest


def topic_field(topic: str) -> bytes:
    """Encode the topic as a field of PUBLISH; raises ValueError if it has more octets than a field may have."""
    encoded = topic.encode("utf-8")
    if len(encoded) > MAX_FIELD_BYTES:
        raise ValueError(f"a topic of {len(encoded)} octets")
    return write_binary(encoded)
