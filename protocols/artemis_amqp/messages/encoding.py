"""A message in AMQP's encoding, whatever protocol brought it."""

from attrs import evolve

from artemis_amqp.messages.conversion import from_view
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_py.core.messages.message import Message, validated_user
from artemis_py.errors import ProtocolError


def encoded(message: Message) -> tuple[bytes, bytes]:
    """Return annotations and bare message in AMQP's encoding, converted once if another protocol wrote the message.

    Raises ProtocolError if it cannot be converted.
    """
    if message.format is AMQP_FORMAT:
        return message.annotations, message.data
    encodings = message.encodings
    if encodings is None:
        encodings = message.encodings = {}
    bare = encodings.get("AMQP")
    if bare is None:
        view = message.view
        user = validated_user(message)
        try:
            annotations, bare = from_view(view if user is None else evolve(view, user_id=user.encode()))
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"the message has no form in AMQP: {error}") from error
        if not view.is_kept:
            return annotations, bare
        encodings["AMQP annotations"] = annotations
        encodings["AMQP"] = bare
    return encodings["AMQP annotations"], bare
