"""Retained messages: the last message of an address, kept for later subscribers.

This module decides what is kept, for how long and how much; the protocol knows who asks for it, and what "retain" is
called on the wire. Messages are in a tree of the words of their addresses, so that a pattern finds them without
visiting the others. A search can be interrupted: a search through a million messages is done in slices, with other work
in between.

All of them are in memory, and in the store so that they survive a restart: one value per address, in space
"retained-messages" under a serial number. The value is a message as `core.messages.record` draws it, after the octet
that says whether it is durable.
"""

from collections.abc import Callable, Container, Mapping
from functools import partial
from struct import Struct
from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import MissingFormat, decode_with_durability, encode_with_durability
from artemis_py.core.names.syntax import RESERVED, WildcardSyntax
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.queues.reference import hold, unhold
from artemis_py.core.queues.storage import RecordStorage
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.services.old_retained import OLD_SPACE, read_old_retained
from artemis_py.errors import DamagedValue, LimitExceeded

SPACE: Final = "retained-messages"
# Bytes of a word of an address in the tree without its text (272 with tracemalloc, compiled and pure), and the divisor
# of `global-max-size` that limits retained messages: they do not go to disk, and could use up all memory.
NODE_BYTES: Final = 320
RETAINED_SHARE: Final = 2

_NUMBER: Final = Struct(">Q")


class _Node:
    """One word of an address."""

    __slots__ = ("children", "message", "number", "timer")

    def __init__(self) -> None:
        self.children: dict[str, _Node] | None = None
        self.message: Message | None = None
        self.number: int = 0
        """Number of its record; 0: none."""
        self.timer: Timer | None = None


class Newcomer:
    """A new subscription that is to get retained messages."""

    pattern: str
    """Address of the subscription, which may have wildcards."""

    def look_up(self, live: Container[str]) -> None:
        """Look up what is retained now, except for the addresses in `live`: what is retained there has come already."""
        raise NotImplementedError

    def give(self, message: Message) -> None:
        """Take a message that another broker retained before the subscription was made, and that came afterwards."""
        raise NotImplementedError


class RetainedWatcher:
    """Hears of what clients of this broker retain and delete, in the turn in which that is stored."""

    def kept(self, topic: str) -> None:
        """Note that a message was retained; `topic` is its address."""
        raise NotImplementedError

    def removed(self, topic: str) -> None:
        """Note that a message was deleted, or would have been if there were one."""
        raise NotImplementedError

    def expired(self, topic: str) -> None:
        """Note that a message has expired."""
        raise NotImplementedError

    def introduce(self, newcomer: Newcomer) -> bool:
        """Have a subscription look up messages when those that are on their way are here; False: there are none."""
        raise NotImplementedError


class RetainedSearch:
    """One walk through the messages that a pattern covers; it sees each address as it is when the walk gets there."""

    __slots__ = ("_dispatcher", "_live", "_stack", "_syntax", "_words")

    def __init__(
        self, root: _Node, pattern: str, syntax: WildcardSyntax, dispatcher: Dispatcher, live: Container[str]
    ) -> None:
        self._live: Container[str] = live
        self._syntax: WildcardSyntax = syntax
        self._words: list[str] = syntax.words(pattern)
        self._dispatcher: Dispatcher = dispatcher
        self._stack: list[tuple[list[_Node], int]] = []
        """Nodes to visit, last one first, and the index of the word of the pattern that comes below them."""
        self._push(root, 0)

    @property
    def is_done(self) -> bool:
        """Whether the walk has ended."""
        return not self._stack

    def next(self, limit: int, steps: int) -> list[Message]:
        """Return the next messages, at most `limit`, after visiting at most `steps` nodes."""
        found: list[Message] = []
        now_ms = self._dispatcher.now_ms
        while self._stack and len(found) < limit and steps > 0:
            nodes, index = self._stack[-1]
            if not nodes:
                self._stack.pop()
                continue
            steps -= 1
            node = nodes.pop()
            if self._ends(index):
                message = node.message
                if message is not None and (not message.expires_ms or message.expires_ms > now_ms):
                    if message.address not in self._live:
                        found.append(message)
            self._push(node, index)
        return found

    def _ends(self, index: int) -> bool:
        """Tell whether the pattern may end here: any-words also stands for no word."""
        words = self._words
        return index == len(words) or (index == len(words) - 1 and words[index] == self._syntax.any_words)

    def _push(self, node: _Node, index: int) -> None:
        """Continue below a node. Any-words is a wildcard only as the last word; elsewhere it is a literal."""
        children = node.children
        if not children or index == len(self._words):
            return
        word = self._words[index]
        is_any = word == self._syntax.any_words and index == len(self._words) - 1
        if is_any or word == self._syntax.single_word:
            if index == 0:
                below = [child for name, child in children.items() if not name.startswith(RESERVED)]
            else:
                below = list(children.values())
            below.reverse()
            self._stack.append((below, index if is_any else index + 1))
        else:
            child = children.get(word)
            if child is not None:
                self._stack.append(([child], index + 1))


class RetainedMessages:
    """All retained messages of a broker, one for each address."""

    def __init__(
        self, dispatcher: Dispatcher, syntax: WildcardSyntax, addresses: Mapping[str, Address], records: RecordStorage
    ) -> None:
        """Create an empty tree; `addresses` has all addresses of the domain, by name, `records` its records."""
        self._records: Final = records
        self._dispatcher: Final = dispatcher
        self._addresses: Final = addresses
        self._syntax: Final = syntax
        self._root = _Node()
        self.watcher: RetainedWatcher | None = None
        """What other brokers are told by; None if this broker belongs to no mesh."""
        self._next_number = 1
        self.count = 0
        """Number of addresses that have a retained message."""
        self.size_bytes = 0
        """Memory of the messages and of the tree."""

    def check_room(self, address: str, size_bytes: int) -> None:
        """Raise LimitExceeded if a message of this size cannot be kept, as memory for retained messages is used up.

        A message that is not larger than the one it replaces can always be kept.
        """
        limit = self._dispatcher.account.max_bytes
        if limit < 0 or self.size_bytes < limit // RETAINED_SHARE:
            return
        node = self._find(address)
        if node is None or node.message is None or node.message.size < size_bytes:
            raise LimitExceeded(f"retained messages take {self.size_bytes} bytes of memory, which is their limit")

    def put(self, message: Message) -> None:
        """Keep a routed message as the last one of its address; durable with the messages of this turn."""
        self.keep(message)
        if self.watcher is not None:
            self.watcher.kept(message.address)

    def keep(self, message: Message) -> None:
        """Do as `put` does, and tell no other broker."""
        node = self._find(message.address)
        if node is None:
            node = self._make(message.address)
        self._set(node, message)
        if not node.number:
            node.number = self._next_number
            self._next_number += 1
        self._records.save_record(SPACE, _NUMBER.pack(node.number), encode_with_durability(message))

    def remove(self, address: str) -> bool:
        """Delete the message of an address; return False if there is none."""
        found = self.drop(address)
        if self.watcher is not None:
            self.watcher.removed(address)
        return found

    def drop(self, address: str) -> bool:
        """Do as `remove` does, and tell no other broker."""
        node = self._find(address)
        if node is None or node.message is None:
            return False
        self._drop(node.message)
        node.message = None
        self.count -= 1
        if node.timer is not None:
            node.timer.cancel()
            node.timer = None
        if node.number:
            self._records.save_record(SPACE, _NUMBER.pack(node.number), None)
            node.number = 0
        self._prune(address)
        return True

    def get(self, address: str) -> Message | None:
        """Return the message of exactly this address; None if there is none or it has expired."""
        node = self._find(address)
        message = None if node is None else node.message
        if message is not None and self._is_expired(message):
            return None
        return message

    def introduce(self, newcomer: Newcomer) -> None:
        """Have a new subscription look up messages, in a mesh as soon as those are here that are on their way."""
        if self.watcher is None or not self.watcher.introduce(newcomer):
            newcomer.look_up(())

    def search(self, pattern: str, live: Container[str] = ()) -> RetainedSearch:
        """Return a walk through all messages that `pattern` covers, except for the addresses in `live`."""
        return RetainedSearch(self._root, pattern, self._syntax, self._dispatcher, live)

    def load(self, formats: Mapping[str, MessageFormat]) -> int:
        """Load what an earlier run kept; return the number of unusable records, which are deleted."""
        records = self._records
        useless = 0
        for key, value in records.load_records(SPACE):
            number = int(_NUMBER.unpack(key)[0])
            self._next_number = max(self._next_number, number + 1)
            message = self._read(decode_with_durability, value, formats)
            if message is None or self._is_expired(message):
                useless += message is None
                records.save_record(SPACE, key, None)
                continue
            node = self._make(message.address)
            self._set(node, message)
            node.number = number
        return useless + self._replace_old(formats)

    def _replace_old(self, formats: Mapping[str, MessageFormat]) -> int:
        """Load what an older build kept, and have it written as all others; return the number of unusable records.

        Beside a message of the same address the old record is the newer one: the older build ran last.
        """
        records = self._records
        useless = 0
        for key, value in records.load_records(OLD_SPACE):
            records.save_record(OLD_SPACE, key, None)
            message = self._read(read_old_retained, value, formats)
            if message is None:
                useless += 1
            elif not self._is_expired(message):
                self.put(message)
        return useless

    def _read(
        self,
        decode: Callable[[bytes, Mapping[str, MessageFormat]], Message],
        value: bytes,
        formats: Mapping[str, MessageFormat],
    ) -> Message | None:
        """Return the message of a record; None if it is damaged, or of a protocol that is not installed."""
        try:
            message = decode(value, formats)
        except (DamagedValue, ValueError):
            return None
        if isinstance(message.format, MissingFormat):
            return None
        if not message.durable or message.id >= self._dispatcher.numbers.message_id:
            # The id of a message that is only retained may be given again.
            message.id = 0
        message.origin = self._addresses.get(message.address)
        return message

    def _is_expired(self, message: Message) -> bool:
        return 0 < message.expires_ms <= self._dispatcher.now_ms

    def _set(self, node: _Node, message: Message) -> None:
        hold(message)
        if message.origin is None:
            # It was read from the store, and its address does not exist any more.
            self._dispatcher.account.occupy(message.size)
        self.size_bytes += message.size
        if node.message is None:
            self.count += 1
        else:
            self._drop(node.message)
        node.message = message
        if node.timer is not None:
            node.timer.cancel()
            node.timer = None
        if message.expires_ms:
            node.timer = self._dispatcher.timers.at(message.expires_ms, partial(self._expire, message.address))

    def _expire(self, address: str) -> None:
        self.drop(address)
        if self.watcher is not None:
            self.watcher.expired(address)

    def _find(self, address: str) -> _Node | None:
        node = self._root
        for word in self._syntax.words(address):
            child = None if node.children is None else node.children.get(word)
            if child is None:
                return None
            node = child
        return node

    def _make(self, address: str) -> _Node:
        node = self._root
        for word in self._syntax.words(address):
            if node.children is None:
                node.children = {}
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node()
                self._occupy(NODE_BYTES + len(word))
            node = child
        return node

    def _prune(self, address: str) -> None:
        """Remove nodes that no longer lead to a message."""
        path: list[tuple[_Node, str]] = []
        node = self._root
        for word in self._syntax.words(address):
            path.append((node, word))
            assert node.children is not None
            node = node.children[word]
        for parent, word in reversed(path):
            assert parent.children is not None
            child = parent.children[word]
            if child.message is not None or child.children:
                return
            del parent.children[word]
            self._occupy(-NODE_BYTES - len(word))

    def _drop(self, message: Message) -> None:
        self.size_bytes -= message.size
        if message.origin is None:
            self._dispatcher.account.vacate(message.size)
        unhold(message)

    def _occupy(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        if size_bytes > 0:
            self._dispatcher.account.occupy(size_bytes)
        else:
            self._dispatcher.account.vacate(-size_bytes)
