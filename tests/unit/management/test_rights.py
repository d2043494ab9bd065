"""The permissions `view` and `edit` on resources of management (artemis-model §6.1), by message."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import Denied
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.management import listing
from artemis_py.management.acceptor_control import AcceptorControl
from artemis_py.management.address_control import AddressControl
from artemis_py.management.broker_connection_control import BrokerConnectionControl
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.cluster_control import ClusterControl
from artemis_py.management.control import FLAGS, Control, Row, getter
from artemis_py.management.divert_control import DivertControl
from artemis_py.management.exchange_control import ExchangeControl
from artemis_py.management.queue_control import QueueControl
from artemis_py.management.reader_control import ReaderControl
from artemis_py.management.virtual_host_control import VirtualHostControl
from artemis_py.management.writer_control import WriterControl
from artemis_py.security.permissions import AccessRules
from tests.unit.management.world import ANYCAST, World, outcome

# In Artemis' manual (management, "Fine grained RBAC on management messages") and its default configuration.
ARTEMIS_PATTERN: Final = "^(get|is|count|list|browse|query).*$"

OURS_THAT_ONLY_LOOK: Final = {
    "showMessage": "shows what `browse` of Artemis shows, and needs the permission browse as well",
    "explainQueue": "says why messages wait; nothing of it exists in Artemis",
    "explainPublish": "says what would become of a message, and sends none",
}
"""Operations that need `view`, although Artemis' pattern makes `edit` of their names. All of them are ours."""

FOR_MANAGERS: Final[tuple[type[Control], ...]] = (
    BrokerControl,
    AddressControl,
    QueueControl,
    DivertControl,
    ExchangeControl,
    VirtualHostControl,
    AcceptorControl,
    ClusterControl,
    BrokerConnectionControl,
)
FOR_EVERYBODY: Final[tuple[type[Control], ...]] = (ReaderControl, WriterControl)

EVERYTHING: Final[Mapping[Permission, frozenset[str]]] = {
    each: frozenset(("admin",)) for each in Permission if each not in (Permission.VIEW, Permission.EDIT)
}


def granted(view: str = "", edit: str = "") -> dict[Permission, frozenset[str]]:
    """A match that grants the two permissions to roles."""
    return {Permission.VIEW: frozenset(view.split()), Permission.EDIT: frozenset(edit.split())}


def rbac_world(rules: Mapping[str, Mapping[Permission, frozenset[str]]], **options: Any) -> World:
    """A broker that asks for the permissions of management, and whose user has all others, as the role `admin`."""
    settings = BrokerSettings(management_message_rbac=True, **options)
    world = World(AccessRules({"#": EVERYTHING, **rules}, settings), options=settings, roles=["admin"])
    for name in ("orders", "secret"):
        world.domain.create_address(name, ANYCAST)
        world.services.sessions.domain.create_queue(queue_on(name))
    return world


def queue_on(name: str) -> QueueConfig:
    """A queue of the same name as its address."""
    return QueueConfig(name=name, address=name, routing_type=RoutingType.ANYCAST)


def rows_of(controls: Iterable[type[Control]]) -> list[tuple[str, Row]]:
    """The operations of resources, by name."""
    return [(name, row) for control in controls for name, row in control.operations.items()]


# The table.


@pytest.mark.parametrize(
    ("name", "row"), rows_of(FOR_MANAGERS), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_operation_needs_what_artemis_would_ask_for(name: str, row: Row) -> None:
    """So that a file with Artemis' pattern and one without it mean the same, but for operations of ours."""
    by_pattern = Permission.VIEW if re.fullmatch(ARTEMIS_PATTERN, name) else Permission.EDIT

    assert row.ways
    assert row.permission is (Permission.VIEW if name in OURS_THAT_ONLY_LOOK else by_pattern)


def test_exceptions_are_exceptions() -> None:
    names = {name for name, _ in rows_of(FOR_MANAGERS)}

    assert OURS_THAT_ONLY_LOOK.keys() <= names
    assert not [name for name in OURS_THAT_ONLY_LOOK if re.fullmatch(ARTEMIS_PATTERN, name)]


def test_operations_of_ordinary_clients_need_no_permission_to_manage() -> None:
    assert {row.permission for _, row in rows_of(FOR_EVERYBODY)} == {None}


def test_every_resource_is_in_the_table() -> None:
    """A new one is added above, or nothing looks at its permissions here."""

    def below(owner: type[Control]) -> set[type[Control]]:
        return {each for direct in owner.__subclasses__() for each in (direct, *below(direct))}

    assert below(Control) == {*FOR_MANAGERS, *FOR_EVERYBODY}


def test_getters_of_flags_begin_with_is_and_those_of_all_others_with_get() -> None:
    """Artemis asks for the permission on the method that Java has for an attribute."""
    world = World()
    world.domain.create_address("q", ANYCAST)
    world.domain.create_queue(queue_on("q"))
    world.services.diverts.create(DivertConfig(name="d", address="q", forwarding_address="other"))
    found = {}
    for resource in ("broker", "address.q", "queue.q", "divert.d", "exchange.amq.topic", "acceptor.main"):
        control = world.endpoint._resources.find(resource, world.session)
        for name in control.attributes:
            if name not in ("VirtualHostNames",):  # of the default host, which this one does not have
                found[name] = isinstance(control.read(name), bool)
    of_others = {name for each in (VirtualHostControl, ClusterControl) for name in each.attributes}

    assert {name for name, is_flag in found.items() if is_flag} == FLAGS & found.keys()
    assert found.keys() | of_others >= FLAGS
    assert (getter("paused"), getter("MessageCount")) == ("isPaused", "getMessageCount")


# What is asked for.


def test_nothing_is_asked_for_unless_it_is_switched_on() -> None:
    """management-message-rbac is false in Artemis, too: a file goes on with the rights that it gives."""
    world = World(AccessRules({"#": EVERYTHING, "mops.#": granted()}, BrokerSettings()), roles=["admin"])
    world.domain.create_address("orders", ANYCAST)

    assert world.call("broker", "getAddressNames") == sorted(["orders", world.replies.name])
    assert world.call("address.orders", "pause") is None


def test_without_any_match_everything_is_denied() -> None:
    """As for every other permission, although the user may manage."""
    world = rbac_world({"#": EVERYTHING})

    assert world.refusal("broker", "getVersion") == ("user 'admin' lacks permission 'view' on 'mops.broker.getVersion'")
    assert "lacks permission 'edit' on 'mops.broker.createAddress'" in world.refusal(
        "broker", "createAddress", "a", "ANYCAST"
    )
    assert "a" not in world.domain.addresses


def test_manage_is_needed_as_well() -> None:
    without: dict[Permission, frozenset[str]] = {**EVERYTHING, Permission.MANAGE: frozenset()}
    world = rbac_world({"#": without, "mops.#": granted("admin", "admin")})

    with pytest.raises(Exception, match="lacks permission 'manage'"):
        world.ask("broker", "getVersion")


@pytest.mark.parametrize(
    ("resource", "operation", "needed"),
    [
        ("broker", "getVersion", "view mops.broker.getVersion"),
        ("broker", "listQueues", "view mops.broker.listQueues"),
        ("queue.orders", "getMessageCount", "view mops.queue.orders.getMessageCount"),
        ("queue.orders", "isPaused", "view mops.queue.orders.isPaused"),
        ("queue.orders", "getPaused", "view mops.queue.orders.isPaused"),
        ("queue.orders::orders", "countMessages", "view mops.queue.orders.countMessages"),
        ("queue.orders", "pause", "edit mops.queue.orders.pause"),
        ("address.orders", "purge", "edit mops.address.orders.purge"),
        ("acceptor.main", "getPort", "view mops.acceptor.main.getPort"),
        ("exchange.amq.topic", "getType", "view mops.exchange.amq.topic.getType"),
    ],
)
def test_each_operation_needs_the_permission_on_its_own_name(resource: str, operation: str, needed: str) -> None:
    """With that and no other one it is done; and without it, it is not."""
    permission, name = needed.split()
    rights = {permission: "admin"}
    seen = f"mops.{'.'.join(name.split('.')[1:-1])}"
    allowed = rbac_world({name: granted(**rights)})
    denied = rbac_world({"mops.#": granted("admin", "admin"), name: granted(), seen: granted("admin")})

    assert allowed.ask(resource, operation)[0]
    assert denied.refusal(resource, operation) == f"user 'admin' lacks permission '{permission}' on '{name}'"


@pytest.mark.parametrize("attribute", ["MessageCount", "messageCount"])
def test_an_attribute_counts_as_its_getter(attribute: str) -> None:
    """Artemis' ManagementServiceImpl looks for the method."""
    rules = {"mops.queue.orders": granted("admin"), "mops.queue.orders.getMessageCount": granted("admin")}
    world = rbac_world(rules)

    assert world.read("queue.orders", attribute) == 0
    properties = {"_AMQ_ResourceName": "queue.orders", "_AMQ_Attribute": "paused"}
    assert outcome(world.reply(properties=properties)) == (
        False,
        "user 'admin' lacks permission 'view' on 'mops.queue.orders.isPaused'",
    )


def test_the_pattern_of_the_file_has_the_last_word() -> None:
    """view-permission-method-match-pattern: files that change it carry over."""
    world = rbac_world({"mops.#": granted("admin")}, view_permission_method_match_pattern="(get|pause).*")

    assert world.call("queue.orders", "pause") is None
    assert world.call("queue.orders", "getMessageCount") == 0
    assert "'edit' on 'mops.queue.orders.countMessages'" in world.refusal("queue.orders", "countMessages")
    assert "'edit' on 'mops.queue.orders.isPaused'" in world.refusal("queue.orders", "isPaused")


def test_names_begin_with_the_prefix_of_the_file() -> None:
    """management-rbac-prefix."""
    world = rbac_world({"mm.#": granted("admin")}, management_rbac_prefix="mm")

    assert world.call("queue.orders", "getMessageCount") == 0
    assert "'edit' on 'mm.queue.orders.pause'" in world.refusal("queue.orders", "pause")


def test_the_words_of_a_name_are_words_of_the_match() -> None:
    """`mops.queue.*.getID` of Artemis' manual does not cover a queue whose name has a dot."""
    rules = {"mops.queue.*.getID": granted("admin"), "mops.queue.a.b.getName": granted("admin")}
    world = rbac_world(rules)
    world.domain.create_address("a.b", ANYCAST)
    world.domain.create_queue(queue_on("a.b"))

    assert world.call("queue.orders", "getID") > 0
    assert world.call("queue.a.b", "getName") == "a.b"
    assert not world.ask("queue.a.b", "getID")[0]


def test_the_most_specific_match_counts_alone() -> None:
    """artemis-model §1.8: what it does not grant is denied, whatever broader ones grant."""
    rules = {"mops.#": granted("admin", "admin"), "mops.broker.createAddress": granted("", "nobody")}
    world = rbac_world(rules)

    assert "'mops.broker.createAddress'" in world.refusal("broker", "createAddress", "x", "ANYCAST")
    assert world.call("broker", "createQueue", "x", "x", "ANYCAST")


def test_operations_of_readers_and_writers_need_none_of_the_two() -> None:
    """They are part of the traffic of ordinary clients."""
    world = rbac_world({"mops.#": granted()})

    assert json.loads(world.call("reader", "heads", {"queues": ["orders"]}))["queues"][0]["queue"] == "orders"
    assert world.call("writer", "lastEpoch", "w") == -1


def test_permissions_on_addresses_are_needed_as_before() -> None:
    """`edit` on an operation does not replace what any client needs."""
    rules = {
        "mops.#": granted("admin", "admin"),
        "orders": {Permission.SEND: frozenset(("admin",))},
    }
    world = rbac_world(rules)

    for refused in (
        world.refusal("broker", "destroyQueue", "orders"),
        world.refusal("queue.orders", "showMessage", 1),
        world.refusal("queue.orders", "copyMessages", None, "secret"),
    ):
        assert "on queue 'orders' of 'orders'" in refused


def test_what_is_denied_is_reported() -> None:
    world = rbac_world({"mops.queue.orders": granted("admin")})
    heard: list[Any] = []
    world.domain.events.subscribe(heard.append, Denied)

    world.refusal("queue.orders", "pause")
    world.refusal("queue.secret", "pause")

    assert [(each.permission, each.address) for each in heard] == [
        (Permission.EDIT, "mops.queue.orders.pause"),
        (Permission.EDIT, "mops.queue.secret.pause"),
    ]


# What is hidden.

HIDING: Final = {
    "mops.#": granted("admin", "admin"),
    "mops.queue.secret.#": granted(),
    "mops.address.secret.#": granted(),
}


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [("pause", ()), ("getName", ()), ("nothing", ()), ("getName", (1,)), ("removeMessages", (None,))],
)
def test_what_may_not_be_viewed_is_answered_like_what_does_not_exist(operation: str, parameters: tuple[object]) -> None:
    """Also if the operation does not exist, or takes other parameters."""
    world = rbac_world(HIDING)

    hidden = world.refusal("queue.secret", operation, *parameters)
    missing = world.refusal("queue.sacred", operation, *parameters)

    assert hidden.replace("secret", "sacred") == missing == "queue 'sacred' does not exist"


def test_hidden_names_are_in_no_list_and_in_no_count() -> None:
    world = rbac_world(HIDING)
    own = world.replies.name

    queues = json.loads(world.call("broker", "listQueues", {"sortField": "name"}, 1, 10))
    addresses = json.loads(world.call("broker", "listAddresses"))

    assert (sorted(row["name"] for row in queues["data"]), queues["count"]) == (sorted(["orders", own]), 2)
    assert sorted(row["name"] for row in addresses["data"]) == sorted(["orders", own])
    assert world.call("broker", "getQueueNames") == world.call("broker", "getAddressNames") == sorted(["orders", own])
    assert world.call("broker", "getQueueNames", "ANYCAST") == sorted(["orders", own])
    for operation in ("getAddressInfo", "listBindingsForAddress"):
        assert world.refusal("broker", operation, "secret") == "address 'secret' does not exist"


def test_hidden_names_are_proposed_to_nobody() -> None:
    world = rbac_world(HIDING)

    assert world.refusal("queue.secrets", "pause") == "queue 'secrets' does not exist"
    assert world.refusal("queue.ordres", "pause") == "queue 'ordres' does not exist; did you mean orders?"
    assert world.refusal("queue.orders", "moveMessages", None, "secrets") == "queue 'secrets' does not exist"


def test_a_grant_on_one_operation_of_a_hidden_resource_is_a_grant() -> None:
    """Artemis' example for `data import`: only the ids of queues. Whatever else is asked, there is no such queue."""
    world = rbac_world({"mops.queue.*.getID": granted("admin")})

    assert world.call("queue.secret", "getID") > 0
    assert world.refusal("queue.secret", "getName") == "queue 'secret' does not exist"


def test_consumers_and_bindings_are_seen_with_what_they_belong_to() -> None:
    rules = {**HIDING, "mops.divert.hidden": granted(), "mops.exchange.amq.topic": granted()}
    world = rbac_world(rules)
    for name in ("hidden", "shown"):
        world.services.diverts.create(DivertConfig(name=name, address="orders", forwarding_address="secret"))
    for exchange in ("amq.topic", "amq.direct"):
        world.call("broker", "bindExchange", {"exchange": exchange, "key": "k", "queue": "orders"})

    def names(operation: str, column: str) -> set[str]:
        return {row[column] for row in json.loads(world.call("broker", operation))["data"]}

    assert names("listDiverts", "name") == {"shown"}
    assert set(world.call("broker", "listDivertNames")) == {"shown"}
    assert names("listExchangeBindings", "exchange") == {"amq.direct"}
    assert "amq.topic" not in names("listExchanges", "name")
    assert "amq.topic" not in world.call("broker", "listExchangeNames")
    bound = world.call("broker", "listBindingsForAddress", "orders")
    assert ("Divert [name=shown" in bound, "hidden" in bound) == (True, False)


def test_a_list_of_everything_that_may_be_viewed_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision for each match, and none for each row: here no match tells queues apart."""
    world = rbac_world({"mops.#": granted("admin"), "mops.queue.#": granted("admin")})
    for number in range(50):
        world.domain.create_address(f"a{number}", ANYCAST)
        world.domain.create_queue(queue_on(f"a{number}"))
    looked: list[str] = []
    rules = world.domain.access
    assert isinstance(rules, AccessRules)
    search = rules._rules._search

    def noted(name: str) -> object:
        looked.append(name)
        return search(name)

    monkeypatch.setattr(rules._rules, "_search", noted)

    assert json.loads(world.call("broker", "listQueues"))["count"] == 53
    assert len([name for name in looked if name.startswith("mops.queue.")]) == 1


def test_permissions_on_rows_are_looked_for_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SLICE_CHECKED_ITEMS", 10)
    world = rbac_world(HIDING)
    for number in range(30):
        world.domain.create_address(f"a{number}", ANYCAST)
        world.domain.create_queue(queue_on(f"a{number}"))
    steps: Any = world.endpoint._resources.find("broker", world.session).invoke("listQueues", [])
    slices = 1
    while True:
        try:
            next(steps)
            slices += 1
        except StopIteration as end:
            found = json.loads(end.value)
            break

    assert (found["count"], slices) == (32, 5)
