"""One declaration makes an attribute of queues known to every part that has to know it (docs/configuration.md)."""

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from artemis_py.cli.queue import create, update
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS, AddressSettings, merge
from artemis_py.core.settings.declaration import Kind
from artemis_py.core.settings.queue_config import QUEUE_ATTRIBUTES, QueueConfig
from artemis_py.core.settings.queue_settings import (
    RESOLVED_ATTRIBUTES,
    Mutability,
    Place,
    QueueAttribute,
    queue_attribute,
    queue_attributes_of,
)
from artemis_py.errors import InvalidRequest
from artemis_py.management.queue_attributes import ATTRIBUTES, COLUMNS, value_of
from artemis_py.store.definitions import QueueRecord, read_queue, write_queue
from tests.core_harness import make_domain, make_queue
from tests.unit.config.samples import QUEUE, content, read
from tests.unit.config.test_documentation import help_of
from tests.unit.management.world import World

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SETTINGS: Final = REPOSITORY / "artemis_py" / "core" / "settings"
MANAGED: Final = list(ATTRIBUTES.values())
CHANGED: Final = [each for each in MANAGED if each.json != "name"]


def named(attribute: QueueAttribute) -> str:
    """For the names of the tests."""
    return attribute.name


def other(attribute: QueueAttribute) -> Any:
    """A value in JSON that is not the default."""
    match attribute.kind:
        case Kind.BOOLEAN:
            return attribute.default is not True
        case Kind.TEXT:
            return "a = 1" if attribute.attribute == "filter" else "other"
        case Kind():
            return 17
        case kind:
            return [name for name, member in kind.__members__.items() if member is not attribute.default][-1]


def in_field(attribute: QueueAttribute, value: Any) -> Any:
    """A value in JSON as the field of a configuration has it."""
    return value if isinstance(attribute.kind, Kind) else attribute.kind[value]


def in_xml(attribute: QueueAttribute) -> str:
    """A broker.xml in which a queue has that value."""
    value = other(attribute)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    address, name, attributes, child = "a", "q", "", ""
    match attribute.place, attribute.attribute:
        case Place.ATTRIBUTE, _:
            attributes = f' {attribute.name}="{text}"'
        case Place.ELEMENT, _:
            child = f"<{attribute.name}>{text}</{attribute.name}>"
        case _, "filter":
            child = f'<filter string="{text}"/>'
        case _, "name":
            name = text
        case _, "address":
            address = text
    queue = f'<queue name="{name}"{attributes}>{child}</queue>'
    return f'<addresses><address name="{address}"><anycast>{queue}</anycast></address></addresses>'


@pytest.mark.parametrize("attribute", [each for each in QUEUE_ATTRIBUTES if each.place is not Place.NOWHERE], ids=named)
def test_broker_xml_can_say_it(attribute: QueueAttribute) -> None:
    """In its schema, and read from it."""
    (address,) = read(in_xml(attribute)).addresses
    value = getattr(address.queues[0], attribute.attribute)

    assert value == in_field(attribute, other(attribute))
    if attribute.place is Place.ATTRIBUTE:
        assert attribute.name in content(QUEUE).attributes
    if attribute.place is Place.ELEMENT:
        assert attribute.name in content(QUEUE).children


def test_what_broker_xml_cannot_say_is_written_down_here() -> None:
    """As in Artemis (artemis-model §2.2, XML syntax): queues of the file are never deleted on their own."""
    nowhere = {each.name for each in QUEUE_ATTRIBUTES if each.place is Place.NOWHERE}

    assert nowhere == {"configuration-managed", "auto-delete", "auto-delete-delay", "auto-delete-message-count"}


def test_what_management_does_not_know_is_written_down_here() -> None:
    assert {each.name for each in QUEUE_ATTRIBUTES if each.json is None} == {"configuration-managed"}


@pytest.mark.parametrize("attribute", MANAGED, ids=named)
def test_management_creates_a_queue_with_it_and_shows_it(attribute: QueueAttribute) -> None:
    """In the JSON of createQueue, as an attribute of the queue, and in the list of queues."""
    world = World()
    assert attribute.json is not None

    created = json.loads(world.call("broker", "createQueue", {"name": "q", attribute.json: other(attribute)}))
    name = created["name"]
    columns = dict(zip(ATTRIBUTES, COLUMNS, strict=True))

    assert created[columns[attribute.json]] == other(attribute)
    assert world.read(f"queue.{name}", attribute.shown) == other(attribute)


@pytest.mark.parametrize("attribute", CHANGED, ids=named)
def test_management_changes_it_if_it_is_for_everybody(attribute: QueueAttribute) -> None:
    """The list of what may change and the declarations are one."""
    world = World()
    world.call("broker", "createAddress", "q", ["ANYCAST", "MULTICAST"])
    world.call("broker", "createQueue", {"name": "q"})
    wanted = {"name": "q", attribute.json: other(attribute)}

    if attribute.mutability is Mutability.EVERYBODY:
        world.call("broker", "updateQueue", wanted)
        assert world.read("queue.q", attribute.shown) == other(attribute)
    else:
        assert "cannot be changed" in world.refusal("broker", "updateQueue", wanted)


def test_clients_cannot_change_when_a_queue_is_deleted_and_the_broker_can() -> None:
    """artemis-model §2.2 does not call the auto-delete attributes mutable; leases turn auto-delete off."""
    only_broker = {each.name for each in QUEUE_ATTRIBUTES if each.mutability is Mutability.BROKER}
    domain = make_domain()
    make_queue(domain, auto_delete=True)

    queue = domain.update_queue("q", {"auto_delete": False})

    assert not queue.settings.auto_delete
    assert only_broker == {
        "auto-delete",
        "auto-delete-delay",
        "auto-delete-message-count",
        "configuration-managed",
    }


def test_what_is_fixed_can_be_changed_by_nobody() -> None:
    """artemis-model §2.2."""
    fixed = [each for each in QUEUE_ATTRIBUTES if each.mutability is Mutability.FIXED]
    domain = make_domain()
    make_queue(domain)

    assert [each.name for each in fixed] == ["name", "address", "durable", "last-value", "last-value-key"]
    for each in fixed:
        with pytest.raises(InvalidRequest, match="cannot be changed"):
            domain.update_queue("q", {each.attribute: other(each)})


@pytest.mark.parametrize(
    "attribute", [each for each in MANAGED if each.minimum is not None and each.kind is not Kind.TEXT], ids=named
)
def test_management_refuses_a_number_that_broker_xml_would_refuse(attribute: QueueAttribute) -> None:
    assert attribute.minimum is not None
    wanted = {"name": "q", attribute.json: int(attribute.minimum) - 1}

    assert f"it must be {attribute.minimum:g} or more" in World().refusal("broker", "createQueue", wanted)


@pytest.mark.parametrize("attribute", [each for each in QUEUE_ATTRIBUTES if each.setting is not None], ids=named)
def test_the_setting_of_the_address_decides_for_queues_that_do_not_say(attribute: QueueAttribute) -> None:
    """The setting is made of the attribute's declaration."""
    assert attribute.setting is not None
    value = other(attribute)
    domain = make_domain({"#": AddressSettings(**{attribute.setting.attribute: in_field(attribute, value)})})
    # A queue cannot say that a text is to be missing.
    said: Any = {attribute.attribute: "said" if attribute.default is None else attribute.default}

    silent = make_queue(domain, "silent")
    saying = make_queue(domain, "saying", **said)

    assert attribute.setting in ADDRESS_SETTINGS
    assert value_of(attribute, silent) == value
    assert in_field(attribute, value_of(attribute, saying)) == said[attribute.attribute]


@pytest.mark.parametrize("attribute", RESOLVED_ATTRIBUTES.values(), ids=named)
def test_the_store_keeps_what_was_said_and_that_nothing_was(attribute: QueueAttribute) -> None:
    """A setting that changes later still decides for a queue that did not say."""
    silent = QueueConfig(name="q", address="a", routing_type=RoutingType.ANYCAST)
    saying = silent.changed(**{attribute.attribute: in_field(attribute, other(attribute))})

    for config in (silent, saying):
        assert read_queue(write_queue(QueueRecord(config=config, paused=False))).config == config


STORED: Final = {
    "name": "q",
    "address": "a",
    "routing_type": None,
    "durable": True,
    "filter": None,
    "user": None,
    "max_consumers": None,
    "exclusive": None,
    "purge_on_no_consumers": None,
    "consumers_before_dispatch": None,
    "delay_before_dispatch_ms": None,
    "enabled": True,
    "auto_delete": None,
    "auto_delete_delay_ms": None,
    "auto_delete_message_count": None,
    "configuration_managed": False,
    "temporary": False,
    "internal": False,
    "auto_created": False,
    "creator": None,
}
"""What the first release kept of a queue that says nothing."""


def test_a_stored_queue_has_the_members_it_always_had() -> None:
    """Earlier releases read it, and it reads theirs: null is what was not said."""
    stored = json.loads(write_queue(QueueRecord(config=QueueConfig(name="q", address="a"), paused=False)))

    assert set(stored) == {"paused", "config"}
    assert STORED.items() <= stored["config"].items()
    assert {name for name in stored["config"] if name not in STORED} <= set(RESOLVED_ATTRIBUTES)


@pytest.mark.parametrize("attribute", MANAGED, ids=named)
def test_the_command_line_can_say_it(attribute: QueueAttribute) -> None:
    """As an option of `queue create`, and of `queue update` if it may change; `--user` is the user who logs in."""
    assert attribute.attribute in {parameter.name for parameter in create.params}
    if attribute.mutability is Mutability.EVERYBODY:
        assert attribute.attribute in {parameter.name for parameter in update.params}


@pytest.mark.parametrize("wanted", [{"max_consumer": 1}, {"max_consumers": "1"}, {"exclusive": 1}])
def test_a_configuration_that_is_no_configuration_is_an_error(wanted: dict[str, Any]) -> None:
    """The fields come from declarations, so no type checker sees them: names and kinds are checked at run time."""
    with pytest.raises(TypeError):
        QueueConfig(name="q", address="a", **wanted)


@pytest.mark.parametrize("wanted", [{"max_size_byte": 1}, {"max_size_bytes": "1"}, {"address_full_policy": "PAGE"}])
def test_settings_that_are_no_settings_are_an_error(wanted: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        AddressSettings(**wanted)


def test_one_layer_of_settings_can_be_changed() -> None:
    layer = AddressSettings(max_size_bytes=1, default_max_consumers=2)

    assert merge([layer.changed(max_size_bytes=None)]) == merge([AddressSettings(default_max_consumers=2)])


# Words that are also the names of other things, in other modules.
COMMON: Final = ("name", "address", "durable", "filter", "user", "enabled", "exclusive", "routing-type")

# The command line calls the opposite of a flag by a word of its own; an export of Artemis has attributes of its own; an
# old name of Artemis is answered with the new one.
SAID_AGAIN: Final = {
    ("cli/queue.py", "purge-on-no-consumers"),
    ("config/verdicts.py", "default-last-value-queue"),
    ("storetools/xml_reader.py", "filter-string"),
    # Members of a divert, which has a filter as a queue has one.
    ("cli/divert.py", "filter-string"),
    ("management/divert_request.py", "filter-string"),
    # An attribute of an exchange, which may end as a queue does.
    ("config/exchanges.py", "auto-delete"),
}


def test_no_other_file_lists_the_attributes() -> None:
    """What is said of an attribute is said once: its name is a text in the module that declares it, and in no other.

    A migration says which attribute a setting of another broker becomes, and needs its name for that.
    """
    names = {name for each in QUEUE_ATTRIBUTES for name in (each.name, each.json) if name not in COMMON}
    names |= {each.setting.name for each in QUEUE_ATTRIBUTES if each.setting is not None}
    root = REPOSITORY / "artemis_py"
    found = {
        (str(path.relative_to(root)), node.value)
        for path in root.rglob("*.py")
        if SETTINGS not in path.parents and root / "migrate" not in path.parents
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names and node.value is not None
    }

    assert found == SAID_AGAIN


def test_a_declaration_can_say_since_when() -> None:
    """The manual shows it for what the first release did not have."""

    @frozen
    class Later:
        probe: int = queue_attribute(Kind.COUNT, -1, "Help.", since="9.9")

    (declared,) = queue_attributes_of(Later)

    assert (declared.name, declared.json, declared.shown, declared.since) == ("probe", "probe", "Probe", "9.9")
    assert help_of(declared) == "Help. Since 9.9."
