"""A delivery with large content, which `large_output` reads from its file while the frame is sent."""

from struct import Struct
from typing import TYPE_CHECKING, Final

from artemis_openwire.engine.dispatch_writer import DispatchWriter
from artemis_openwire.engine.large_arrival import EMPTY_CONTENT
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.rewriting import layout_of, transcode
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.wire.outbox import Outbox

if TYPE_CHECKING:
    from artemis_openwire.engine.connection import OpenWireConnection

_SIZE: Final = Struct(">i")
_NO_LIMIT: Final = 1 << 60


# Long because it names everything that a delivery is made of.
def send_large(
    connection: "OpenWireConnection",
    writer: DispatchWriter,
    header: bytes,
    body: bytes,
    large: LargeBody,
    destination_field: bytes,
    sequence: int,
    redeliveries: int,
    now_ms: int,
    is_first_of_group: bool,
) -> bool:
    """Send a message whose content is in a large body, otherwise as `DispatchWriter.send`.

    False: it is larger than the client takes, and was not sent. Raises StoreError if the body cannot be read.
    """
    if connection.outbox.is_closed:
        return True
    version = connection.version
    if layout_of(header[0]) != layout_of(version):
        header, body = transcode(header, body, version)
    fields = MessageFields()
    fields.read(body, header[0])
    scratch = Outbox(_NO_LIMIT, _do_nothing)
    writer.send_to(scratch, header, body, destination_field, sequence, redeliveries, now_ms, is_first_of_group)
    frame = scratch.take()
    # Sizes in front of the content stay the same: the numbers in there have a fixed size.
    content_at = writer.head_size + len(destination_field) + 1 + fields.content_at
    size = len(frame) - _SIZE.size + large.size
    if size > writer.max_frame_size:
        return False
    connection.outputs.open(large)
    beginning = _SIZE.pack(size) + frame[_SIZE.size : content_at + 1] + _SIZE.pack(large.size)
    connection.outputs.add(beginning, frame[content_at + len(EMPTY_CONTENT) :])
    connection.is_streaming = True
    return True


def _do_nothing() -> None:
    """Wake nobody: the output is taken at once."""
