"""Owners of sessions, and the permission that others need to end them (reliability §5.8).

A session and the messages that wait in it belong to the user that created it. Another user that connects under its
client identifier would end it, which deletes its queues: that takes the permission to delete them. The session of a
client without a name has no owner; the first user that connects under its identifier adopts it.

The same permission is required where a client has durable queues of its own session deleted: by UNSUBSCRIBE, by a
clean start, or by letting the session end sooner. A session that expires, or ends with its connection, is ended by the
broker: that was agreed when the queues were created.
"""

from typing import TYPE_CHECKING

from artemis_mqtt.broker.deliveries import Subscription
from artemis_mqtt.broker.kinds import OWN, SHARED
from artemis_mqtt.broker.session import ClientSession
from artemis_py.core.queues.queue import Queue
from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.session import Session

if TYPE_CHECKING:
    from artemis_mqtt.broker.sessions import Sessions


def check_takeover(
    sessions: "Sessions", session: ClientSession, core: Session, clean_start: bool, keeps_owners: bool
) -> None:
    """Raise NotAuthorized if the client may not have what its CONNECT would do to `session`.

    `keeps_owners`: whether a session is its user's (`mqttSessionOwner`).
    """
    is_own = session.user is None or session.user == core.subject.user
    if is_own and clean_start and session.is_stored:
        # What the client asks for is the deletion of durable queues, as with UNSUBSCRIBE.
        for queue in queues_that_go(sessions, session):
            core.check_delete(queue)
    if is_own or not keeps_owners:
        return
    queues = queues_that_go(sessions, session)
    for queue in queues:
        core.check_delete(queue)
    if not queues and session.handler is not None:
        # There is no queue to have a permission on, but a connection that would be cut off.
        core.check(Permission.MANAGE, sessions.host.options.management_address)


def check_unsubscribe(sessions: "Sessions", subscription: Subscription, core: Session) -> None:
    """Raise NotAuthorized if the end of a subscription deletes a durable queue, and the client may not do that.

    A queue that is not durable ends with its connection anyway, like the temporary ones of other protocols.
    """
    if _goes(sessions, subscription) and subscription.queue.durable:
        core.check_delete(subscription.queue)


def expiry_allowed(sessions: "Sessions", session: ClientSession, core: Session, wanted_s: int) -> int:
    """Return how long a session may live: `wanted_s`, or as long as before if its client may not delete the queues.

    A session that ends is the broker's own act; to have it end sooner is the client's.
    """
    if wanted_s >= session.expiry_s or not session.is_stored:
        return wanted_s
    may_end = all(core.may_delete(queue) for queue in queues_that_go(sessions, session))
    return wanted_s if may_end else session.expiry_s


def queues_that_go(sessions: "Sessions", session: ClientSession) -> list[Queue]:
    """Return the queues that the end of a session deletes."""
    return [each.queue for each in session.subscriptions.values() if _goes(sessions, each)]


def _goes(sessions: "Sessions", subscription: Subscription) -> bool:
    queue = subscription.queue
    if queue.is_deleted or queue.configuration_managed:
        return False
    return subscription.kind == OWN or (subscription.kind == SHARED and sessions.is_last(subscription))


def adopt(sessions: "Sessions", session: ClientSession, core: Session) -> None:
    """Make the client the owner of a session that has none."""
    user = core.subject.user
    if session.user is not None or user is None:
        return
    session.user = user
    for subscription in session.subscriptions.values():
        if subscription.kind == OWN and not subscription.queue.is_deleted:
            sessions.host.sessions.set_user(subscription.queue, user)
