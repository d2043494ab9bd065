"""Diverts by management: Artemis' operations and attributes, what is refused, and what is kept."""

import json
from typing import Any

import pytest

from artemis_py.core.routing.divert import Divert, create_divert
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.divert_config import DivertConfig, TransformerConfig
from artemis_py.store.memory import MemoryStore
from artemis_py.transformers.installed import installed_transformers
from tests.core_harness import make_queue
from tests.unit.management.world import ANYCAST, Rules, World

ADD = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"


class Records(MemoryStore):
    """A store that keeps records, as a durable one does."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[tuple[str, bytes], bytes] = {}

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.records.pop((space, key), None)
        else:
            self.records[space, key] = value

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        return sorted((key, value) for (owner, key), value in self.records.items() if owner == space)


def made(storage: MemoryStore | None = None) -> World:
    """A broker with queues `a`, `b`, `c`."""
    world = World(storage=storage)
    world.domain.transformers = installed_transformers()
    for name in "abc":
        make_queue(world.domain, name)
    return world


def configs(world: World) -> list[DivertConfig]:
    return [each.config for each in world.domain.others.values() if isinstance(each, Divert)]


FULL = DivertConfig(
    name="d",
    routing_name="r",
    address="a",
    forwarding_address="b,c",
    exclusive=True,
    filter="x = 1",
    transformer=TransformerConfig("add-properties", (("k", "v"),)),
)


@pytest.mark.parametrize(
    "parameters",
    [
        ["d", "r", "a", "b,c", True, "x = 1", ADD, {"k": "v"}, "STRIP"],
        ["d", "r", "a", "b,c", True, "x = 1", ADD, '{"k": "v"}', None],
        [
            {
                "name": "d",
                "routing-name": "r",
                "address": "a",
                "forwarding-address": "b,c",
                "exclusive": True,
                "filter-string": "x = 1",
                "transformer-configuration": {"class-name": "add-properties", "properties": {"k": "v"}},
                "routing-type": "strip",
            }
        ],
        [json.dumps({"name": "d", "address": "a", "forwarding-address": "b,c", "exclusive": True} | {
            "routing-name": "r", "filter-string": "x = 1",
            "transformer-configuration": {"class-name": ADD, "properties": {"k": "v"}},
        })],
    ],
)  # fmt: skip
def test_a_divert_is_created_in_any_of_artemis_forms(parameters: list[Any]) -> None:
    world = made()

    row = json.loads(world.call("broker", "createDivert", *parameters))

    assert configs(world) == [FULL]
    assert (row["name"], row["transformerClassName"], row["managed"]) == ("d", "add-properties", True)


def test_the_short_forms_have_defaults() -> None:
    world = made()
    world.call("broker", "createDivert", "seven", None, "a", "b", False, "", None)
    world.call("broker", "createDivert", "eight", "", "a", "b", False, None, "", "PASS")
    world.call("broker", "createDivert", {"name": "json", "address": "a", "forwarding-address": "b"})

    seven, eight, from_json = configs(world)
    plain = DivertConfig(name="seven", address="a", forwarding_address="b")
    assert seven == plain
    assert (eight.routing_type.name, eight.routing_name, eight.transformer) == ("PASS", None, None)
    assert from_json.filter is None
    assert world.call("broker", "listDivertNames") == ["eight", "json", "seven"]
    assert world.read("broker", "DivertNames") == ["eight", "json", "seven"]


def test_a_divert_can_be_looked_at() -> None:
    world = made()
    world.call("broker", "createDivert", "d", "r", "a", "b,c", True, "x = 1", ADD, {"k": "v"}, "STRIP")
    world.publish("a", 2, x=1)

    names = ("UniqueName", "RoutingName", "Address", "ForwardingAddress", "Filter", "Exclusive", "RoutingType")
    assert [world.read("divert.d", name) for name in names] == ["d", "r", "a", "b,c", "x = 1", True, "STRIP"]
    assert world.call("divert.d", "getTransformerClassName") == "add-properties"
    assert world.read("divert.d", "TransformerProperties") == {"k": "v"}
    assert json.loads(world.read("divert.d", "TransformerPropertiesAsJSON")) == {"k": "v"}
    assert world.call("divert.d", "isRetroactiveResource") is False
    assert world.read("divert.d", "MessagesDiverted") == 4
    assert world.read("divert.d", "LastTime") == world.domain.dispatcher.now_ms
    lines = world.call("broker", "listBindingsForAddress", "a").splitlines()
    assert lines[1] == "Divert [name=d, forwardingAddress=b,c, exclusive=True, filter=x = 1]"
    listed = json.loads(world.call("broker", "listDiverts", {"field": "address", "value": "a"}))
    assert [row["copies"] for row in listed["data"]] == [4]


def test_a_divert_of_the_broker_itself_shows_as_retroactive() -> None:
    world = made()
    create_divert(
        world.domain, DivertConfig(name="$.artemis.internal.a.divert.retro", address="a", forwarding_address="b")
    )

    assert world.read("divert.$.artemis.internal.a.divert.retro", "RetroactiveResource") is True


def test_members_that_are_not_named_stay() -> None:
    world = made()
    world.call("broker", "createDivert", "d", "r", "a", "b,c", True, "x = 1", ADD, {"k": "v"}, "STRIP")

    world.call("broker", "updateDivert", {"name": "d", "forwarding-address": "b", "filter-string": None})
    (changed,) = configs(world)
    assert (changed.forwarding_address, changed.filter, changed.exclusive) == ("b", None, True)
    assert changed.transformer == FULL.transformer

    world.call("broker", "updateDivert", {"name": "d", "transformer-configuration": None, "address": "new"})
    (changed,) = configs(world)
    assert (changed.transformer, changed.address, changed.routing_name) == (None, "new", "r")
    assert world.domain.addresses["a"].bindings == [world.domain.queues["a"]]


def test_the_long_form_of_an_update_sets_all_of_its_parameters() -> None:
    world = made()
    world.call("broker", "createDivert", "d", "r", "a", "b,c", True, "x = 1", ADD, {"k": "v"}, "STRIP")

    world.call("broker", "updateDivert", "d", "c", None, None, None, "ANYCAST")

    (changed,) = configs(world)
    assert (changed.forwarding_address, changed.filter, changed.transformer) == ("c", None, None)
    assert (changed.routing_type.name, changed.exclusive, changed.routing_name) == ("ANYCAST", True, "r")


def test_a_circle_is_named_when_it_is_made() -> None:
    """Whoever made it is told; the diverts work, and a message goes through each once."""
    world = made()
    first = json.loads(world.call("broker", "createDivert", WAY | {"name": "there"}))
    back = json.loads(
        world.call("broker", "createDivert", WAY | {"name": "back", "address": "b"} | {"forwarding-address": "a"})
    )
    mended = json.loads(world.call("broker", "updateDivert", {"name": "back", "forwarding-address": "c"}))

    assert (first["circle"], back["circle"], mended["circle"]) == (None, ["back", "there", "back"], None)


def test_a_divert_is_destroyed() -> None:
    world = made()
    world.call("broker", "createDivert", {"name": "d", "address": "a", "forwarding-address": "b"})
    world.call("broker", "destroyDivert", "d")

    assert configs(world) == []
    assert world.refusal("broker", "destroyDivert", "d") == "divert 'd' does not exist"
    assert world.refusal("divert.d", "getAddress") == "divert 'd' does not exist"


WAY = {"name": "d", "address": "a", "forwarding-address": "b"}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"name": "d", "address": "a"}, "a divert needs a value for 'forwarding-address'"),
        (WAY | {"name": ""}, "a divert needs a value for 'name'"),
        (WAY | {"forwarding-address": " , "}, "divert 'd' needs a forwarding address"),
        (WAY | {"forwarding-address": "b::b"}, "may not contain '::'"),
        (WAY | {"address": "x::y"}, "may not contain '::'"),
        (WAY | {"exclusive": "yes"}, "member 'exclusive' must be true or false"),
        (WAY | {"forwardingAddress": "b"}, "no member 'forwardingAddress'; did you mean forwarding-address?"),
        (WAY | {"filter-string": "x ="}, "selector, character"),
        (WAY | {"routing-type": "BOTH"}, "for a divert it is PASS or STRIP or ANYCAST or MULTICAST"),
        (WAY | {"name": "a"}, "queue 'a' exists already"),
        (
            WAY | {"transformer-configuration": {"class-name": "os.system"}},
            "'os.system' is not installed; there is add",
        ),
        (WAY | {"transformer-configuration": {"properties": {}}}, "has a class-name and perhaps properties"),
        (WAY | {"transformer-configuration": {"class-name": "a", "x": 1}}, "and nothing else"),
        (
            WAY | {"transformer-configuration": {"class-name": "set-priority", "properties": {"priority": 3}}},
            "must be a JSON object of texts",
        ),
        (
            WAY | {"transformer-configuration": {"class-name": "set-priority", "properties": {}}},
            "'set-priority': needs a property 'priority'",
        ),
    ],
)
@pytest.mark.parametrize("address", ["a", "new"])
def test_what_is_refused_changes_nothing(wanted: dict[str, Any], text: str, address: str) -> None:
    """Not even the address that the divert would have been the first to name."""
    storage = Records()
    world = made(storage)
    asked = wanted | ({"address": address} if wanted.get("address") == "a" else {})
    before = set(world.domain.addresses)

    assert text in world.refusal("broker", "createDivert", asked)

    assert (configs(world), set(world.domain.addresses), storage.records) == ([], before, {})


def test_an_update_needs_a_divert_and_is_refused_as_a_whole() -> None:
    world = made()
    world.call("broker", "createDivert", WAY)

    assert world.refusal("broker", "updateDivert", {"forwarding-address": "c"}) == (
        "updateDivert needs the name of the divert"
    )
    assert world.refusal("broker", "updateDivert", {"name": "D"}) == "divert 'D' does not exist; did you mean d?"
    assert "selector" in world.refusal(
        "broker", "updateDivert", {"name": "d", "address": "new", "filter-string": "x ="}
    )

    assert configs(world) == [DivertConfig(name="d", address="a", forwarding_address="b")]
    assert "new" not in world.domain.addresses


def test_an_address_is_created_with_the_rights_of_the_client() -> None:
    world = World(access=Rules((Permission.CREATE_ADDRESS, "secret")))
    world.domain.create_address("b", ANYCAST)

    assert "createAddress" in world.refusal("broker", "createDivert", WAY | {"address": "secret"})
    world.call("broker", "createDivert", WAY | {"address": "open"})

    assert "secret" not in world.domain.addresses
    assert not world.domain.addresses["open"].auto_created


# What is kept.


def test_what_an_administrator_made_is_there_after_a_restart() -> None:
    storage = Records()
    first = made(storage)
    long_name = "n" * 1000
    first.call("broker", "createDivert", "d", "r", "a", "b,c", True, "x = 1", ADD, {"k": "v"}, "STRIP")
    first.call("broker", "createDivert", WAY | {"name": long_name})
    first.call("broker", "createDivert", WAY | {"name": "gone"})
    first.call("broker", "createDivert", WAY | {"name": "gone with its address", "address": "new"})
    first.call("broker", "updateDivert", {"name": long_name, "address": "b", "forwarding-address": "c"})
    first.call("broker", "destroyDivert", "gone")
    first.domain.delete_address("new", force=True)

    second = made(storage)
    assert second.services.diverts.restore() == []

    moved = DivertConfig(name=long_name, address="b", forwarding_address="c")
    assert sorted(configs(second), key=lambda config: config.name) == [FULL, moved]
    second.call("broker", "destroyDivert", "d")
    third = made(storage)
    third.services.diverts.restore()
    assert configs(third) == [moved]


def test_a_stored_divert_that_cannot_be_made_is_named_and_stays_stored() -> None:
    """Another binding has its name now; or it was written by a later release."""
    storage = Records()
    first = made(storage)
    first.call("broker", "createDivert", WAY)
    storage.records["diverts", b"later"] = b'{"name": "later"}'
    storage.records["diverts", b"odd"] = b"[]"
    before = dict(storage.records)
    second = made(storage)
    make_queue(second.domain, "d", address="a")

    problems = second.services.diverts.restore()

    assert len(problems) == 3
    assert problems[0].startswith("divert d: queue 'd' exists already")
    assert storage.records == before


def test_a_divert_that_code_made_is_changed_and_not_kept() -> None:
    """As one of broker.xml: the next start makes it again."""
    storage = Records()
    world = made(storage)
    create_divert(world.domain, DivertConfig(name="d", address="a", forwarding_address="b"))

    world.call("broker", "updateDivert", {"name": "d", "forwarding-address": "c"})

    assert configs(world) == [DivertConfig(name="d", address="a", forwarding_address="c")]
    assert world.read("divert.d", "Managed") is False
    assert storage.records == {}
