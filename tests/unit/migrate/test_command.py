"""`artemis-py migrate`: what it accepts, what it prints, what it never does."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.cli import main
from artemis_py.migrate.activemq.table import TABLE as ACTIVEMQ
from artemis_py.migrate.mosquitto.table import BRIDGE
from artemis_py.migrate.mosquitto.table import TABLE as MOSQUITTO
from tests.migration import SPRING, migrate


def run(place: Path, to: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["migrate", str(place), "--to", str(to), *arguments])


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    file = written(tmp_path, "mosquitto.conf", "listener 1\n")
    first = run(file, tmp_path / "new")
    written(tmp_path, "mosquitto.conf", "listener 2\n")
    second = run(file, tmp_path / "new")
    before = (tmp_path / "new" / "etc" / "broker.xml").read_text()
    third = run(file, tmp_path / "new", "--force")

    assert (first.exit_code, second.exit_code, third.exit_code) == (0, 2, 0)
    assert ":1?" in before
    assert ":2?" in (tmp_path / "new" / "etc" / "broker.xml").read_text()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rabbitmq.conf", "listeners.tcp.default = 5672\n", "configurations of RabbitMQ are not migrated"),
        ("notes.txt", "hello\n", "is no configuration that is known here"),
        ("activemq.xml", "<beans activemq='1'><b></beans>", ":1: XML: is not well-formed XML"),
        ("activemq.xml", "<!DOCTYPE b [<!ENTITY a 'x'>]><beans>activemq</beans>", "declares entities"),
        ("activemq.xml", "<beans><bean class='org.apache.activemq.ActiveMQConnectionFactory'/></beans>", "of a client"),
        (
            "activemq.xml",
            "<beans><bean class='org.apache.activemq.broker.BrokerService'/></beans>",
            "as a bean of Spring",
        ),
        ("broker.xml", "<configuration xmlns='urn:activemq'/>", "has no <core>"),
    ],
)
def test_what_cannot_be_migrated(tmp_path: Path, name: str, text: str, message: str) -> None:
    result = run(written(tmp_path, name, text), tmp_path / "new")

    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "new").exists()


def test_entities_of_other_files_are_never_read(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", "geheim")
    text = (
        f"<!DOCTYPE b SYSTEM 'file://{secret}'>"
        + SPRING.format(attributes='brokerName="a"', content="", beans="").partition("?>")[2]
    )
    result = run(written(tmp_path, "activemq.xml", text), tmp_path / "new")

    assert result.exit_code == 0
    assert "geheim" not in result.output


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    assert "holds no configuration that is known here" in run(tmp_path, tmp_path / "new").output


def test_a_definition_needs_a_value(tmp_path: Path) -> None:
    file = written(tmp_path, "mosquitto.conf", "")

    assert "write NAME=VALUE" in run(file, tmp_path / "new", "-D", "port").output


def test_quiet_prints_only_what_was_dropped(tmp_path: Path) -> None:
    file = written(tmp_path, "mosquitto.conf", "listener 1\nmount_point x\n")
    result = run(file, tmp_path / "new", "--quiet")

    assert result.stdout.count("\n") == 1
    assert ":2: mount_point: dropped: " in result.stdout


# --- whatever the file, the result passes the check ---

VALUE = st.sampled_from(
    ["true", "false", "0", "-1", "7", "99999999999", "1 gb", "", "x", "a.>", "*.b", "${no}", "a,b", "<>&'"]
)
ELEMENTS = sorted({name.partition(".")[0] for name in ACTIVEMQ.rules if name[0].isalpha()} - {"broker", "uri"})
NAMES = sorted(
    {name.partition(".")[2] for name in ACTIVEMQ.rules if name.count(".") == 1 and name.partition(".")[2]}
    | {"queue", "topic"}
)
HOLDERS = ("destinationPolicy", "policyMap", "policyEntries", "plugins", "transportConnectors", "systemUsage")


def escaped(text: str) -> str:
    return json.dumps(text)[1:-1].replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("\\", "")


def elements(depth: int) -> st.SearchStrategy[str]:
    children = st.just("") if depth == 0 else st.lists(elements(depth - 1), max_size=3).map("".join)
    attributes = st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=4).map(
        lambda found: " ".join(f'{name}="{escaped(value)}"' for name, value in found.items())
    )
    return st.builds(
        lambda name, given, inner: f"<{name} {given}>{inner}</{name}>",
        st.sampled_from([*ELEMENTS, *HOLDERS]),
        attributes,
        children,
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.lists(elements(3), max_size=4).map("".join), policies=st.lists(elements(1), max_size=3).map("".join))
def test_any_activemq_xml_gives_a_file_that_passes_the_check(tmp_path: Path, content: str, policies: str) -> None:
    """`migrate` checks the written file once more."""
    inner = f"<destinationPolicy><policyMap><policyEntries>{policies}</policyEntries></policyMap></destinationPolicy>"
    text = SPRING.format(attributes='brokerName="a"', content=content + inner, beans="")
    migrate(written(tmp_path, "activemq.xml", text), tmp_path / "new", "--force")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.tuples(st.sampled_from(sorted([*MOSQUITTO.rules, *BRIDGE])), VALUE).map(" ".join), max_size=12)
)
def test_any_mosquitto_conf_gives_a_file_that_passes_the_check(tmp_path: Path, lines: list[str]) -> None:
    migrate(written(tmp_path, "mosquitto.conf", "\n".join(lines)), tmp_path / "new", "--force")


# Texts of JSON with a meaning somewhere, and some without.
NAME = st.sampled_from(
    ["a", "b", "a.b", "amq.topic", "amq.match", "a/b", "a::b", "*", "#", "", " a", "ü", "\x01", "${a}", "\\"]
)
SCALAR = st.one_of(NAME, st.integers(-2, 70), st.booleans(), st.none(), st.just([1]), st.just({"x": 1}), st.just(1.5))
ARGUMENT_NAMES = [
    *["x-match", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-overflow", "x-dead-letter-exchange"],
    *["x-queue-type", "x-dead-letter-routing-key", "alternate-exchange", "x-filter-jms-selector", "x-odd", "h"],
]
ARGUMENTS = st.dictionaries(
    st.sampled_from(ARGUMENT_NAMES),
    st.one_of(SCALAR, st.sampled_from(["any", "reject-publish", "quorum", "stream", "a = 1", "a ="])),
    max_size=4,
)
KIND = st.sampled_from(["direct", "topic", "fanout", "headers", "x-odd"])
PATTERN = st.sampled_from([".*", "^a", "(", "", "b$"])


def objects(**members: st.SearchStrategy[object]) -> st.SearchStrategy[list[dict[str, object]]]:
    return st.lists(st.fixed_dictionaries({}, optional=members), max_size=4)


DEFINITIONS = st.fixed_dictionaries(
    {"rabbitmq_version": st.just("4"), "vhosts": st.just([])},
    optional={
        "queues": objects(name=NAME, durable=st.booleans(), auto_delete=SCALAR, arguments=ARGUMENTS),
        "exchanges": objects(name=NAME, type=KIND, durable=st.booleans(), arguments=ARGUMENTS, internal=SCALAR),
        "bindings": objects(
            source=NAME,
            destination=NAME,
            routing_key=NAME,
            arguments=ARGUMENTS,
            destination_type=st.sampled_from(["queue", "exchange"]),
        ),
        "policies": objects(name=NAME, pattern=PATTERN, definition=ARGUMENTS, priority=SCALAR),
        "users": objects(name=NAME, tags=SCALAR),
        "permissions": objects(user=NAME, configure=PATTERN, write=PATTERN, read=PATTERN),
        "topic_permissions": objects(user=NAME, exchange=NAME, write=PATTERN),
    },
)
ATTRIBUTES = {
    "maximumQueueDepthMessages": SCALAR,
    "maximumQueueDepthBytes": SCALAR,
    "overflowPolicy": st.sampled_from(["RING", "REJECT", "FLOW_TO_DISK", "NONE", "ODD"]),
    "maximumMessageTtl": SCALAR,
    "maximumDeliveryAttempts": SCALAR,
    "alternateBinding": st.one_of(SCALAR, NAME.map(lambda name: {"destination": name})),
    "lvqKey": SCALAR,
    "exclusive": SCALAR,
    "lifetimePolicy": SCALAR,
}
HOST = st.fixed_dictionaries(
    {"nodeAutoCreationPolicies": objects(pattern=PATTERN, nodeType=SCALAR)},
    optional={
        "queues": objects(name=NAME, type=SCALAR, durable=SCALAR, **ATTRIBUTES),
        "exchanges": objects(
            name=NAME,
            type=KIND,
            durableBindings=objects(bindingKey=NAME, destination=NAME, arguments=ARGUMENTS),
            alternateBinding=NAME.map(lambda name: {"destination": name}),
            unroutableMessageBehaviour=SCALAR,
        ),
        "virtualhostaccesscontrolproviders": objects(
            type=SCALAR, rules=objects(outcome=SCALAR, identity=NAME, operation=SCALAR, objectType=SCALAR)
        ),
    },
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(definitions=DEFINITIONS)
def test_any_definitions_give_a_file_that_passes_the_check(tmp_path: Path, definitions: dict[str, object]) -> None:
    migrate(written(tmp_path, "definitions.json", json.dumps(definitions)), tmp_path / "new", "--force")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(host=HOST)
def test_any_virtual_host_gives_a_file_that_passes_the_check(tmp_path: Path, host: dict[str, object]) -> None:
    config = {"modelVersion": "9.0", "virtualhostnodes": [{"name": "n", "virtualhosts": [host]}]}
    migrate(written(tmp_path, "config.json", json.dumps(config)), tmp_path / "new", "--force")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rabbitmq_version": "4",\n"queues": [}', ":2: JSON: has no value here"),
        ('{"rabbitmq_version": "4"', "has neither a comma nor } here"),
        ('{"rabbitmq_version": "4} ', "has a text that does not end"),
        ('{"vhosts": "4"} x', "has something after its end"),
        ('{"vhosts" 4}', "has no colon here"),
        ("{'vhosts': 4, \"vhosts\": 1}", "has no name of a member here"),
        ('{"vhosts": ' + "[" * 100, "is nested more than 64 deep"),
        ('{"vhosts": [{"name": "b"}], "queues": [{"vhost": "a"}]}', 'there is no virtual host "c"; there are: a, b'),
    ],
)
def test_json_that_cannot_be_migrated(tmp_path: Path, text: str, message: str) -> None:
    result = run(written(tmp_path, "x.json", text), tmp_path / "new", "--virtual-host", "c")

    assert result.exit_code == 2
    assert message in result.output
