"""Kinds of subscriptions, by the owner of the queue."""

from typing import Final

OWN: Final = "own"
"""The queue belongs to this session: it is deleted with the subscription."""
SHARED: Final = "shared"
"""The queue belongs to a group: it is deleted with the group's last subscription."""
BORROWED: Final = "borrowed"
"""An ANYCAST queue that other clients may consume from as well: it is not deleted."""
