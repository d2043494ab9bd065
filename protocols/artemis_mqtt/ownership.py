"""Whose a session is, and who else may end it (reference/reliability §4, hardening 8).

A session and the messages that wait in it belong to the user that made it. Another user that comes under its client
identifier would end it, which deletes its queues: that takes the permission to delete them. What a client without a
name made belongs to nobody; the first user that comes under its identifier adopts it.
"""

from typing import TYPE_CHECKING

from artemis_mqtt.deliveries import OWN, SHARED
from artemis_mqtt.session import ClientSession
from artemis_py.core.access import Permission
from artemis_py.core.queue import Queue
from artemis_py.core.session import Session

if TYPE_CHECKING:
    from artemis_mqtt.sessions import Sessions


def check_takeover(sessions: "Sessions", session: ClientSession, core: Session) -> None:
    """Raises NotAuthorized if `session` is another user's and the client may not end it."""
    if session.user is None or session.user == core.subject.user:
        return
    queues = queues_that_go(sessions, session)
    for queue in queues:
        core.check_delete(queue)
    if not queues and session.handler is not None:
        # There is no queue to have a permission on, but a connection that would be cut off.
        core.check(Permission.MANAGE, core.postoffice.options.management_address)


def queues_that_go(sessions: "Sessions", session: ClientSession) -> list[Queue]:
    """The queues that the end of a session deletes."""
    return [
        subscription.queue
        for subscription in session.subscriptions.values()
        if not subscription.queue.is_deleted
        and not subscription.queue.configuration_managed
        and (subscription.kind == OWN or (subscription.kind == SHARED and sessions.is_last(subscription)))
    ]


def adopt(session: ClientSession, core: Session) -> None:
    """Make a session that is nobody's the client's."""
    user = core.subject.user
    if session.user is not None or user is None:
        return
    session.user = user
    for subscription in session.subscriptions.values():
        if subscription.kind == OWN and not subscription.queue.is_deleted:
            core.postoffice.update_queue(subscription.queue.name, {"user": user})
