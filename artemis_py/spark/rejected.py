"""A rejected message as it is sent to the error address: unchanged, with the reason added.

Bare part, priority and durability stay. It is marked like a dead letter of the broker, so that the same tools show
where it should have gone and send it there again. It neither expires nor waits, so that it will be seen. Octets that
were rejected because they are not a valid message are sent in the body of one.
"""

from typing import Final

from artemis_amqp.client import AmqpError, Described, ULong, encode_value, errors, header_bytes, split_sections
from artemis_amqp.engine.extensions import ORIGINAL_ADDRESS, REJECT_REASON
from artemis_py.spark.encoding import Encoded, data_section

_DELIVERY: Final = "x-opt-delivery-"
_ANNOTATIONS: Final = 0x72


def reason_of(error: AmqpError | None) -> str:
    """Return the broker's reason for rejecting a message."""
    return "no reason given" if error is None else error.description or error.condition


def marked(message: Encoded, address: str, error_address: str, error: AmqpError | None) -> Encoded:
    """Return the message for the error address, after `address` rejected it."""
    head = split_sections(message.head)
    annotations = {
        name: value
        for name, value in (head.annotations or {}).items()
        if not (isinstance(name, str) and name.startswith(_DELIVERY))
    }
    annotations |= {ORIGINAL_ADDRESS: address, REJECT_REASON: reason_of(error)}
    is_undecodable = error is not None and error.condition == errors.DECODE_ERROR
    return Encoded(
        address=error_address,
        head=header_bytes(head.durable, head.priority, -1, False, 0)
        + encode_value(Described(ULong(_ANNOTATIONS), annotations)),
        bare=data_section(message.bare) if is_undecodable else message.bare,
    )
