"""A message: what routing needs to know, and its native bytes untouched.

A protocol reads the few facts below when a message arrives and keeps the rest encoded; `format` knows how to
read it should a filter or another protocol ask. One `Message` is shared by every queue it is routed to.
"""

from typing import TYPE_CHECKING, Final, Protocol

from artemis_py.core.messages.view import MessageView

if TYPE_CHECKING:
    from artemis_py.core.messages.account import MessageAccount
    from artemis_py.core.messages.large_body import LargeBody

DEFAULT_PRIORITY: Final = 4
"""JMS and AMQP 1.0 §3.2.1 agree on this default."""

LATEST_MS: Final = 1 << 55
"""The latest delivery time, a million years from now: stores keep it in seven octets. Later ones mean the same."""

# Bytes that a message and its bookkeeping cost beyond its encoded form, measured with tracemalloc on CPython 3.11
# and rounded up: memory limits count what is really held, not the payload.
MESSAGE_OVERHEAD_BYTES: Final = 512

# Bytes that each further queue, transaction or retained message costs that holds the same message; the first is part of
# the above. A reference that waits takes 152 bytes compiled and 176 pure, one that a consumer has 228 and 220 with its
# place in that consumer's table (tracemalloc, CPython 3.11), one that is to be stored some 320 with its place in the
# batch and what LMDB has of it until the commit (memory of the process, 800,000 of them).
REFERENCE_BYTES: Final = 320


class MessageFormat(Protocol):
    """What one protocol knows about its native bytes; a stateless singleton per protocol."""

    @property
    def name(self) -> str:
        """Stored with the message, so that a restart finds the format again."""

    def view(self, message: "Message") -> MessageView:
        """Decode `message`; raises ProtocolError if its bytes are damaged."""

    def lookup(self, message: "Message", name: str) -> object:
        """The value a selector finds under `name`; None if there is none (SQL NULL).

        Answers for application properties, and for the protocol's own names; the broker's names (`AMQPriority`
        and its kin) were answered by the message already.
        """


class Message:
    """One message. Everything but `extra` is fixed once it was routed; copies share the bytes."""

    __slots__ = (
        "address",
        "annotations",
        "data",
        "delivery_time_ms",
        "durable",
        "encodings",
        "expires_ms",
        "extra",
        "format",
        "id",
        "large",
        "origin",
        "original",
        "priority",
        "producer",
        "references",
        "routing_type",
        "size",
        "stored_first",
        "view_cache",
    )

    def __init__(
        self,
        format: MessageFormat,
        address: str,
        data: bytes,
        annotations: bytes = b"",
        durable: bool = False,
        priority: int = DEFAULT_PRIORITY,
        expires_ms: int = 0,
        delivery_time_ms: int = 0,
        routing_type: int = -1,
        producer: str = "",
    ) -> None:
        self.id: int = 0
        """Unique in this broker; the post office assigns it when it accepts the message."""
        self.format: MessageFormat = format
        self.address: str = address
        """Where the message was sent to, without prefix and queue part."""
        self.data: bytes = data
        """The part nobody may change, in the encoding of `format`; of a large message what stands before its body."""
        self.annotations: bytes = annotations
        """What travels beside `data`, in a private encoding of `format`; empty if there is nothing."""
        self.durable: bool = durable
        self.priority: int = priority
        """0 to 9; protocols clamp."""
        self.expires_ms: int = expires_ms
        """Milliseconds since 1970 after which nobody wants the message; 0 means never."""
        self.delivery_time_ms: int = delivery_time_ms
        """Milliseconds since 1970 before which nobody may have the message; 0 means at once."""
        self.routing_type: int = routing_type
        """A `RoutingType`, or -1 if the producer left it to the address."""
        self.producer: str = producer
        """Client id of the connection that sent it (`__AMQ_CID`, what no-local compares)."""
        self.large: LargeBody | None = None
        """What follows `data`, kept outside of memory. The message holds it while queues hold the message."""
        self.size: int = len(data) + len(annotations) + MESSAGE_OVERHEAD_BYTES
        """Bytes this message counts for in memory limits: what is in memory of it."""
        self.references: int = 0
        """How many queues hold this message; memory accounting counts it once."""
        self.stored_first: bool = False
        """Nobody may have it before it is as durable as it asks to be: a crash that took it back from somebody who has
        seen it would break a promise. Part of a transaction, a move, and a message that comes exactly once are such."""
        self.origin: MessageAccount | None = None
        """The address it was routed through: whose memory account it counts for."""
        self.original: Message | None = None
        """What it was before consumers of one queue added to it (`amended`); None for nearly every message."""
        self.extra: dict[str, object] | None = None
        """Properties the broker added, under their core names (`_AMQ_ORIG_ADDRESS`…, artemis-model §8)."""
        self.encodings: dict[str, bytes] | None = None
        """Other protocols' encodings of this message, made when first asked for, by format name."""
        self.view_cache: MessageView | None = None

    @property
    def view(self) -> MessageView:
        """The decoded message, decoded once. Shared: treat it as read-only.

        A large message is brought into memory for it, and decoded anew each time. Raises StoreError if it is too
        large for that.
        """
        view = self.view_cache
        if view is None:
            view = self.format.view(self)
            if self.large is None:
                self.view_cache = view
        return view

    @property
    def content_size(self) -> int:
        """Bytes of the content, wherever they are."""
        return len(self.data) if self.large is None else len(self.data) + self.large.size

    def content(self) -> bytes:
        """All of the content. Raises StoreError if it is too large for memory, or cannot be read."""
        return self.data if self.large is None else self.data + self.large.load()

    def copy(self, address: str) -> "Message":
        """A new message with the same content for another address: no id, expiry, schedule or routing type."""
        copy = Message(self.format, address, self.data, self.annotations, self.durable, self.priority)
        copy.producer = self.producer
        copy.large = self.large
        copy.view_cache = self.view_cache
        if self.extra is not None:
            copy.extra = dict(self.extra)
        return copy

    def amended(self, annotations: bytes, extra: "dict[str, object] | None") -> "Message":
        """The same message with other annotations and extra properties, for one reference to it (`Queue.amend`).

        It counts as much as before: who makes it keeps what is added small.
        """
        original = self if self.original is None else self.original
        amended = Message(
            self.format,
            self.address,
            self.data,
            annotations,
            self.durable,
            self.priority,
            self.expires_ms,
            self.delivery_time_ms,
            self.routing_type,
            self.producer,
        )
        amended.id = self.id
        amended.large = self.large
        amended.size = original.size
        amended.stored_first = self.stored_first
        amended.origin = self.origin
        amended.extra = extra
        amended.original = original
        return amended

    def set_extra(self, name: str, value: object) -> None:
        """Set a property of the broker's own."""
        if self.extra is None:
            self.extra = {}
        self.extra[name] = value

    def lookup(self, name: str) -> object:
        """The value a selector finds under `name` (artemis-model §3.12); None if there is none."""
        if self.extra is not None and name in self.extra:
            return self.extra[name]
        if name.startswith(("AMQ", "JMS", "__AMQ")):
            # JMS spellings are rewritten to core names (artemis-model §3.12); clients send either.
            if name in ("AMQPriority", "JMSPriority"):
                return self.priority
            if name == "AMQDurable":
                return "DURABLE" if self.durable else "NON_DURABLE"
            if name == "JMSDeliveryMode":
                return "PERSISTENT" if self.durable else "NON_PERSISTENT"
            if name in ("AMQExpiration", "JMSExpiration"):
                return self.expires_ms
            if name == "AMQSize":
                return self.content_size
            if name in ("AMQAddress", "JMSDestination"):
                return self.address
            if name == "__AMQ_CID":
                return self.producer
        return self.format.lookup(self, name)
