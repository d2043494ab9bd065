"""Message annotations that a consumer adds when it gives a message back (AMQP 1.0 §3.4.5, modified).

They override those the message has, for whoever gets it next from this queue, and travel with it to a dead-letter
address. The bare message is never touched, and other queues that share the message keep it as it was.
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
"""Bytes that consumers may add to the annotations of one message. They are not counted for its address, so they have
to be few; a reason and a time take a hundred."""


def amended(message: Message, annotations: dict[Symbol, object]) -> Message:
    """The message with these annotations. Raises LimitExceeded.

    A message of another protocol takes texts, numbers and truth values: there is no room in it for AMQP's types.
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
    # Nothing that another protocol reads of it is different.
    changed.view_cache = message.view_cache
    changed.encodings = message.encodings
    return changed


def _check(size: int) -> None:
    if size > ADDED_LIMIT:
        raise LimitExceeded(f"consumers added {size} bytes of annotations to a message; {ADDED_LIMIT} are allowed")
