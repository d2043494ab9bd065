"""Subjects and permissions: the session checks every operation, `security/` decides."""

from enum import Enum
from typing import Protocol

from attrs import frozen


@frozen
class Subject:
    """An authenticated peer."""

    user: str | None
    """Name of the user; None: the anonymous user."""
    roles: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The user as the log and error texts show it."""
        return "anonymous" if self.user is None else self.user


class Permission(Enum):
    """Right that a `<permission type>` of broker.xml can grant (artemis-model §6.3)."""

    SEND = "send"
    CONSUME = "consume"
    BROWSE = "browse"
    CREATE_ADDRESS = "createAddress"
    DELETE_ADDRESS = "deleteAddress"
    CREATE_DURABLE_QUEUE = "createDurableQueue"
    DELETE_DURABLE_QUEUE = "deleteDurableQueue"
    CREATE_NON_DURABLE_QUEUE = "createNonDurableQueue"
    DELETE_NON_DURABLE_QUEUE = "deleteNonDurableQueue"
    MANAGE = "manage"
    VIEW = "view"
    """Look at a resource of management, or call an operation of it that only reads: on `mops.<resource>.<operation>`,
    where `management-message-rbac` asks for it."""
    EDIT = "edit"
    """Call any other operation of a resource of management; the same."""
    MESH = "mesh"
    """Take over and hand over messages as a broker of a mesh; not in Artemis, where such a broker may do everything."""


class AccessControl(Protocol):
    """The rules that decide about every operation."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        """Tell whether `subject` has a permission on `address`, or on `queue` of it."""


class OpenAccess:
    """Rules that allow everything to everyone: `security-enabled=false`."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return True
