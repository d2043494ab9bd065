"""The stage that a sender may ask for in its attach: messages wait there for the commit of their epoch."""

from artemis_amqp.broker.link_end import LinkEnd
from artemis_amqp.engine import errors, extensions
from artemis_amqp.engine.types import Symbol
from artemis_py.core.sessions.inlet import AddressInlet
from artemis_py.core.sessions.producer import Producer


def open_stage(end: LinkEnd, producer: Producer | None) -> dict[Symbol, object] | None:
    """Open the stage that the link property `artemis:stage` asks for, and have it take what `producer` sends.

    Returns the properties of the answer, which say how many messages are in the stage; None without that property.
    Raises Refusal, errors.Condition.
    """
    wanted = (end.attach.properties or {}).get(extensions.STAGE)
    if wanted is None:
        return None
    names = _stage_names(wanted)
    if names is None or producer is None or not isinstance(producer.inlet, AddressInlet) or producer.queue_name:
        text = "artemis:stage is a list of writer, epoch and attempt, on a link whose target is an address"
        raise errors.Condition(errors.INVALID_FIELD, text)
    writer, epoch, attempt = names
    user = end.handler.core_session.subject.name
    staging = end.handler.services.staging
    stage = staging.open(user, writer, epoch, attempt, producer.name, end)
    staging.plug(stage, producer)
    return {extensions.STAGED: stage.count, extensions.REFUSED: stage.refused}


def _stage_names(value: object) -> tuple[str, int, str] | None:
    """Return writer, epoch and attempt; None if `value` has another form."""
    match value:
        case [str() as writer, int() as epoch, str() as attempt]:
            return writer, int(epoch), attempt
        case _:
            return None
