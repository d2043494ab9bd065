"""Large bodies of simulated messages: octets that their name decides, and files that a crash or a full disk spoils."""

import os
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import Message
from artemis_py.errors import StoreError
from artemis_py.store.large import SUFFIX, FileBody
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME, LmdbStore

if TYPE_CHECKING:
    from tests.cluster.node import Node

SIZE = "large"
"""Property of a message that has a large body: its size."""


class SimStore(LmdbStore):
    """A store whose disk may be full of large bodies."""

    is_full = False

    def create_large(self, durable: bool) -> LargeBody:
        if self.is_full:
            raise StoreError("a large message cannot be stored: planned: no space left")
        return super().create_large(durable)


def octets_of(name: str, size: int) -> bytes:
    """The body of a message of this name: no two pieces of it are alike."""
    block = blake2b(name.encode()).digest()
    return b"".join(block + count.to_bytes(8, "big") for count in range(size // 72 + 1))[:size]


def with_body(node: "Node", message: Message, name: str, size: int) -> LargeBody:
    """Give a message a large body, which the caller must release. Raises StoreError."""
    body = node.store.create_large(message.durable)
    body.append(octets_of(name, size))
    body.finish()
    message.large = body
    return body


def body_fault(message: Message, name: str) -> str:
    """What is wrong with the body of a message that was delivered; empty if nothing is."""
    size = message.view.properties.get(SIZE)
    if not isinstance(size, int):
        return "" if message.large is None else "a body that it never had"
    if message.large is None:
        return "no body"
    try:
        return "" if message.large.load() == octets_of(name, size) else "another body"
    except StoreError as error:
        return f"a body that cannot be read: {error}"


def files_of(node: "Node") -> list[Path]:
    """Files of large bodies at a node."""
    return sorted((node.folder / LARGE_MESSAGES_NAME).glob("*" + SUFFIX))


def fill_disk(node: "Node", is_full: bool) -> None:
    """Let no body be kept any more, also none that is arriving; or let them again."""
    node.store.is_full = is_full
    for peer in node.mesh.peers.values():
        body = peer.incoming_bulk._body
        if is_full and isinstance(body, FileBody):
            body._failure = "planned: no space left"


def lose_unsynced(node: "Node") -> None:
    """A crash takes the second half of each body that was not synced."""
    for body in node.store.files._bodies.values():
        body.close()
        if not body._is_synced and body.path.exists():
            os.truncate(body.path, body.path.stat().st_size // 2)
