"""Anycast and multicast: the ways in which an address passes a message to its queues."""

from enum import IntEnum


class RoutingType(IntEnum):
    """Rule by which an address passes a message to its queues; values are Artemis' wire codes (artemis-model §1.1)."""

    MULTICAST = 0
    ANYCAST = 1
