"""Messages that are sent later or several times: when, and what is sent each time (openwire §9.1).

A message waits as it came. Each time it is sent without the properties that said when, so that a client that sends on
what it received does not repeat them, and with the id of its job. If it is sent several times, each time has a message
id of its own, because clients discard what they take for a repetition.
"""

from typing import Final

from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.rewriting import Changes, rewrite
from artemis_openwire.engine.structures import ActiveMQDestination, MessageId, ProducerId
from artemis_openwire.engine.values import amend_map
from artemis_openwire.messages.format import OPENWIRE_FORMAT, read_fields
from artemis_openwire.messages.names import CRON, DELAY, JOB_ID, PERIOD, REPEAT
from artemis_py.core.messages.message import Message, keep_user
from artemis_py.core.services.job import Job, Timing
from artemis_py.errors import InvalidRequest

_WHEN: Final = (DELAY, PERIOD, REPEAT, CRON)
_MAX_DIGITS: Final = 20

_NUMBERS: Final = (1 << 31) - 1
"""Numbers of one producer that is made up, as in `delivery`."""


def timing_of(fields: MessageFields) -> Timing | None:
    """Return when a message is to be sent; None: now.

    A message that has the id of a job was sent by a scheduler already. Raises MalformedFrame if the properties are
    damaged, InvalidRequest if they make no sense.
    """
    properties = fields.properties
    if properties.get(JOB_ID) is not None:
        return None
    delay_ms, period_ms, repeat = (_number(properties, name) for name in (DELAY, PERIOD, REPEAT))
    given = properties.get(CRON)
    cron = "" if given is None else str(given).strip()
    if delay_ms <= 0 and period_ms <= 0 and not cron:
        return None
    return Timing.of(delay_ms, period_ms, repeat, cron)


def _number(properties: dict[str, object], name: str) -> int:
    """Return a whole number, which may be a text as in ActiveMQ; 0 if there is none. Raises InvalidRequest."""
    value = properties.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and len(value) <= _MAX_DIGITS:
        digits = value[1:] if value[:1] in ("+", "-") else value
        if digits.isascii() and digits.isdigit():
            return int(value)
    raise InvalidRequest(f"the property {name} must be a whole number")


def occurrence(message: Message, job: Job, number: int, connection: str, now_ms: int) -> Message:
    """Return what is sent when a job is due. Raises MalformedFrame.

    `number` is unique among messages of this run of the broker, and `connection` is the name of the run.
    """
    fields = read_fields(message)
    timing = job.asked.timing
    repeats = timing.repeat != 0 or timing.cron is not None or job.is_series
    expiration_ms, timestamp_ms = fields.expiration_ms, fields.timestamp_ms
    if 0 < timestamp_ms < min(now_ms, expiration_ms):
        # The time to live begins when the message is sent.
        expiration_ms += now_ms - timestamp_ms
    changes = Changes(
        message_id=_id(number, connection) if repeats else None,
        expiration_ms=expiration_ms,
        timestamp_ms=max(timestamp_ms, now_ms) if timestamp_ms else None,
        properties=amend_map(fields.marshalled_properties, _WHEN, {JOB_ID: job.id}),
        drops_transaction=True,
    )
    sent = _with(message, *rewrite(message.annotations, message.data, changes))
    sent.expires_ms = max(expiration_ms, 0)
    return sent


def listing(message: Message, job: Job, number: int, connection: str, target: ActiveMQDestination) -> Message:
    """Return what a client is told of a job: its message as it came, with the id of the job. Raises MalformedFrame."""
    fields = read_fields(message)
    changes = Changes(
        destination=target,
        original_destination=fields.original_destination or fields.destination,
        message_id=_id(number, connection),
        persistent=False,
        expiration_ms=0,
        properties=amend_map(fields.marshalled_properties, (), {JOB_ID: job.id}),
        drops_transaction=True,
    )
    told = _with(message, *rewrite(message.annotations, message.data, changes))
    told.durable = False
    return told


def _id(number: int, connection: str) -> MessageId:
    number = max(number - 1, 0)
    producer = ProducerId(connection_id=connection, session_id=-1, value=number // _NUMBERS)
    return MessageId(producer_id=producer, producer_sequence_id=number % _NUMBERS + 1)


def _with(message: Message, header: bytes, body: bytes) -> Message:
    made = Message(OPENWIRE_FORMAT, "", body, header, message.durable, message.priority)
    made.producer = message.producer
    made.has_group = message.has_group
    made.large = message.large
    keep_user(message, made)
    return made
