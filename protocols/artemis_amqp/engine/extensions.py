"""Names that this broker adds to AMQP 1.0, for the broker and its clients alike (docs/amqp.md).

    artemis:*     ours alone: link properties and a source filter
    x-opt-*       message annotations; some are from Artemis, and the others are spelt the same way

The module knows no broker and no client, so that both may import it.
"""

from typing import Final

from artemis_amqp.engine.types import Symbol

# --- connections ---

REDIRECT: Final = Symbol("artemis:redirect")
"""Capability that a client desires if it goes where the close of a connection sends it."""

# --- links ---

STAGE: Final = Symbol("artemis:stage")
"""Property of a sender's attach: writer, epoch and attempt of the stage that keeps the messages. A capability of the
same name tells clients that the broker has stages."""
STAGED: Final = Symbol("artemis:staged")
"""Property of the answer: the number of messages in that stage."""
REFUSED: Final = Symbol("artemis:refused")
"""Property of the answer: the number of messages for that stage that were refused, on any link."""
CREATED: Final = Symbol("artemis:created")
"""Property of the answer to a receiver's attach: the name of what did not exist, and was created for it."""
WAITS_FOR: Final = Symbol("artemis:waits-for")
"""Property of the broker's flow on a link that gets no credit for now: the reason, in words."""
SEQUENCE_RANGE: Final = Symbol("artemis:sequence-range:list")
"""Filter of a source: the sequence numbers `[from, to)` that a browser reads, and perhaps the id of the queue."""

# --- connections ---

OPERATOR: Final = Symbol("artemis:operator")
"""Capability that a client desires if it operates the broker: it may connect while the broker is being drained."""

# --- annotations that the broker writes ---

SEQUENCE_NUMBER: Final = Symbol("x-opt-sequence-number")
"""The message's position in its queue; clients cannot set it."""
ADDRESS: Final = Symbol("x-opt-address")
"""The address a message was sent to, for a reader of a queue that collects several addresses."""
INGRESS_TIME: Final = Symbol("x-opt-ingress-time")
VALIDATED_USER: Final = Symbol("x-opt-VALIDATED-USER")
"""The user that sent the message, as the broker has checked it; clients cannot set it."""
ORIGINAL: Final = "x-opt-ORIG-"
"""Prefix of annotations that describe a message before it was moved."""
ORIGINAL_ADDRESS: Final = Symbol("x-opt-ORIG-ADDRESS")
ORIGINAL_QUEUE: Final = Symbol("x-opt-ORIG-QUEUE")
ACTUAL_EXPIRY: Final = Symbol("x-opt-ACTUAL-EXPIRY")
DEATH: Final = "x-opt-DEATH-"
"""Prefix of annotations that say why, when and after how many attempts a message became a dead letter."""
DEATH_CAUSE: Final = Symbol("x-opt-DEATH-CAUSE")
DEATH_TIME: Final = Symbol("x-opt-DEATH-TIME")
DEATH_ATTEMPTS: Final = Symbol("x-opt-DEATH-ATTEMPTS")

# --- annotations that the broker reads ---

DELIVERY_TIME: Final = Symbol("x-opt-delivery-time")
DELIVERY_DELAY: Final = Symbol("x-opt-delivery-delay")
"""Milliseconds from the arrival at this broker; therefore it is not delivered."""
ROUTING_TYPE: Final = Symbol("x-opt-routing-type")
JMS_DESTINATION: Final = Symbol("x-opt-jms-dest")
"""0 queue, 1 topic, 2 temporary queue, 3 temporary topic (amqp10 §17)."""
JMS_ANNOTATIONS: Final = (JMS_DESTINATION, "x-opt-jms-reply-to", "x-opt-jms-msg-type")
"""Annotations that JMS clients want as an AMQP byte."""

# --- annotations that the Spark connector writes or reads ---

ENQUEUED_TIME: Final = Symbol("x-opt-enqueued-time")
"""Azure's brokers write this; ours and Artemis write `INGRESS_TIME`, with `enable-ingress-timestamp`."""
REJECT_REASON: Final = Symbol("x-opt-reject-reason")
"""Text of the broker's reason."""
REDRIVE_COUNT: Final = Symbol("x-opt-redrive-count")
"""The number of times that a message was sent back from a dead-letter queue."""
REDRIVEN_FROM: Final = Symbol("x-opt-redriven-from")
REPLAYED_FROM: Final = Symbol("x-opt-replayed-from")
