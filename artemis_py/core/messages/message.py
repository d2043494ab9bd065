"""A message: the facts that routing needs, and its native bytes unchanged.

A protocol reads these few facts when a message arrives and keeps the rest encoded; `format` can decode it if a filter
or another protocol asks. One `Message` is shared by every queue that it is routed to.
"""

from typing import TYPE_CHECKING, Final, Protocol

from artemis_py.core.messages.view import MessageView

if TYPE_CHECKING:
    from artemis_py.core.messages.account import MessageAccount
    from artemis_py.core.messages.large_body import LargeBody

DEFAULT_PRIORITY: Final = 4
"""JMS and AMQP 1.0 §3.2.1 agree on this default."""

ROUTING_KEY: Final = "_AMQ_ROUTING_KEY"
"""The routing key, among the extra properties of each message that came through an exchange."""

VALIDATED_USER: Final = "_AMQ_VALIDATED_USER"
"""The user that sent a message, among its extra properties if `populate-validated-user` was on when it came."""

LATEST_MS: Final = 1 << 55
"""Latest delivery time, a million years from now, which a store writes in seven octets. Later times mean the same."""

# Bytes that a message and its bookkeeping cost beyond its encoded form, measured with tracemalloc on CPython 3.11
# and rounded up: memory limits count the memory in use, not the payload.
MESSAGE_OVERHEAD_BYTES: Final = 512

# Bytes that each further reference to the same message costs, from a queue, a transaction or a retained message; the
# first is part of the above. A reference takes 160 bytes compiled and 184 pure (CPython 3.11). One that is to be stored
# took some 320 with its place in a batch that was a dict, and what LMDB has of it until the commit (memory of the
# process, 800,000 of them); in the batch it takes less now.
REFERENCE_BYTES: Final = 320


class MessageFormat(Protocol):
    """Decodes the native bytes of one protocol; a stateless singleton per protocol."""

    @property
    def name(self) -> str:
        """Name that is stored with each message, so that a restart finds the format."""

    def view(self, message: "Message") -> MessageView:
        """Decode `message`; raises ProtocolError if its bytes are damaged."""

    def lookup(self, message: "Message", name: str) -> object:
        """Return the value that a selector finds under `name`; None if there is none (SQL NULL).

        Covers application properties and the protocol's own names; the message itself answers for the broker's names
        (`AMQPriority` and the like).
        """


class Message:
    """One message. Everything but `extra` is fixed once it has been routed; copies share the bytes."""

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
        "has_group",
        "id",
        "is_shared",
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

    # Long because it declares and documents every attribute.
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
        """Unique in this broker; the domain assigns it when it accepts the message."""
        self.format: MessageFormat = format
        self.address: str = address
        """Address that the message was sent to, without prefix and queue part."""
        self.data: bytes = data
        """The part that must not change, in the encoding of `format`; for a large message, what precedes its body."""
        self.annotations: bytes = annotations
        """Annotations that travel beside `data`, in a private encoding of `format`; may be empty."""
        self.durable: bool = durable
        self.priority: int = priority
        """0 to 9; protocols clamp."""
        self.expires_ms: int = expires_ms
        """Time at which the message expires, in milliseconds since 1970; 0 means never."""
        self.delivery_time_ms: int = delivery_time_ms
        """Time before which the message must not be delivered, in milliseconds since 1970; 0 means at once."""
        self.routing_type: int = routing_type
        """A `RoutingType`, or -1 if the producer left it to the address."""
        self.producer: str = producer
        """Client id of the connection that sent it (`__AMQ_CID`, compared by no-local)."""
        self.large: LargeBody | None = None
        """Body that follows `data`, kept outside of memory. The message holds it while queues hold the message."""
        self.size: int = len(data) + len(annotations) + MESSAGE_OVERHEAD_BYTES
        """Bytes that this message counts for in memory limits: the part of it that is in memory."""
        self.references: int = 0
        """Number of queues that hold this message; memory accounting counts it once."""
        self.stored_first: bool = False
        """Whether it must be as durable as it asks to be before it is delivered: a crash that took back a message that
        was seen would break a promise. True in transactions and moves, and for messages sent exactly once."""
        self.is_shared: bool = False
        """Whether the store keeps it apart from its references, because queues may refer to it in later commits. All
        such messages of one id have the same content."""
        self.has_group: bool = False
        """Whether it may belong to a message group; `lookup("JMSXGroupID")` tells which, if it does."""
        self.origin: MessageAccount | None = None
        """The address that it was routed through, in whose memory account it counts."""
        self.original: Message | None = None
        """The message before consumers of one queue added to it (`amended`); None for nearly every message."""
        self.extra: dict[str, object] | None = None
        """Properties that the broker added, under their core names (`_AMQ_ORIG_ADDRESS`…, artemis-model §8). Messages
        may share the dict: it is replaced, not changed, unless its message was just copied."""
        self.encodings: dict[str, bytes] | None = None
        """Other protocols' encodings of this message, made when first asked for, by format name."""
        self.view_cache: MessageView | None = None

    @property
    def view(self) -> MessageView:
        """The decoded message, decoded once. It is shared, so treat it as read-only.

        A large message is loaded into memory and decoded each time, and so is one that decodes to far more than it is
        (`MessageView.is_kept`). Raises StoreError if it is too large for that.
        """
        view = self.view_cache
        if view is None:
            view = self.format.view(self)
            if self.large is None and view.is_kept:
                self.view_cache = view
        return view

    @property
    def content_size(self) -> int:
        """Size of the content in bytes, including a large body."""
        return len(self.data) if self.large is None else len(self.data) + self.large.size

    def content(self) -> bytes:
        """Return all of the content. Raises StoreError if it is too large for memory or cannot be read."""
        return self.data if self.large is None else self.data + self.large.load()

    def copy(self, address: str) -> "Message":
        """Return a new message with the same content for another address: no id, expiry, schedule or routing type."""
        copy = Message(self.format, address, self.data, self.annotations, self.durable, self.priority)
        copy.producer = self.producer
        copy.has_group = self.has_group
        copy.large = self.large
        copy.view_cache = self.view_cache
        if self.extra is not None:
            copy.extra = dict(self.extra)
        return copy

    def amended(self, annotations: bytes, extra: "dict[str, object] | None") -> "Message":
        """Return the same message with other annotations and extra properties, for one reference to it (`Queue.amend`).

        Its `size` stays the same, so the caller has to keep additions small.
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
        amended.is_shared = self.is_shared
        amended.has_group = self.has_group
        amended.origin = self.origin
        amended.extra = extra
        amended.original = original
        return amended

    def set_extra(self, name: str, value: object) -> None:
        """Set a property that belongs to the broker, in a dict of its own: other messages may have the same one."""
        extra = {} if self.extra is None else dict(self.extra)
        extra[name] = value
        self.extra = extra

    def lookup(self, name: str) -> object:
        """Return the value that a selector finds under `name` (artemis-model §3.12); None if there is none."""
        if self.extra is not None and name in self.extra:
            return self.extra[name]
        if name.startswith(("AMQ", "JMS", "__AMQ")):
            if name == "JMSXUserID" and self.extra is not None and VALIDATED_USER in self.extra:
                return self.extra[VALIDATED_USER]
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
            if name == "AMQAddress":
                return self.address
            if name == "JMSDestination":
                # A format whose destinations are more than an address answers itself.
                found = self.format.lookup(self, name)
                return self.address if found is None else found
            # Filters of queues are asked before a message is in them; later the reference answers.
            if name == "JMSRedelivered":
                return False
            if name == "JMSXDeliveryCount":
                return 1
            if name == "__AMQ_CID":
                return self.producer
        return self.format.lookup(self, name)


def validated_user(message: Message) -> str | None:
    """Return the user that sent a message, as this broker has checked it; None if that is not known."""
    extra = message.extra
    if extra is None:
        return None
    user = extra.get(VALIDATED_USER)
    return user if isinstance(user, str) else None


def keep_user(message: Message, copy: Message) -> None:
    """Have a copy, which has no extra properties yet, name the validated user of a message."""
    user = validated_user(message)
    if user is not None:
        copy.extra = {VALIDATED_USER: user}
