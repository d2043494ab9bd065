"""The only translation of the broker's refusals into reason codes (artemis-model §4.5)."""

from typing import Final

from artemis_mqtt.broker.addressing import InvalidTopic
from artemis_mqtt.engine import reasons
from artemis_py import errors as core

REASONS: Final[dict[type[core.Refusal], int]] = {
    core.AddressFull: reasons.QUOTA_EXCEEDED,
    core.LimitExceeded: reasons.QUOTA_EXCEEDED,
    core.MaxConsumersReached: reasons.QUOTA_EXCEEDED,
    core.NotAuthorized: reasons.NOT_AUTHORIZED,
    core.NoSuchAddress: reasons.TOPIC_NAME_INVALID,
    core.NoSuchExchange: reasons.TOPIC_NAME_INVALID,
    core.NoSuchQueue: reasons.TOPIC_NAME_INVALID,
    core.HostStopped: reasons.SERVER_UNAVAILABLE,
    core.NoSuchHost: reasons.NOT_AUTHORIZED,
    core.InvalidRequest: reasons.TOPIC_NAME_INVALID,
    InvalidTopic: reasons.TOPIC_NAME_INVALID,
    core.RoutingTypeMismatch: reasons.TOPIC_NAME_INVALID,
    core.StoreError: reasons.IMPLEMENTATION_SPECIFIC_ERROR,
}


def to_reason(error: Exception) -> int:
    """Return the reason code that tells a publisher of a refusal."""
    if isinstance(error, reasons.PacketError):
        return error.reason
    for cls in type(error).__mro__:
        reason = REASONS.get(cls)
        if reason is not None:
            return reason
    return reasons.UNSPECIFIED_ERROR


def to_subscribe_reason(error: Exception) -> int:
    """Return the reason code that tells a subscriber: the same, of a filter instead of a topic name."""
    reason = to_reason(error)
    return reasons.TOPIC_FILTER_INVALID if reason == reasons.TOPIC_NAME_INVALID else reason
