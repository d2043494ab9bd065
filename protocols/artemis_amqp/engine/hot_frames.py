"""Decoders for the two most frequent frames, transfer and disposition, without an object each (AMQP 1.0 §2.7).

Clients write them in a few forms only, and these are read here. Any other form, legal or not, is left to the decoder
that reads every performative.
"""

from typing import Final

from artemis_amqp.engine.performatives import MAX_TAG_SIZE
from artemis_amqp.engine.session import AmqpSession
from artemis_py.wire.integers import read_u32

ACCEPTED_CODE: Final = 0x24
"""Stands for the state accepted, in its usual form."""
_ACCEPTED_LIST0: Final = b"\x00\x53\x24\x45"
_ACCEPTED_BATCHABLE: Final = frozenset(_ACCEPTED_LIST0 + bytes((batchable,)) for batchable in (0x40, 0x41, 0x42))

# Octets that may follow the field `more` of a transfer without a meaning: rcv-settle-mode and state null, resume and
# aborted null or false, batchable anything.
_PLAIN_ENDS: Final[frozenset[bytes]] = frozenset(
    [b"", b"\x40", b"\x40\x40"]
    + [b"\x40\x40" + bytes((resume,)) for resume in (0x40, 0x42)]
    + [b"\x40\x40" + bytes((resume, aborted)) for resume in (0x40, 0x42) for aborted in (0x40, 0x42)]
    + [
        b"\x40\x40" + bytes((resume, aborted, batchable))
        for resume in (0x40, 0x42)
        for aborted in (0x40, 0x42)
        for batchable in (0x40, 0x41, 0x42)
    ]
)


def take_frame(session: AmqpSession, data: bytes, body: int, stop: int) -> bool:
    """Process a transfer or disposition in a usual form; False for any other frame, which is left untouched.

    `body` is where the performative begins, `stop` where the frame ends.
    """
    if stop - body < 4 or data[body] != 0 or data[body + 1] != 0x53:
        return False
    code = data[body + 2]
    if code != 0x14 and code != 0x15:
        return False
    if session.is_ended:
        return False
    if code == 0x14:
        return _take_transfer(session, data, body, stop)
    return _take_disposition(session, data, body, stop)


def _take_transfer(session: AmqpSession, data: bytes, body: int, stop: int) -> bool:
    """Process a transfer: list8, handle, delivery-id, tag, format, settled, more, nothing unusual (AMQP 1.0 §2.7.5).

    Long because it decodes octet by octet in locals, without calls, and returns False wherever the form differs.
    """
    if data[body + 3] != 0xC0 or stop - body < 8:
        return False
    payload = body + 5 + data[body + 4]
    count = data[body + 5]
    at = body + 6
    if payload > stop or count < 3 or payload - at < 6:
        return False
    # handle
    code = data[at]
    if code == 0x43:
        handle = 0
        at += 1
    elif code == 0x52:
        handle = data[at + 1]
        at += 2
    elif code == 0x70:
        handle = read_u32(data, at + 1)
        at += 5
    else:
        return False
    # delivery-id
    code = data[at]
    if code == 0x52 and at + 1 < payload:
        delivery_id = data[at + 1]
        at += 2
    elif code == 0x70 and at + 5 <= payload:
        delivery_id = read_u32(data, at + 1)
        at += 5
    elif code == 0x43:
        delivery_id = 0
        at += 1
    else:
        return False
    # delivery-tag
    if at + 2 > payload or data[at] != 0xA0:
        return False
    size = data[at + 1]
    at += 2
    tag = data[at : at + size]
    at += size
    if at > payload or size > MAX_TAG_SIZE:
        return False
    settled = -1
    more = False
    message_format = -1
    if count > 3 and at < payload:
        code = data[at]
        if code == 0x43:
            message_format = 0
            at += 1
        elif code == 0x40:
            at += 1
        elif code == 0x52 and at + 1 < payload:
            message_format = data[at + 1]
            at += 2
        else:
            return False
        if count > 4 and at < payload:
            code = data[at]
            at += 1
            if code == 0x42:
                settled = 0
            elif code == 0x41:
                settled = 1
            elif code != 0x40:
                return False
            if count > 5 and at < payload:
                code = data[at]
                at += 1
                if code == 0x41:
                    more = True
                elif code != 0x42 and code != 0x40:
                    return False
                if at != payload and data[at:payload] not in _PLAIN_ENDS:
                    return False
                if count - 6 != payload - at:
                    return False
            elif at != payload or count != 5:
                return False
        elif at != payload or count != 4:
            return False
    elif at != payload or count != 3:
        return False
    transfer = session.transfer
    transfer.handle = handle
    transfer.delivery_id = delivery_id
    transfer.tag = tag
    transfer.message_format = message_format
    transfer.settled = settled
    transfer.more = more
    transfer.state = None
    transfer.resume = False
    transfer.aborted = False
    transfer.carry(data, payload, stop)
    session.receive_transfer()
    transfer.let_go()
    return True


def _take_disposition(session: AmqpSession, data: bytes, body: int, stop: int) -> bool:
    """Process a disposition with the state accepted (AMQP 1.0 §2.7.6). Long for the same reason as `_take_transfer`."""
    if data[body + 3] != 0xC0 or stop - body < 12 or body + 5 + data[body + 4] != stop:
        return False
    count = data[body + 5]
    role = data[body + 6]
    at = body + 7
    code = data[at]
    if code == 0x43:
        first = 0
        at += 1
    elif code == 0x52:
        first = data[at + 1]
        at += 2
    elif code == 0x70:
        first = read_u32(data, at + 1)
        at += 5
    else:
        return False
    if at + 6 > stop:
        return False
    code = data[at]
    if code == 0x40:
        last = first
        at += 1
    elif code == 0x43:
        last = 0
        at += 1
    elif code == 0x52:
        last = data[at + 1]
        at += 2
    elif code == 0x70:
        last = read_u32(data, at + 1)
        at += 5
    else:
        return False
    if at >= stop:
        return False
    code = data[at]
    at += 1
    state = data[at:stop]
    if (code != 0x41 and code != 0x42) or (role != 0x41 and role != 0x42):
        return False
    if (state == _ACCEPTED_LIST0 and count == 5) or (state in _ACCEPTED_BATCHABLE and count == 6):
        session.dispositions.receive(role == 0x41, first, last, code == 0x41, ACCEPTED_CODE)
        return True
    return False
