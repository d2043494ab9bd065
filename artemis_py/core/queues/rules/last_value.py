"""Last-value queues: a newer message removes the waiting one that has the same key (artemis-model §3.4).

The key is a property of the message. A message without it is an ordinary one.

    the older message is                 what happens to it
    waiting in memory                    removed
    waiting on disk only                 removed without being read: the store finds its place by the key
    waiting for its redelivery delay     removed
    at a consumer, or in a transaction   removed from the store; discarded if it is given back, because it is no longer
                                         the last one of its key

So at most one message of each key waits at any time, in every priority, and after every restart. A scheduled message
counts as newer when its time comes. This module knows the messages in memory only; the stores know the others.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from artemis_py.core.messages.message import Message
from artemis_py.core.queues.page import Place
from artemis_py.core.queues.reference import COLD, SCHEDULED, WAITING, Reference
from artemis_py.core.queues.rules.entry import Entry
from artemis_py.core.queues.settlement import forget, replace, unstore
from artemis_py.core.runtime.accounts import KEY_BYTES
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.core.settings.queue_settings import QueueSettings

if TYPE_CHECKING:
    from artemis_py.core.queues.queue import Queue

LAST_VALUE_PROPERTY: Final = "_AMQ_LVQ_NAME"
"""Property with the key, unless the queue names another one; and if a message does not have that one."""

LONGEST_KEY: Final = 64
"""Limit in octets; a longer key is replaced by its SHA-256, after an octet that no text begins with."""
_DIGEST: Final = b"\xff"


def key_of(message: Message, name: str) -> bytes | None:
    """Return the key of a message, as stores keep it; None if it has none.

    Numbers and truth values have the key of the text that writes them, as in Artemis, and octets that of the text that
    they are in UTF-8. Other values are no keys.
    """
    value = message.lookup(name)
    if value is None and name != LAST_VALUE_PROPERTY:
        value = message.lookup(LAST_VALUE_PROPERTY)
    if isinstance(value, str):
        key = _octets_of(value)
    elif isinstance(value, bool):
        key = b"true" if value else b"false"
    elif isinstance(value, (int, float)):
        key = str(value).encode()
    elif isinstance(value, (bytes, bytearray, memoryview)):
        key = bytes(value)
    else:
        return None
    if len(key) > LONGEST_KEY or (key and key[0] == _DIGEST[0]):
        return _DIGEST + sha256(key).digest()
    return key


def _octets_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def property_of(config: QueueConfig, settings: QueueSettings) -> str | None:
    """Return the property with the key in a queue that is to be created; None if it keeps no last values.

    A queue that has `last-value` false, and no `last-value-key` of its own, refuses what the address says.
    """
    if config.last_value is False:
        name: str | None = config.last_value_key
        return name
    if settings.last_value_key is not None:
        return settings.last_value_key
    return LAST_VALUE_PROPERTY if settings.last_value else None


def is_as_declared(declared: QueueConfig, existing: QueueConfig) -> bool:
    """Tell whether an existing queue keeps last values, or not, as its declaration says, if that says anything."""
    if declared.last_value_key is not None:
        return bool(existing.last_value_key == declared.last_value_key)
    return declared.last_value is None or bool(existing.last_value) is declared.last_value


class _Last:
    """The last message of a key, while it is in memory."""

    __slots__ = ("emptied", "reference")

    def __init__(self, reference: Reference, emptied: int) -> None:
        self.reference: Reference = reference
        self.emptied: int = emptied
        """`Backlog.emptied` when it was last put into the backlog: if that differs now, a purge has removed it."""


class LastValue(Entry):
    """Keeps the last message of each key."""

    def __init__(self, name: str | None) -> None:
        self.name: str = name or LAST_VALUE_PROPERTY
        """Property with the key."""
        self._last: dict[bytes, _Last] = {}
        """The last messages that are in memory, by key: waiting, delayed, at consumers, or on their way to disk."""

    def admit(self, queue: "Queue", reference: Reference) -> bool:
        """Remove the older message of the same key; every message comes in."""
        key = key_of(reference.message, self.name)
        reference.key = key
        if key is None:
            return True
        last = self._last.get(key)
        if last is None:
            if queue.backlog.cold_mask:
                self._remove_from_disk(queue, key)
            self._know(queue, key, reference)
        else:
            before, was_emptied = last.reference, last.emptied != queue.backlog.emptied
            last.reference = reference
            last.emptied = queue.backlog.emptied
            self._supersede(queue, before, was_emptied)
        return True

    def readmit(self, queue: "Queue", reference: Reference) -> bool:
        """Tell whether this is still the last message of its key."""
        key = reference.key
        if key is None:
            return True
        last = self._last.get(key)
        if last is None or last.reference is not reference:
            return False
        last.emptied = queue.backlog.emptied
        return True

    def may_return(self, queue: "Queue", reference: Reference) -> bool:
        """Tell whether this is still the last message of its key."""
        key = reference.key
        if key is None:
            return True
        last = self._last.get(key)
        return last is not None and last.reference is reference

    def unloaded(self, queue: "Queue", reference: Reference) -> None:
        """Forget a message that the store knows from now on."""
        self.ended(queue, reference)

    def loaded(self, queue: "Queue", reference: Reference) -> None:
        """Know a message that the store knew."""
        key = reference.key
        if key is not None:
            last = self._last.get(key)
            # If the index on disk was damaged there may be two; then the newer one is the last.
            if last is None or last.reference.sequence < reference.sequence:
                self._know(queue, key, reference)

    def ended(self, queue: "Queue", reference: Reference) -> None:
        """Forget a message that left."""
        key = reference.key
        if key is not None:
            last = self._last.get(key)
            if last is not None and last.reference is reference:
                del self._last[key]
                queue.dispatcher.tables.vacate(KEY_BYTES)

    def _know(self, queue: "Queue", key: bytes, reference: Reference) -> None:
        last = self._last.get(key)
        if last is None:
            self._last[key] = _Last(reference, queue.backlog.emptied)
            queue.dispatcher.tables.occupy(KEY_BYTES)
        else:
            last.reference = reference
            last.emptied = queue.backlog.emptied

    def _supersede(self, queue: "Queue", reference: Reference, was_emptied: bool) -> None:
        """Remove a message in memory because there is a newer one; `was_emptied`: a purge has removed it already."""
        backlog = queue.backlog
        state = reference.state
        if state == WAITING and not was_emptied:
            replace(reference)
        elif state == COLD:
            priority = backlog.priority_of(reference)
            tail = backlog.tails[priority]
            assert tail is not None
            backlog.pull(tail, reference)
            queue.messages_replaced += 1
            forget(reference)
            backlog.close(tail, priority)
        elif state == SCHEDULED and queue.aside.get(reference.sequence) is reference:
            queue.schedule.discard(reference)
            queue.messages_replaced += 1
            forget(reference)
        elif reference.handle:
            # A consumer or a transaction has it, or an unfinished purge is going to end it. A crash must not bring it
            # back beside the newer one.
            unstore(reference)
            reference.handle = 0

    def _remove_from_disk(self, queue: "Queue", key: bytes) -> None:
        dispatcher = queue.dispatcher
        place: Place | None = dispatcher.storage.find_last(queue, key) if queue.is_stored else None
        if place is not None and queue.backlog.remove_at(place, key, True):
            queue.messages_replaced += 1
        elif dispatcher.scratch is not None:
            place = dispatcher.scratch.find_last(queue, key)
            if place is not None and queue.backlog.remove_at(place, key, False):
                queue.messages_replaced += 1
