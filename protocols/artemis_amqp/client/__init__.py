"""Public API for programs that talk to a broker: connections, links, values and messages.

`asyncio_client` and `blocking` are the two ways to connect, over one `conversation`. Import everything else from this
module and from `engine.extensions`, not from other modules of the engine or the messages.
"""

from artemis_amqp.engine import errors
from artemis_amqp.engine.codec import encode_value, read_value, skip_value
from artemis_amqp.engine.filters import selector_filter
from artemis_amqp.engine.handlers import DeliveryStream, ReceiverLinkHandler, SenderLinkHandler
from artemis_amqp.engine.hot_frames import ACCEPTED_CODE
from artemis_amqp.engine.limits import ConnectionLimits
from artemis_amqp.engine.link import SETTLED
from artemis_amqp.engine.performatives import (
    Accepted,
    AmqpError,
    Modified,
    Properties,
    Rejected,
    Released,
    Source,
    Target,
    encode,
)
from artemis_amqp.engine.receiver import ReceiverLink
from artemis_amqp.engine.sender import SenderLink
from artemis_amqp.engine.transfer_frame import TransferFrame
from artemis_amqp.engine.types import Byte, Described, MalformedValue, Symbol, Timestamp, UInt, ULong
from artemis_amqp.messages.arrival import split_sections
from artemis_amqp.messages.conversion import plain
from artemis_amqp.messages.delivery import header_bytes
from artemis_amqp.messages.sections import read_application_properties, read_properties

__all__ = [
    "ACCEPTED_CODE",
    "SETTLED",
    "Accepted",
    "AmqpError",
    "Byte",
    "ConnectionLimits",
    "DeliveryStream",
    "Described",
    "MalformedValue",
    "Modified",
    "Properties",
    "ReceiverLink",
    "ReceiverLinkHandler",
    "Rejected",
    "Released",
    "SenderLink",
    "SenderLinkHandler",
    "Source",
    "Symbol",
    "Target",
    "Timestamp",
    "TransferFrame",
    "UInt",
    "ULong",
    "encode",
    "encode_value",
    "errors",
    "header_bytes",
    "plain",
    "read_application_properties",
    "read_properties",
    "read_value",
    "selector_filter",
    "skip_value",
    "split_sections",
]
