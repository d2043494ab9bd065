"""Names that stand in OpenWire messages beside those of the engine, and in messages of other protocols."""

from typing import Final

SCHEDULED_PREFIX: Final = "AMQ_SCHEDULED_"
"""How the properties begin that say when a message is to be sent (openwire §9.1)."""
DELAY: Final = SCHEDULED_PREFIX + "DELAY"
"""Property: milliseconds before the first time."""
PERIOD: Final = SCHEDULED_PREFIX + "PERIOD"
"""Property: milliseconds between repetitions."""
REPEAT: Final = SCHEDULED_PREFIX + "REPEAT"
"""Property: number of repetitions after the first time; -1: no end."""
CRON: Final = SCHEDULED_PREFIX + "CRON"
"""Property: a schedule of cron; at each of its times the rest begins."""
JOB_ID: Final = "scheduledJobId"
"""Property of a message that was scheduled: the id by which its job is removed."""
GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
USER_ID: Final = "JMSXUserID"
ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
"""Property of the broker: the address that a message was moved from."""
ORIGINAL_ROUTING_TYPE: Final = "_AMQ_ORIG_ROUTING_TYPE"
ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"
"""Property of the broker: when a message expired."""
ORIGINAL_EXPIRATION: Final = "originalExpiration"
"""Property of a message that expired: when it had to (openwire §9.1)."""
FAILURE_CAUSE: Final = "dlqDeliveryFailureCause"
"""Property of a dead letter: what its consumer could not cope with (openwire §9.1)."""
BROKER_PREFIX: Final = "_AMQ_"
"""How the broker's own properties begin (artemis-model §8)."""

# Properties that stand for fields of messages of other protocols (artemis-model §4.1.6).
CONTENT_TYPE: Final = "JMS_AMQP_ContentType"
CONTENT_ENCODING: Final = "JMS_AMQP_ContentEncoding"
REPLY_TO_GROUP_ID: Final = "JMS_AMQP_REPLYTO_GROUP_ID"
ANNOTATION_PREFIX: Final = "JMS_AMQP_MA_"

# Annotations by which clients of AMQP know kinds of messages and destinations (artemis-model §4.1.5).
DESTINATION_KIND: Final = "x-opt-jms-dest"
"""0 queue, 1 topic, 2 temporary queue, 3 temporary topic."""
REPLY_TO_KIND: Final = "x-opt-jms-reply-to"
MESSAGE_KIND: Final = "x-opt-jms-msg-type"
"""0 no body, 1 object, 2 map, 3 octets, 4 stream, 5 text."""

PLAIN_KIND: Final = 0
OBJECT_KIND: Final = 1
MAP_KIND: Final = 2
BYTES_KIND: Final = 3
STREAM_KIND: Final = 4
TEXT_KIND: Final = 5

JAVA_OBJECT: Final = "application/x-java-serialized-object"
"""Content type of a serialised Java object, which nothing here looks into."""
