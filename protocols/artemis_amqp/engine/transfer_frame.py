"""One transfer frame, as all layers pass it on (AMQP 1.0 §2.7.5)."""


class TransferFrame:
    """The fields of the transfer frame that a session is reading, and then of the delivery that the frame completes.

    There is one record per session, refilled for each frame, so a transfer costs no allocation and one argument instead
    of ten. Its fields are valid during the call that gets it: to use one later, keep the field, not the record.

    -1 and None stand for a field that is null on the wire. In a complete delivery `delivery_id` and `tag` are those of
    its first frame and never null, `payload` is all of its octets, `settled` is 0 or 1, and `message_format` is not -1.
    """

    __slots__ = (
        "aborted",
        "data",
        "delivery_id",
        "handle",
        "message_format",
        "more",
        "resume",
        "settled",
        "start",
        "state",
        "stop",
        "tag",
    )

    def __init__(self) -> None:
        self.handle: int = 0
        self.delivery_id: int = -1
        self.tag: bytes | None = None
        self.message_format: int = -1
        self.settled: int = -1
        """Whether the delivery is settled: 1, 0, or -1 for null."""
        self.more: bool = False
        self.state: object = None
        self.resume: bool = False
        self.aborted: bool = False
        self.data: bytes = b""
        """Octets among which those of the message are: from `start` to before `stop`, so that none is copied twice."""
        self.start: int = 0
        self.stop: int = 0

    def carry(self, data: bytes, start: int, stop: int) -> None:
        """Note the octets of the frame or delivery."""
        self.data = data
        self.start = start
        self.stop = stop

    def let_go(self) -> None:
        """Forget the octets: the record outlives the frame, and they may be those of a whole read."""
        self.carry(b"", 0, 0)

    @property
    def payload(self) -> bytes:
        """The octets of the frame or delivery, in a copy."""
        return self.data[self.start : self.stop]

    @property
    def size(self) -> int:
        """Number of octets of the frame or delivery."""
        return self.stop - self.start

    @property
    def delivery_tag(self) -> bytes:
        """Delivery-tag of a complete delivery."""
        tag = self.tag
        assert tag is not None
        return tag

    @property
    def is_settled(self) -> bool:
        """Whether a complete delivery was sent settled."""
        return self.settled == 1
