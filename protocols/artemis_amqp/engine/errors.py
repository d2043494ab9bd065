"""AMQP's error conditions, and which condition each refusal of the broker becomes."""

from typing import Final

from artemis_amqp.engine.performatives import AmqpError, read_composite
from artemis_amqp.engine.types import InvalidField
from artemis_py import errors as core

INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"
CONNECTION_FORCED: Final = "amqp:connection:forced"
REDIRECT: Final = "amqp:connection:redirect"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
WINDOW_VIOLATION: Final = "amqp:session:window-violation"
ERRANT_LINK: Final = "amqp:session:errant-link"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
DETACH_FORCED: Final = "amqp:link:detach-forced"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
STOLEN: Final = "amqp:link:stolen"
UNKNOWN_ID: Final = "amqp:transaction:unknown-id"
ROLLBACK: Final = "amqp:transaction:rollback"

# The one translation of the core's refusals (artemis-model §4.5). Artemis answers internal-error when
# max-consumers is reached; resource-limit-exceeded says what happened.
CONDITIONS: Final[dict[type[core.Refusal], str]] = {
    core.AddressExists: ILLEGAL_STATE,
    core.AddressFull: RESOURCE_LIMIT_EXCEEDED,
    core.DuplicateMessage: ROLLBACK,
    core.ExchangeDeleted: RESOURCE_DELETED,
    core.ExchangeExists: ILLEGAL_STATE,
    core.HostExists: ILLEGAL_STATE,
    core.HostStopped: CONNECTION_FORCED,
    core.InUse: RESOURCE_LOCKED,
    core.InvalidFilter: INVALID_FIELD,
    core.InvalidRequest: INVALID_FIELD,
    core.LimitExceeded: RESOURCE_LIMIT_EXCEEDED,
    core.MaxConsumersReached: RESOURCE_LIMIT_EXCEEDED,
    core.NoRoute: NOT_FOUND,
    core.NoSuchAddress: NOT_FOUND,
    core.NoSuchExchange: NOT_FOUND,
    core.NoSuchHost: NOT_FOUND,
    core.NoSuchQueue: NOT_FOUND,
    core.NotAuthorized: UNAUTHORIZED_ACCESS,
    core.QueueExists: ILLEGAL_STATE,
    core.RoutingTypeMismatch: ILLEGAL_STATE,
    core.StoreError: INTERNAL_ERROR,
    core.TransactionRolledBack: ROLLBACK,
    core.UnknownTransaction: UNKNOWN_ID,
}


# At most 320 octets: with condition and frame around them they fit the smallest max-frame-size, 512.
SHORT_TEXT: Final = 80


class Condition(core.ArtemisError):
    """A refusal that only AMQP knows."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition: Final = condition


def to_amqp(error: Exception) -> AmqpError:
    """Return the AMQP error for an exception of ours."""
    if isinstance(error, Condition):
        return AmqpError(error.condition, str(error))
    if isinstance(error, InvalidField):
        return AmqpError(INVALID_FIELD, str(error))
    if isinstance(error, core.ProtocolError):
        return AmqpError(DECODE_ERROR, str(error))
    for cls in type(error).__mro__:
        condition = CONDITIONS.get(cls)
        if condition is not None:
            return AmqpError(condition, str(error))
    return AmqpError(INTERNAL_ERROR, "the broker failed; its log says more")


def shortened(error: AmqpError) -> AmqpError:
    """Return the error for a peer with small frames: no info, and the text cut to a size that fits any frame."""
    text = error.description
    return AmqpError(error.condition, None if text is None else text[:SHORT_TEXT])


def decode_states(states: dict[bytes, bytes]) -> dict[bytes, object]:
    """Return encoded delivery states, by delivery-tag, as an attach carries them."""
    return {tag: read_composite(state, 0, len(state))[0] for tag, state in states.items()}
