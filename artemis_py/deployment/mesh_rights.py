"""What other brokers may share, by the permission `mesh` on each address; see docs/mesh.md."""

from typing import Final

from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission, Subject

RIGHTS_MS: Final = 10_000
"""Milliseconds for which an answer about a permission is used again: each message of a mesh asks for it."""
MOST_RIGHTS: Final = 10_000
"""Answers that are kept for one broker."""


class MeshRights:
    """What another broker may share, as the permissions are now or were some seconds ago."""

    def __init__(self, domain: Domain, subject: Subject) -> None:
        self._domain: Final = domain
        self._subject: Final = subject
        self._known: Final[dict[str, bool]] = {}
        self._since_ms = 0

    def may_share(self, address: str) -> bool:
        """Tell whether the broker has the permission mesh on an address."""
        domain = self._domain
        steady_ms = domain.dispatcher.steady_ms
        if steady_ms - self._since_ms >= RIGHTS_MS or len(self._known) >= MOST_RIGHTS:
            self._known.clear()
            self._since_ms = steady_ms
        known = self._known.get(address)
        if known is None:
            subject = domain.subject_now(self._subject)
            known = self._known[address] = domain.access.allows(subject, Permission.MESH, address)
        return known
