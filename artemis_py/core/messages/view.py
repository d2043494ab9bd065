"""A message in a protocol-neutral form. Not in `message`, which mypyc compiles, because attrs makes the class."""

from attrs import define, field


@define(kw_only=True)
class MessageView:
    """A message in a protocol-neutral form, which every converter reads or writes.

    `body` is bytes (opaque data), str (text), dict or list (structured), any other value, or None (no body).
    Numbers in the body and in properties may be of a class of `widths`, which says how wide they are.
    `message_id` and `correlation_id` keep the Python type of their wire type: str, int, bytes or `uuid.UUID`.
    """

    message_id: object = None
    correlation_id: object = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    creation_time_ms: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None
    properties: dict[str, object] = field(factory=dict)
    """Application properties."""
    annotations: dict[str, object] = field(factory=dict)
    """Notes of brokers and clients beside the message; not part of its content."""
    body: object = None
    is_kept: bool = field(default=True, eq=False)
    """Whether the message may keep this view, and what is made of it, for the next reader. False: it is much larger
    than the message, which is counted as it came."""
