"""Transformers of diverts: those that are shipped, on messages of each protocol, and what becomes of failures."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from artemis_amqp.engine.codec import encode_value
from artemis_amqp.engine.performatives import Properties as AmqpProperties
from artemis_amqp.engine.performatives import encode
from artemis_amqp.engine.types import Decimal32, Symbol, UInt
from artemis_amqp.messages.format import AMQP_FORMAT
from artemis_amqp.messages.sections import read_application_properties
from artemis_mqtt.broker.format import RETAIN, MqttFormat
from artemis_mqtt.engine.properties import Properties as MqttProperties
from artemis_mqtt.engine.properties import write_properties
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.changes import REMOVED
from artemis_py.core.messages.draft import Draft, Transformer, Unchanged
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.core.messages.message import MESSAGE_OVERHEAD_BYTES, Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.routing.divert import Divert, create_divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.transformers import Transformers
from artemis_py.core.runtime.events import Event, Events, TransformerFailed
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.divert_config import DivertConfig, TransformerConfig
from artemis_py.errors import InvalidRequest
from artemis_py.transformers.installed import installed_transformers
from artemis_py.transformers.json_path import MAX_BODY_BYTES, parse_path
from tests.core_harness import PropertiesFormat, make_domain, make_message, make_queue, make_session

NOW_MS: Final = 1_000_000
MQTT: Final = MqttFormat(WildcardSyntax())
PROPERTIES: Final = {"colour": "red", "size": UInt(7), "kind": Symbol("k"), "sum": Decimal32(b"\x22\x50\x00\x01")}


def transformer(name: str, properties: Mapping[str, str]) -> Transformer:
    return installed_transformers().make(TransformerConfig(name, tuple(properties.items())))


def amqp(properties: Mapping[str, object] = PROPERTIES, body: bytes = b"\x00\x53\x77\xa1\x01m") -> Message:
    """With a properties section before and a body behind the application properties."""
    bare = encode(AmqpProperties(message_id="id", subject="s"))
    if properties:
        bare += b"\x00\x53\x74" + encode_value(dict(properties))
    return Message(AMQP_FORMAT, "a", bare + body, b"\x00\x00\x00\x02\xa3\x01k\xa1\x01v")


def mqtt(*user: tuple[str, str], payload: bytes = b"m") -> Message:
    """A PUBLISH with RETAIN."""
    properties = MqttProperties(content_type="text/plain", user_properties=user)
    return Message(MQTT, "a", payload, bytes((RETAIN | 1,)) + write_properties(properties))


def changed(message: Message, name: str, **properties: str) -> Message:
    """The message, changed by a shipped transformer."""
    draft = Draft(message, NOW_MS)
    transformer(name, {key.replace("_", "-") if name.startswith("set") else key: v for key, v in properties.items()})(
        draft
    )
    draft.apply()
    return message


# The shipped ones.


def test_properties_are_added_to_an_amqp_message_whose_other_octets_stay() -> None:
    before = amqp()
    message = changed(amqp(), "add-properties", colour="blue", new="1")

    assert message.view.properties == {"size": 7, "kind": "k", "sum": before.view.properties["sum"]} | {
        "colour": "blue",
        "new": "1",
    }
    found = read_application_properties(message.data)
    assert [type(found[name]) for name in ("size", "kind", "sum")] == [UInt, Symbol, Decimal32]
    start = before.data.index(b"\x00\x53\x74")
    assert message.data[:start] == before.data[:start]
    assert message.data.endswith(b"\x00\x53\x77\xa1\x01m")
    assert message.annotations == before.annotations
    assert (message.lookup("colour"), message.lookup("new"), message.lookup("JMSType")) == ("blue", "1", "s")
    assert message.size == len(message.data) + len(message.annotations) + MESSAGE_OVERHEAD_BYTES


@pytest.mark.parametrize("body", [b"", b"\x00\x53\x75\xa0\x01m\x00\x53\x75\xa0\x01n", b"\x00\x53\x77\x40"])
def test_properties_are_added_where_there_were_none(body: bytes) -> None:
    message = changed(amqp({}, body), "add-properties", new="1")

    assert message.view.properties == {"new": "1"}
    assert message.data.endswith(body)
    assert message.view.subject == "s"


def test_a_message_that_loses_its_last_property_has_no_section_for_them() -> None:
    message = changed(amqp({"x": 1}), "remove-properties", x="", absent="")

    assert message.data == amqp({}).data


def test_many_properties_need_the_wide_form() -> None:
    message = changed(amqp(), "add-properties", **{f"p{number}": "v" * 50 for number in range(100)})

    assert len(message.view.properties) == 104


def test_a_renamed_property_keeps_its_amqp_type_and_two_may_exchange_names() -> None:
    message = changed(amqp(), "rename-properties", size="kind", kind="size", absent="x", colour="hue")

    found = read_application_properties(message.data)
    assert (found["kind"], type(found["kind"]), found["size"], type(found["size"])) == (7, UInt, "k", Symbol)
    assert (found["hue"], "colour" in found) == ("red", False)


def test_user_properties_of_mqtt_change_and_nothing_else_does() -> None:
    message = changed(mqtt(("a", "1"), ("b", "2"), ("a", "3")), "add-properties", a="x")
    assert message.view.properties == {"b": "2", "a": "x"}
    changed(message, "rename-properties", b="c")

    assert message.annotations == mqtt(("a", "x"), ("c", "2")).annotations
    assert (message.data, message.view.content_type, message.lookup("c")) == (b"m", "text/plain", "2")


def test_what_the_broker_wrote_itself_changes_too() -> None:
    message = changed(plain_message("a", MessageView(properties={"x": 1}, body={"k": [1]})), "add-properties", y="2")

    assert (message.view.properties, message.view.body) == ({"x": 1, "y": "2"}, {"k": [1]})
    assert message.format is PLAIN_FORMAT


def test_a_format_that_cannot_change_properties_is_left_for_the_brokers_own() -> None:
    message = changed(make_message("body", colour="red"), "add-properties", y="2")

    assert (message.view.properties, message.view.body) == ({"colour": "red", "y": "2"}, b"body")
    assert message.format is PLAIN_FORMAT


def test_priority_and_expiry_are_set_without_looking_at_the_content() -> None:
    message = make_message("m")
    data = message.data
    changed(message, "set-priority", priority="9")
    changed(message, "set-expiry", expiry_delay="500")
    assert (message.priority, message.expires_ms) == (9, NOW_MS + 500)
    changed(message, "set-expiry", expiry_delay="-1")

    assert (message.expires_ms, message.data) == (0, data)
    assert isinstance(message.format, PropertiesFormat)


class Never(LargeBody):
    """A large body that must not be read."""

    def load(self) -> bytes:
        raise AssertionError("the body is read")


def test_the_body_of_a_large_message_is_not_read() -> None:
    message = amqp(body=b"")
    message.large = Never(1, 10 * 1024 * 1024)

    changed(message, "add-properties", new="1")

    assert read_application_properties(message.data)["new"] == "1"


DOCUMENT: Final = {
    "a": {"b": [{"c": "deep"}, 2], "flag": True, "none": None, "an odd name": 1.5},
    "big": 2**70,
    "list": [1],
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a.b[0].c", "deep"),
        ("$['a'].b[1]", 2),
        ("$.a.flag", True),
        ('$.a["an odd name"]', 1.5),
        ("$.a.none", None),
        ("$.a.b[2]", None),
        ("$.a.b.c", None),
        ("$.nowhere", None),
        ("$.a[0]", None),
    ],
)
@pytest.mark.parametrize("kind", ["octets", "text", "map"])
def test_a_path_leads_to_a_property(path: str, expected: object, kind: str) -> None:
    """Of a body of octets or text, or of an AMQP map."""
    text = json.dumps(DOCUMENT)
    body = {"octets": text.encode(), "text": text, "map": DOCUMENT | {"big": 0}}[kind]
    message = plain_message("a", MessageView(body=body))

    changed(message, "json-to-properties", found=path)

    assert message.view.properties == ({} if expected is None else {"found": expected})


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"{", "$.a"),
        (b"\xff\xfe\x00", "$.a"),
        (b'{"a": NaN}', "$.a"),
        (b"[" * 100_000, "$.a"),
        (b'{"a": ' + b"9" * 5000 + b"}", "$.a"),
        (b" " * MAX_BODY_BYTES + b"{}", "$.a"),
        (5, "$.a"),
        (None, "$.a"),
        (json.dumps(DOCUMENT).encode(), "$.a"),
        (json.dumps(DOCUMENT).encode(), "$.list"),
        (json.dumps(DOCUMENT).encode(), "$.big"),
        (json.dumps("x" * 70_000).encode(), "$"),
    ],
)
def test_a_body_that_gives_no_property_leaves_the_message_as_it_is(body: object, path: str) -> None:
    message = plain_message("a", MessageView(body=body))

    with pytest.raises(Unchanged):
        changed(message, "json-to-properties", found=path)


@pytest.mark.parametrize(
    "path", ["a", "", "$a", "$..a", "$.*", "$[*]", "$[-1]", "$[1:2]", "$[?(@.a)]", "$.a b", "$['a"]
)
def test_only_simple_paths_are_taken(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        parse_path(path)


@pytest.mark.parametrize(
    ("name", "properties", "text"),
    [
        ("add-properties", {}, "nothing to set"),
        ("add-properties", {"x": "v" * 70_000}, "more than 65535"),
        ("remove-properties", {}, "nothing to remove"),
        ("remove-properties", {"": ""}, "1 to 65535"),
        ("rename-properties", {"a": ""}, "empty"),
        ("rename-properties", {"a": "c", "b": "c"}, "the same name"),
        ("set-priority", {"priority": "high"}, "0 to 9"),
        ("set-priority", {"priority": "1", "x": "y"}, "no property 'x'"),
        ("set-expiry", {"expiry-delay": "-2"}, "-1 to"),
        ("set-expiry", {"expiry-delay": "9" * 30}, "-1 to"),
        ("json-to-properties", {}, "whose key is a name"),
        ("json-to-properties", {"x": "a.b"}, "begin with"),
    ],
)
def test_properties_are_checked_when_the_configuration_is_read(
    name: str, properties: dict[str, str], text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text):
        transformer(name, properties)


def test_what_is_not_installed_is_refused_with_what_is() -> None:
    with pytest.raises(InvalidRequest, match=r"'os\.system' is not installed; there is add-properties, json-to-prop"):
        transformer("os.system", {})


# Drafts: what a transformer of another package may do.


def test_a_new_body_has_the_message_written_again() -> None:
    message = amqp()
    draft = Draft(message, NOW_MS)
    draft.body = {"to": draft.body}
    draft.properties["x"] = UUID(int=1)
    draft.apply()

    assert (message.format, message.view.body, message.view.subject) == (PLAIN_FORMAT, {"to": "m"}, "s")
    assert message.view.properties["x"] == UUID(int=1)
    assert message.view.properties["colour"] == "red"


@pytest.mark.parametrize(
    ("name", "value"),
    [("", 1), ("x" * 70_000, 1), (5, 1), ("x", 2**63), ("x", []), ("x", "v" * 70_000), ("x", object())],
)
def test_a_property_that_no_message_can_have_is_refused_at_once(name: Any, value: object) -> None:
    with pytest.raises(ValueError, match="propert"):
        Draft(amqp(), NOW_MS).properties[name] = value


@pytest.mark.parametrize(("attribute", "value"), [("priority", 10), ("priority", "4"), ("expires_ms", -1)])
def test_a_priority_or_expiry_that_no_message_can_have_changes_nothing(attribute: str, value: object) -> None:
    message = amqp()
    draft = Draft(message, NOW_MS)
    draft.properties["x"] = 1
    setattr(draft, attribute, value)

    with pytest.raises(ValueError, match="it is"):
        draft.apply()

    assert message.data == amqp().data


def test_changes_say_what_goes() -> None:
    draft = Draft(amqp(), NOW_MS)
    del draft.properties["size"]
    draft.properties["colour"] = draft.properties["colour"]

    assert draft.properties.changes() == {"size": REMOVED}
    assert list(draft.properties) == ["colour", "kind", "sum"]


# Diverts with transformers.


def explode(properties: Mapping[str, str]) -> Transformer:
    """Makes a transformer with a mistake in it."""

    def transform(draft: Draft) -> None:
        draft.properties["seen"] = True
        raise ZeroDivisionError("a mistake")

    return transform


def world(**dead: object) -> tuple[Domain, list[Event], Divert]:
    """A divert from `a` to `b` whose transformer fails, and what is told."""
    events: list[Event] = []
    told = Events()
    told.subscribe(events.append, TransformerFailed)
    domain = make_domain({"#": AddressSettings(**dead)}, events=told)
    domain.transformers = Transformers(["explode"], lambda name: explode)
    for name in ("a", "b"):
        make_queue(domain, name)
    config = DivertConfig(
        name="d", address="a", forwarding_address="b,a", exclusive=True, transformer=TransformerConfig("explode")
    )
    return domain, events, create_divert(domain, config)


def test_a_message_whose_transformer_fails_goes_to_the_dead_letter_address() -> None:
    """Once, however many forwarding addresses there are. The sender did nothing wrong and is not refused."""
    domain, events, the_divert = world(dead_letter_address="dead")
    dead = make_queue(domain, "dead")
    producer = make_session(domain).producer("a")

    for body in "12":
        producer.send(make_message(body))

    assert [domain.queues[name].message_count for name in ("a", "b", "dead")] == [0, 0, 2]
    copy = dead.backlog.oldest()
    assert copy is not None
    assert copy.message.extra is not None
    assert (copy.message.extra["_AMQ_ORIG_QUEUE"], copy.message.lookup("seen")) == ("d", None)
    assert events == [TransformerFailed("d", "ZeroDivisionError('a mistake')")]
    assert (the_divert.failed, the_divert.forwarded, domain.discards.count) == (2, 0, 0)


def test_without_a_dead_letter_address_it_is_discarded_and_counted() -> None:
    domain, events, the_divert = world()

    make_session(domain).producer("a").send(make_message())

    assert (the_divert.failed, domain.discards.count, len(events)) == (1, 1, 1)


def test_in_a_transaction_the_dead_letter_is_there_after_the_commit() -> None:
    domain, _, _ = world(dead_letter_address="dead")
    dead = make_queue(domain, "dead")
    session = make_session(domain)
    transaction = session.begin()
    session.producer("a").send(make_message(), transaction)
    before = dead.message_count
    session.commit(transaction)

    assert (before, dead.message_count) == (0, 1)


def test_a_failing_divert_of_the_dead_letter_address_ends() -> None:
    domain, _, _ = world(dead_letter_address="a")

    make_session(domain).producer("a").send(make_message())

    assert [domain.queues[name].message_count for name in ("a", "b")] == [1, 0]


def test_what_a_transformer_cannot_use_goes_on_as_it_came_and_is_counted() -> None:
    domain = make_domain()
    domain.transformers = installed_transformers()
    make_queue(domain, "a")
    queue = make_queue(domain, "b")
    transformer = TransformerConfig("json-to-properties", (("x", "$.x"),))
    the_divert = create_divert(
        domain, DivertConfig(name="d", address="a", forwarding_address="b", transformer=transformer)
    )

    for body in ('{"x": 1}', "{"):
        make_session(domain).producer("a").send(make_message(body))

    assert (the_divert.unchanged, the_divert.failed, the_divert.forwarded, queue.message_count) == (1, 0, 2, 2)


def test_the_filter_of_a_queue_sees_what_a_transformer_did() -> None:
    domain = make_domain()
    domain.transformers = installed_transformers()
    make_queue(domain, "a", filter="colour = 'red'")
    queue = make_queue(domain, "b", filter="colour = 'blue' AND _AMQ_ORIG_ADDRESS = 'a'")
    transformer = TransformerConfig("add-properties", (("colour", "blue"),))
    create_divert(domain, DivertConfig(name="d", address="a", forwarding_address="b", transformer=transformer))

    make_session(domain).producer("a").send(amqp())

    assert (domain.queues["a"].message_count, queue.message_count) == (1, 1)


def test_a_divert_that_was_stored_with_a_transformer_that_is_gone_fails_and_is_there() -> None:
    domain = make_domain()
    queues = [make_queue(domain, name) for name in ("a", "b")]
    config = DivertConfig(
        name="d", address="a", forwarding_address="b", exclusive=True, transformer=TransformerConfig("gone")
    )
    with pytest.raises(InvalidRequest, match="'gone' is not installed; there is none"):
        create_divert(domain, config)
    create_divert(domain, config, is_restored=True)

    make_session(domain).producer("a").send(make_message())

    assert [queue.message_count for queue in queues] == [0, 0]
    assert domain.discards.count == 1


# Transformers of other packages.

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "diverts.md"


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of docs/diverts.md, installed as pip does it, and one that cannot be imported."""
    code = re.search(
        r"```python\n# (my_package/transformers\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert code is not None
    module = tmp_path / code[1]
    module.parent.mkdir()
    (module.parent / "__init__.py").touch()
    module.write_text(code[2], encoding="utf-8")
    metadata = tmp_path / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n", encoding="utf-8")
    entries = "[artemis_py.transformers]\nmask = my_package.transformers:mask\nbroken = my_package.nowhere:mask\n"
    (metadata / "entry_points.txt").write_text(entries, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_transformers.cache_clear()
    yield
    installed_transformers.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


@pytest.mark.usefixtures("other_package")
def test_a_transformer_of_another_package_is_found_by_its_entry_point() -> None:
    """The one on the page."""
    message = amqp()
    message.priority = 9
    transform = transformer("mask", {"name": "colour"})
    draft = Draft(message, NOW_MS)
    transform(draft)
    draft.apply()

    assert (message.view.properties["colour"], message.priority) == ("****", 9)
    with pytest.raises(Unchanged):
        transform(Draft(amqp({}), NOW_MS))
    with pytest.raises(InvalidRequest, match="'mask': needs the property 'name', and no other"):
        transformer("mask", {})


@pytest.mark.usefixtures("other_package")
def test_a_transformer_that_cannot_be_imported_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidRequest, match=r"'broken' cannot be used: ModuleNotFoundError\(.*my_package\.nowhere"):
        transformer("broken", {})


@pytest.mark.usefixtures("other_package")
def test_the_module_of_a_transformer_cannot_be_named_without_an_entry_point() -> None:
    with pytest.raises(InvalidRequest, match="is not installed"):
        transformer("my_package.transformers:mask", {"name": "x"})
