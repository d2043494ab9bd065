"""Permissions under address matches (artemis-model §6.3, §1.5, §1.8)."""

import pytest

from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.runtime.access import OpenAccess, Permission, Subject
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import InvalidRequest
from artemis_py.security.permissions import AccessRules

APP = Subject("ann", frozenset(["app"]))
OPS = Subject("bob", frozenset(["ops", "staff"]))
NOBODY = Subject(None)


def rules(*, uuid_namespace: str | None = None, markers: str | None = None) -> AccessRules:
    return AccessRules(
        {
            "#": {Permission.SEND: frozenset(["ops"]), Permission.CONSUME: frozenset(["ops"])},
            "orders.#": {Permission.SEND: frozenset(["app", "ops"])},
            "orders.eu": {Permission.CONSUME: frozenset(["app"])},
            "orders.eu::audit": {Permission.CONSUME: frozenset(["ops"])},
            "orders.eu::*": {Permission.CONSUME: frozenset(["anybody"])},
            "temp.#": {Permission.CONSUME: frozenset(["app"])},
            "(orders.#)": {Permission.CONSUME: frozenset(["staff"])},
        },
        BrokerSettings(uuid_namespace=uuid_namespace, literal_match_markers=markers),
    )


@pytest.mark.parametrize(
    ("subject", "permission", "address", "queue", "allowed"),
    [
        (OPS, Permission.SEND, "anything", None, True),
        (APP, Permission.SEND, "anything", None, False),
        (NOBODY, Permission.SEND, "anything", None, False),
        (APP, Permission.SEND, "orders", None, True),
        (APP, Permission.SEND, "orders.us", None, True),
        (OPS, Permission.CONSUME, "orders.us", None, False),
        (APP, Permission.SEND, "orders.eu", None, False),
        (APP, Permission.CONSUME, "orders.eu", None, True),
        (APP, Permission.CONSUME, "orders.eu", "q", True),
        (APP, Permission.CONSUME, "orders.eu", "audit", False),
        (OPS, Permission.CONSUME, "orders.eu", "audit", True),
        (OPS, Permission.SEND, "orders.eu", "audit", False),
        (OPS, Permission.MANAGE, "anything", None, False),
    ],
)
def test_only_the_most_specific_match_counts(
    subject: Subject, permission: Permission, address: str, queue: str | None, allowed: bool
) -> None:
    """artemis-model §6.3: not merged, what a match does not list it denies; artemis-model §1.5: exact `address::queue`
    first.
    """
    assert rules().allows(subject, permission, address, queue) is allowed


def test_names_of_clients_never_widen_a_rule() -> None:
    """reliability §5.8: wildcards and `::` in an address or queue name are plain text to the rules."""
    for name in ["*", "#", "orders.*", "orders.#", "(orders.#)", "x::orders.eu"]:
        assert not rules().allows(APP, Permission.CONSUME, name)
        assert not rules().allows(APP, Permission.CONSUME, "x", name)
    assert not rules().allows(Subject("x", frozenset(["anybody"])), Permission.CONSUME, "orders.eu", "q")


def test_without_a_match_nothing_is_allowed() -> None:
    """Deny by default; `security-enabled=false` is the explicit opposite."""
    empty = AccessRules({}, BrokerSettings())

    assert not any(empty.allows(OPS, permission, "a") for permission in Permission)
    assert all(OpenAccess().allows(NOBODY, permission, "a") for permission in Permission)


def test_made_up_names_are_looked_up_below_the_namespace() -> None:
    """artemis-model §1.8, uuid-namespace; and only if it is set."""
    made_up = "2f2b7b6e-3f0a-4d55-9d5f-0d7b0f7c2a11"

    assert rules(uuid_namespace="temp").allows(APP, Permission.CONSUME, made_up)
    assert rules(uuid_namespace="temp").allows(APP, Permission.CONSUME, made_up, made_up)
    assert not rules().allows(APP, Permission.CONSUME, made_up)
    assert not rules(uuid_namespace="temp").allows(APP, Permission.CONSUME, "x")


def test_literal_match_covers_the_address_of_that_name() -> None:
    """artemis-model §1.9."""
    assert rules(markers="()").allows(OPS, Permission.CONSUME, "orders.#")
    assert not rules(markers="()").allows(OPS, Permission.CONSUME, "orders.us")
    assert not rules().allows(OPS, Permission.CONSUME, "orders.#")


def test_rules_follow_the_wildcard_syntax_and_refuse_illegal_matches() -> None:
    """artemis-model §1.7, §1.8."""
    options = BrokerSettings(wildcards=WildcardSyntax("/", ">", "+"))
    found = AccessRules({"a/>": {Permission.SEND: frozenset(["app"])}}, options)

    assert found.allows(APP, Permission.SEND, "a/b/c")
    with pytest.raises(InvalidRequest, match="last word"):
        AccessRules({"a/>/b": {}}, options)


MEMBER = Subject("mesh", frozenset(["mesh"]))
BROKER = Subject("node", frozenset(["brokers"]))


@pytest.mark.parametrize(
    ("subject", "address", "allowed"),
    [
        (MEMBER, "orders", True),
        (MEMBER, "nowhere.else", True),
        (OPS, "orders", False),
        (NOBODY, "orders", False),
        (MEMBER, "private.x", False),
        (BROKER, "private.x", True),
        (BROKER, "orders", False),
        (MEMBER, "closed", False),
    ],
)
def test_a_role_of_its_own_shares_what_no_match_speaks_of(subject: Subject, address: str, allowed: bool) -> None:
    """mesh §4.18: a file made before there was a mesh opens nothing to anyone but this role."""
    permissions = AccessRules(
        {
            "#": {Permission.SEND: frozenset(["ops"]), Permission.MANAGE: frozenset(["ops"])},
            "private.#": {Permission.MESH: frozenset(["brokers"])},
            "closed": {Permission.MESH: frozenset()},
        },
        BrokerSettings(),
    )

    assert permissions.allows(subject, Permission.MESH, address) == allowed


@pytest.mark.parametrize("permission", [each for each in Permission if each is not Permission.MESH])
def test_a_broker_of_the_mesh_has_no_other_right(permission: Permission) -> None:
    """Artemis' cluster user may do everything (C48)."""
    assert not rules().allows(MEMBER, permission, "orders")
    assert not AccessRules({}, BrokerSettings()).allows(MEMBER, permission, "orders")


MANAGEMENT = {
    "mops.#": {Permission.VIEW: frozenset(["ops", "app"])},
    "mops.queue.#": {Permission.VIEW: frozenset(["ops"])},
    "mops.address.*": {Permission.VIEW: frozenset(["app"])},
    "mops.divert.d.x": {Permission.EDIT: frozenset(["app"])},
    "*.broker.#": {Permission.VIEW: frozenset(["app"])},
    "(mops.acceptor.a)": {Permission.VIEW: frozenset(["ops"])},
}


@pytest.mark.parametrize("subject", [APP, OPS, NOBODY])
@pytest.mark.parametrize(
    ("name", "is_decided"),
    [
        ("mops.queue", True),
        ("mops.queue.a", True),
        ("mops.broker", True),
        ("mops.cluster", True),
        ("mops.address", False),
        ("mops.address.a", True),
        ("mops.divert", False),
        ("mops.divert.d", False),
        ("mops.divert.d.x", True),
        ("mops.acceptor", False),
        ("mops", False),
        ("other", False),
        ("other.queue", True),
    ],
)
def test_what_is_below_a_name_is_decided_at_once_or_for_each_match(
    subject: Subject, name: str, is_decided: bool
) -> None:
    """The decision is the one for each name."""
    permissions = AccessRules(MANAGEMENT, BrokerSettings(literal_match_markers="()"))

    below = permissions.below(subject, Permission.VIEW, name)

    assert isinstance(below, bool) is is_decided
    for other in ("a", "x", "xx", "a.b", "", "queue.a", "#", "*", "a::b", "::a", "d.x", "d", "broker.x", "d\\.x"):
        found = below(other) if callable(below) else below
        assert found is permissions.allows(subject, Permission.VIEW, f"{name}.{other}"), other
        assert found is permissions.allows_operation(subject, Permission.VIEW, f"{name}.{other}"), other


def test_with_another_delimiter_each_name_is_looked_for() -> None:
    """Names of resources have dots then, which separate nothing."""
    settings = BrokerSettings(wildcards=WildcardSyntax(delimiter="/"))
    permissions = AccessRules({"mops.queue.a": {Permission.VIEW: frozenset(["ops"])}}, settings)

    below = permissions.below(OPS, Permission.VIEW, "mops.queue")

    assert callable(below)
    assert (below("a"), below("b")) == (True, False)


def test_names_of_management_take_no_place_among_results_that_are_kept() -> None:
    """There are as many as queues times attributes; each is asked for once."""
    permissions = AccessRules(MANAGEMENT, BrokerSettings())

    permissions.allows_operation(OPS, Permission.VIEW, "mops.queue.a.getName")
    permissions.allows(OPS, Permission.SEND, "orders")

    assert list(permissions._rules._cache) == ["orders"]
