"""Who asks, and what they may ask for; `security/` decides, the session asks at every operation."""

from enum import Enum
from typing import Protocol

from attrs import frozen


@frozen
class Subject:
    """An authenticated peer."""

    user: str | None
    """None is the anonymous user."""
    roles: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The user as the log and error texts show it."""
        return "anonymous" if self.user is None else self.user


class Permission(Enum):
    """What a `<permission type>` of broker.xml can grant (artemis-model §6.3)."""

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


class AccessControl(Protocol):
    """The rule book."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        """Whether `subject` may do this on `address`, or on `queue` of it."""


class OpenAccess:
    """Everybody may do everything: `security-enabled=false`."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return True
