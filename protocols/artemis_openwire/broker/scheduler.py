"""The management of scheduled messages by messages to `ActiveMQ.Scheduler.Management`, from clients of any protocol.

The property `AMQ_SCHEDULER_ACTION` says what to do: BROWSE sends a copy of each scheduled message to the reply-to
destination, REMOVE ends the job whose id is in `scheduledJobId`, REMOVEALL ends all. BROWSE and REMOVEALL can be
limited to jobs that are due next from `ACTION_START_TIME` to `ACTION_END_TIME`, in milliseconds since 1970.

A client sees what its user has scheduled, and what it may browse at the address where it will be sent; it may end what
its user has scheduled, and what it may consume there.
"""

from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.exchange_names import open_exchange, read_exchange_name
from artemis_openwire.broker.refusals import invalid_destination
from artemis_openwire.broker.subscriptions import routing_type_of
from artemis_openwire.engine.structures import ActiveMQDestination, ActiveMQQueue, ActiveMQTempDestination
from artemis_openwire.messages.format import OPENWIRE_FORMAT, read_fields
from artemis_openwire.messages.names import JOB_ID
from artemis_openwire.messages.occurrences import listing, occurrence
from artemis_py.core.messages.message import Message
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.services.job import Job
from artemis_py.core.services.jobs import JOB_UNITS, Jobs
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, ProtocolError, Refusal

if TYPE_CHECKING:
    from artemis_openwire.broker.manager import OpenWireProtocolManager

MANAGEMENT: Final = "ActiveMQ.Scheduler.Management"
ACTION: Final = "AMQ_SCHEDULER_ACTION"
BROWSE: Final = "BROWSE"
REMOVE: Final = "REMOVE"
REMOVE_ALL: Final = "REMOVEALL"
START_TIME: Final = "ACTION_START_TIME"
END_TIME: Final = "ACTION_END_TIME"


class Scheduler:
    """Tells clients about the jobs of one domain; fulfils `Endpoint`."""

    def __init__(self, manager: "OpenWireProtocolManager", jobs: Jobs) -> None:
        self._manager: Final = manager
        self._jobs: Final = jobs
        jobs.adapt(OPENWIRE_FORMAT.name, self._occurrence)

    def _occurrence(self, message: Message, job: Job, number: int) -> Message:
        manager = self._manager
        return occurrence(message, job, number, manager.run_name, manager.host.now_ms)

    def receive(self, message: Message, session: Session) -> None:
        """Do what a message asks for. Raises a kind of Refusal."""
        action = message.lookup(ACTION)
        if action == BROWSE:
            target = _reply_to(message)
            producer = _open(session, target)
            steps = self._tell(session, _span(message), target, producer)
            self._manager.host.background.start(steps)
        elif action == REMOVE:
            job = self._jobs.find(str(message.lookup(JOB_ID)))
            if job is not None and _may(session, Permission.CONSUME, job):
                self._jobs.remove(job)
        elif action == REMOVE_ALL:
            self._manager.host.background.start(self._remove_all(session, _span(message)))
        else:
            raise InvalidRequest(f"the property {ACTION} must be {BROWSE}, {REMOVE} or {REMOVE_ALL}")

    def _tell(self, session: Session, span: tuple[int, int], target: ActiveMQDestination, producer: Producer) -> Steps:
        """Send a copy of each message, in slices, as fast as the reply-to destination has room."""
        manager, jobs = self._manager, self._jobs
        meter = manager.host.meter
        end = meter.work + SLICE_UNITS
        for job in jobs.all():
            meter.work += 1
            if jobs.is_pending(job) and span[0] <= job.due_ms <= span[1] and _may(session, Permission.BROWSE, job):
                meter.work += JOB_UNITS
                message = jobs.message_of(job)
                if message is not None and message.format is OPENWIRE_FORMAT:
                    number = manager.host.dispatcher.numbers.message_id
                    try:
                        producer.send(listing(message, job, number, manager.run_name, target))
                    except (Refusal, ProtocolError) as error:
                        template = "scheduled messages not listed: client=%s reason=%s"
                        manager.brake.info(session.peer, template, session.client_id, error)
                        return None
            if producer.must_wait:
                yield lambda go_on, _: producer.when_room(go_on)
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        return None

    def _remove_all(self, session: Session, span: tuple[int, int]) -> Steps:
        jobs, meter = self._jobs, self._manager.host.meter
        end = meter.work + SLICE_UNITS
        for job in jobs.all():
            meter.work += 1
            if jobs.is_pending(job) and span[0] <= job.due_ms <= span[1] and _may(session, Permission.CONSUME, job):
                meter.work += JOB_UNITS
                jobs.remove(job)
            if meter.work >= end:
                yield None
                end = meter.work + SLICE_UNITS
        return None


def _may(session: Session, permission: Permission, job: Job) -> bool:
    """Tell whether a client may see or end a job."""
    asked = job.asked
    if asked.subject.user is not None and asked.subject.user == session.subject.user:
        return True
    return session.may(permission, asked.address, asked.queue or None)


def _reply_to(message: Message) -> ActiveMQDestination:
    """Return where the answers go. Raises InvalidRequest."""
    found: ActiveMQDestination | None = None
    try:
        if message.format is OPENWIRE_FORMAT:
            found = read_fields(message).reply_to
        elif message.view.reply_to:
            found = ActiveMQQueue(physical_name=message.view.reply_to)
    except ProtocolError as error:
        raise InvalidRequest(str(error)) from None
    if found is None or not found.physical_name:
        raise InvalidRequest("a reply-to destination is needed, which gets the scheduled messages")
    return found


def _open(session: Session, target: ActiveMQDestination) -> Producer:
    """Return a producer for answers. Raises a kind of Refusal."""
    name = target.physical_name or ""
    if isinstance(target, ActiveMQTempDestination) and session.owns_temporary(name) is None:
        raise invalid_destination(f"the temporary destination '{name}' does not exist")
    wanted = read_exchange_name(name)
    if wanted is not None:
        return open_exchange(session, wanted)
    return session.producer(session.full_name(name), routing_type_of(target))


def _span(message: Message) -> tuple[int, int]:
    """Return the times that limit an action; both must be given. Raises InvalidRequest."""
    start, end = message.lookup(START_TIME), message.lookup(END_TIME)
    if start is None or end is None:
        return 0, 1 << 63
    try:
        return int(str(start)), int(str(end))
    except ValueError:
        raise InvalidRequest(f"{START_TIME} and {END_TIME} must be whole numbers") from None
