"""A container's wish to have one connection only (AMQP Enforcing Connection Uniqueness 1.0, amqp10 §15.2).

Detection is strong: it is enough that one of two connections asked for it, the one that is there or the new one. What
the one that is there asked for counts, for it was promised to it.

    there        new          what happens
    refuse       any          the new one is refused
    close        any          the one that is there is closed
    nothing      refuse       the new one is refused
    nothing      close        those that are there are closed
    nothing      nothing      both are welcome

A connection of another user is never closed: the new one is refused then.
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
    """What shall become of a second connection; the values are the wire's."""

    REFUSE = 0
    CLOSE_EXISTING = 1


def wanted(opening: Open) -> Policy | None:
    """What a client asks for when it opens; None: others are welcome. Without the property: REFUSE."""
    if SOLE_CONNECTION not in opening.desired_capabilities:
        return None
    value = (opening.properties or {}).get(_ENFORCEMENT_POLICY)
    return Policy.CLOSE_EXISTING if value == Policy.CLOSE_EXISTING else Policy.REFUSE


def in_force(new: Policy | None, there: Iterable[Policy | None]) -> Policy | None:
    """The policy for a new connection beside those that are there; None: it is welcome."""
    for policy in there:
        if policy is not None:
            return policy
    return new


def answer(policy: Policy | None) -> dict[Symbol, object]:
    """What our open says to a client that asked."""
    if policy is None:
        return {}
    return {_ENFORCEMENT_POLICY: UInt(policy), _DETECTION_POLICY: _STRONG}


def taken_over() -> AmqpError:
    """Why a connection that was there is closed."""
    return AmqpError(errors.RESOURCE_LOCKED, "another connection of this container took over", {_ENFORCEMENT: True})


def taken(container_id: str) -> AmqpError:
    """Why a new connection is refused."""
    info: dict[Symbol, object] = {Symbol("invalid-field"): Symbol("container-id")}
    return AmqpError(errors.INVALID_FIELD, f"container-id '{container_id}' is connected already", info)
