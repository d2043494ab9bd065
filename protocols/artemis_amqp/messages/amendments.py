"""Message annotations that a consumer adds when it gives a message back (AMQP 1.0 §3.4.5, modified).

They override annotations of the same name in later deliveries from this queue, and stay with the message when it moves
to a dead-letter address. The bare message never changes, and other queues that share the message keep it as it was.
"""

from typing import Final

from artemis_amqp.engine.types import Symbol
from artemis_amqp.messages.conversion import plain
from artemis_amqp.messages.delivery import AMENDED, merge_annotations
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_amqp.messages.sections import NOT_KEPT
from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, Message
from artemis_py.errors import LimitExceeded

ADDED_LIMIT: Final = 4096
"""Bytes that consumers may add to the annotations of one message. The limit is low because they are not counted for
the message's address; a reason and a time take a hundred."""


def amended(message: Message, annotations: dict[Symbol, object]) -> Message:
    """Return the message with these annotations added. Raises LimitExceeded.

    A message of another protocol keeps only strings, numbers, booleans and null: it cannot represent AMQP's types.
    """
    if message.format is AMQP_FORMAT:
        merged = merge_annotations(message.annotations, {str(key): value for key, value in annotations.items()})
        came_with = message.size - len(message.data) - MESSAGE_OVERHEAD_BYTES
        _check(len(merged) - came_with)
        return message.amended(merged, message.extra)
    extra = dict(message.extra or {})
    for key, value in annotations.items():
        simple = plain(value)
        if key not in NOT_KEPT and (simple is None or isinstance(simple, (str, int, float))):
            extra[AMENDED + key] = simple
    _check(sum(len(key) + len(str(value)) for key, value in extra.items() if key.startswith(AMENDED)))
    changed = message.amended(message.annotations, extra)
    # Other protocols do not see the annotations: the cached view and encodings stay valid.
    changed.view_cache = message.view_cache
    changed.encodings = message.encodings
    return changed


def _check(size: int) -> None:
    if size > ADDED_LIMIT:
        raise LimitExceeded(f"consumers added {size} bytes of annotations to a message; {ADDED_LIMIT} are allowed")
