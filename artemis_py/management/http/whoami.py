"""Tells programs that offer actions, such as the console, who their user is and what that user may not do.

Only what is missing is listed, so the answer is short for administrators. It is the same decision that a request meets.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.sessions.session import delete_permission
from artemis_py.management.address_control import AddressControl
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.control import Control
from artemis_py.management.http.administration import Find
from artemis_py.management.queue_control import QueueControl

MOST_RESOURCES: Final = 20
"""Resources that one request may ask about."""

CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": ("updateQueue", "destroyQueue"),
    "address": ("updateAddress", "deleteAddress"),
    "divert": ("updateDivert", "destroyDivert"),
    "exchange": ("updateExchange", "deleteExchange"),
    "virtualhost": ("updateVirtualHost", "startVirtualHost", "stopVirtualHost", "deleteVirtualHost"),
}
"""Operations of the broker that change a resource, by kind."""


def described(find: Find, subject: Subject, resources: Sequence[str]) -> dict[str, Any]:
    """Return the user, and for the broker and each of these resources the permissions that are missing, by operation.

    Without the permission `manage` no resource is looked for. Raises Problem for one that does not exist.
    """
    broker = find("broker")
    assert isinstance(broker, BrokerControl)
    address = broker.domain.options.management_address
    is_manager = broker.session.may(Permission.MANAGE, address)
    if is_manager:
        missing = {"broker": _missing(broker), **{name: _missing_of(find(name), broker) for name in resources}}
    else:
        missing = {"broker": dict.fromkeys(broker.operations, _told((Permission.MANAGE, address)))}
    return {"user": subject.user, "roles": sorted(subject.roles), "manage": is_manager, "missing": missing}


def _missing(control: Control) -> dict[str, Any]:
    found = {name: control.lacking(name) for name in control.operations}
    return {name: _told(lacking) for name, lacking in found.items() if lacking is not None}


def _missing_of(control: Control, broker: BrokerControl) -> dict[str, Any]:
    """Return what is missing for a resource, together with the operations of the broker that change it."""
    control.check_known()
    missing = _missing(control)
    for name in CHANGES.get(control.resource.partition(".")[0], ()):
        lacking = broker.lacking(name) or _lacking_on(control, name)
        if lacking is not None:
            missing[name] = _told(lacking)
    return missing


def _lacking_on(control: Control, change: str) -> tuple[Permission, str] | None:
    """Return the permission on an address that the session would ask for, if it is missing."""
    if isinstance(control, QueueControl):
        queue, address = control.queue, control.queue.address.name
        creating = Permission.CREATE_DURABLE_QUEUE if queue.durable else Permission.CREATE_NON_DURABLE_QUEUE
        permission = creating if change == "updateQueue" else delete_permission(queue)
        return None if control.session.may(permission, address, queue.name) else (permission, address)
    if isinstance(control, AddressControl):
        address = control.address.name
        permission = Permission.CREATE_ADDRESS if change == "updateAddress" else Permission.DELETE_ADDRESS
        return None if control.session.may(permission, address) else (permission, address)
    return None


def _told(lacking: tuple[Permission, str]) -> dict[str, str]:
    permission, name = lacking
    return {"permission": permission.value, "on": name}
