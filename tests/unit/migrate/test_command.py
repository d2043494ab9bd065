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
