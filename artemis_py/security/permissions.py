"""Permissions of roles on addresses: the `<security-settings>` of broker.xml (artemis-model §6.3)."""

from collections.abc import Callable, Mapping
from typing import Final

from artemis_py.core.names.syntax import ESCAPE, FQQN_SEPARATOR, MatchHierarchy
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.settings.broker_settings import BrokerSettings

MESH_ROLE: Final = "mesh"
"""Role that has the permission mesh on addresses whose match does not name that permission (mesh §4.18)."""

Grants = Mapping[Permission, frozenset[str]]
"""Roles that have each permission; no role has a permission that is missing here."""


class AccessRules:
    """Permissions of roles under address matches; fulfils `AccessControl`.

    Only the most specific match counts, and what it does not grant is denied: a broader match adds nothing. A match
    of a queue's full name `address::queue` comes before those of its address. If no match applies, all is denied. The
    permission mesh is the exception: it is younger than most files, and a role of its own has it where none is named.
    """

    def __init__(self, rules: Mapping[str, Grants], options: BrokerSettings) -> None:
        """Create it from the grants of each match. Raises InvalidRequest for a match that is not legal."""
        self._options: Final = options
        self._rules: Final[MatchHierarchy[Grants]] = MatchHierarchy(options.wildcards, options.literal_match_markers)
        for match, grants in rules.items():
            self._rules.add(match, grants)

    def put(self, match: str, grants: Grants) -> None:
        """Add or replace a match; `revocation.apply_rules` applies it to open sessions. Raises InvalidRequest."""
        self._rules.put(match, grants)

    def remove(self, match: str) -> None:
        """Remove a match, if it exists; see `put`."""
        self._rules.remove(match)

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        """Tell whether one of the subject's roles has the permission on `address`, or on `queue` at that address."""
        name = address if queue is None else f"{address}{FQQN_SEPARATOR}{queue}"
        grants = self._rules.best(self._options.name_in_matches(name))
        if permission is Permission.MESH and (grants is None or permission not in grants):
            return MESH_ROLE in subject.roles
        return _grants(grants, subject, permission)

    def allows_operation(self, subject: Subject, permission: Permission, name: str) -> bool:
        """Tell whether the subject has a permission of management on the name of an operation or resource.

        The result is as that of `allows`. It is not kept: there are more such names than are worth keeping results for.
        """
        return _grants(self._rules.best_of_many(name), subject, permission)

    def below(self, subject: Subject, permission: Permission, name: str) -> bool | Callable[[str], bool]:
        """Return whether the subject has a permission of management on all `<name>.<other>`, or what tells it of each.

        It is decided once for all names that no match tells apart, and for the others once for each match.
        """
        # Names of resources are joined by dots, whatever separates the words of addresses.
        has_words = self._options.wildcards.delimiter == "."
        words = self._rules.words_told_apart(name) if has_words else None
        usual = False
        if words is not None:
            other_word = "x" * (1 + max(map(len, words), default=0))
            usual = _grants(self._rules.best_of_many(f"{name}.{other_word}"), subject, permission)
            if not words:
                return usual
        # With the grants themselves, so that none of them gives its identity to others.
        decided: dict[int, tuple[Grants | None, bool]] = {}

        def allows(other: str) -> bool:
            is_plain = ESCAPE not in other and FQQN_SEPARATOR not in other
            if words is not None and is_plain and other.partition(".")[0] not in words:
                return usual
            grants = self._rules.best_of_many(f"{name}.{other}")
            found = decided.get(id(grants))
            if found is None:
                found = decided[id(grants)] = grants, _grants(grants, subject, permission)
            return found[1]

        return allows


def _grants(grants: Grants | None, subject: Subject, permission: Permission) -> bool:
    return grants is not None and not subject.roles.isdisjoint(grants.get(permission, frozenset()))
