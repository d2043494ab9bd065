"""Anycast and multicast: how an address hands a message to its queues."""

from enum import IntEnum


class RoutingType(IntEnum):
    """How an address hands a message to its queues; the values are Artemis' wire codes (artemis-model §1.1)."""

    MULTICAST = 0
    ANYCAST = 1
