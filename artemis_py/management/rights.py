"""Who may look at what in management, and who may change it: the permissions `view` and `edit` (artemis-model §6.1).

With `management-message-rbac`, an operation O of a resource T.N needs one of them on `mops.T.N.O`, in addition to
`manage`; reading an attribute counts as its getter, `getName` or `isName`. `view` on `mops.T.N` itself means that there
is such a resource: it is in lists, and refusals may speak of it. Every door comes here: messages, HTTP and Jolokia.
"""

import re
from collections.abc import Callable
from typing import Final

from artemis_py.core.runtime.access import Permission
from artemis_py.core.sessions.session import Session
from artemis_py.security.permissions import AccessRules


class Rights:
    """What the client of one session may do with the resources of its domain."""

    def __init__(self, session: Session) -> None:
        options = session.domain.options
        self._session: Final = session
        self._prefix: Final = options.management_rbac_prefix
        self._pattern: Final = options.view_permission_method_match_pattern
        self.are_checked: Final = options.management_message_rbac and session.is_checked
        """Whether these permissions are asked for at all."""

    def needed(self, name: str, declared: Permission) -> Permission:
        """Return which of the two an operation or getter needs; the pattern of broker.xml has the last word."""
        if self._pattern is None:
            return declared
        return Permission.VIEW if re.fullmatch(self._pattern, name) else Permission.EDIT

    def name_of(self, resource: str, name: str) -> str:
        """Return the name on which the permission for an operation or getter is granted."""
        return f"{self._prefix}.{resource}.{name}"

    def may(self, resource: str, name: str, declared: Permission) -> bool:
        """Tell whether the client may call an operation or getter of a resource."""
        return not self.are_checked or self._has(self.needed(name, declared), self.name_of(resource, name))

    def check(self, resource: str, name: str, declared: Permission) -> None:
        """Raise NotAuthorized, and report it, if the client may not call an operation or getter of a resource."""
        self._session.check(self.needed(name, declared), self.name_of(resource, name))

    def report(self, resource: str, name: str, declared: Permission) -> None:
        """Report that the client was denied an operation or getter of a resource that it is not told about."""
        self._session.denied(self.needed(name, declared), self.name_of(resource, name))

    def sees(self, kind: str, name: str) -> bool:
        """Tell whether the client may know that there is a resource of this kind and name."""
        return not self.are_checked or self._has(Permission.VIEW, f"{self._prefix}.{kind}.{name}")

    def _has(self, permission: Permission, name: str) -> bool:
        access = self._session.domain.access
        if isinstance(access, AccessRules):
            return access.allows_operation(self._session.subject, permission, name)
        return self._session.may(permission, name)

    def seen(self, kind: str) -> Callable[[str], bool] | None:
        """Return what tells by their names which resources of a kind the client may know of; None if it may all."""
        if not self.are_checked:
            return None
        access = self._session.domain.access
        if not isinstance(access, AccessRules):
            return lambda name: self.sees(kind, name)
        found = access.below(self._session.subject, Permission.VIEW, f"{self._prefix}.{kind}")
        if found is True:
            return None
        return found if callable(found) else lambda name: False
