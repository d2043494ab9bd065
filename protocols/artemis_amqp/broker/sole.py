"""One connection per container, on request (AMQP Enforcing Connection Uniqueness 1.0, amqp10 §15.2).

Detection is strong: it is enough that one of the two connections, the existing or the new one, asked for it. The
existing connection's request takes precedence, because the broker has agreed to it.

    existing     new          what happens
    refuse       any          the new one is refused
    close        any          the existing one is closed
    nothing      refuse       the new one is refused
    nothing      close        the existing ones are closed
    nothing      nothing      both are allowed

A connection of another user is never closed: in that case the new one is refused.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import AmqpError, Open
from artemis_amqp.engine.types import Symbol, UInt

SOLE_CONNECTION: Final = Symbol("sole-connection-for-container")
_ENFORCEMENT_POLICY: Final = Symbol("sole-connection-enforcement-policy")
_DETECTION_POLICY: Final = Symbol("sole-connection-detection-policy")
_ENFORCEMENT: Final = Symbol("sole-connection-enforcement")
_STRONG: Final = UInt(0)


class Policy(IntEnum):
    """Policy for a second connection; the values are those on the wire."""

    REFUSE = 0
    CLOSE_EXISTING = 1


def wanted(opening: Open) -> Policy | None:
    """Return the policy that an open asks for; None: others are allowed. REFUSE if it names no policy."""
    if SOLE_CONNECTION not in opening.desired_capabilities:
        return None
    value = (opening.properties or {}).get(_ENFORCEMENT_POLICY)
    return Policy.CLOSE_EXISTING if value == Policy.CLOSE_EXISTING else Policy.REFUSE


def in_force(new: Policy | None, there: Iterable[Policy | None]) -> Policy | None:
    """Return the policy for a new connection beside the existing ones; None: it is allowed."""
    for policy in there:
        if policy is not None:
            return policy
    return new


def answer(policy: Policy | None) -> dict[Symbol, object]:
    """Return the properties of our open for a client that asked for a policy."""
    if policy is None:
        return {}
    return {_ENFORCEMENT_POLICY: UInt(policy), _DETECTION_POLICY: _STRONG}


def taken_over() -> AmqpError:
    """Return the error for an existing connection that is closed."""
    return AmqpError(errors.RESOURCE_LOCKED, "another connection of this container took over", {_ENFORCEMENT: True})


def taken(container_id: str) -> AmqpError:
    """Return the error for a new connection that is refused."""
    info: dict[Symbol, object] = {Symbol("invalid-field"): Symbol("container-id")}
    return AmqpError(errors.INVALID_FIELD, f"container-id '{container_id}' is connected already", info)
