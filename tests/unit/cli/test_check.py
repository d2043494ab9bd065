"""`artemis-py check` finds what a start would refuse, with all other mistakes."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from artemis_py.cli.check import check, examine
from artemis_py.errors import ConfigError

BROKER = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled>
<acceptors><acceptor name="a">tcp://127.0.0.1:0?{parameters}</acceptor></acceptors>
<addresses><address name="orders"><anycast><queue name="{queue}"/></anycast></address></addresses>
</core></configuration>"""


def written(folder: Path, queue: str = "orders", parameters: str = "protocols=AMQP") -> Path:
    file = folder / "broker.xml"
    file.write_text(BROKER.format(queue=queue, parameters=parameters), encoding="utf-8")
    return file


def test_what_a_start_would_refuse_is_a_mistake_among_the_others(tmp_path: Path) -> None:
    """A name that the core does not take is known only where queues are made."""
    file = written(tmp_path, "q" * 5000, "protocols=MORSE")

    with pytest.raises(ConfigError) as caught:
        examine(file)

    first, second = caught.value.problems
    assert (first.file, first.message) == (str(file), "the name of the queue has 5000 characters; 4096 are allowed")
    assert "MORSE" in second.message


def test_nothing_is_left_of_the_trial(tmp_path: Path) -> None:
    """No folder, no file: the broker that was asked never started."""
    file = written(tmp_path)

    examine(file)

    assert list(tmp_path.iterdir()) == [file]


def test_a_circle_of_diverts_is_a_warning(tmp_path: Path) -> None:
    """The broker would start; the names are in the text."""
    file = written(tmp_path)
    divert = "<divert name='{}'><address>{}</address><forwarding-address>{}</forwarding-address></divert>\n"
    inside = "<diverts>\n" + divert.format("d", "a", "b") + divert.format("e", "b", "a") + "</diverts></core>"
    file.write_text(file.read_text(encoding="utf-8").replace("</core>", inside), encoding="utf-8")

    outcome = CliRunner().invoke(check, [str(file)])

    assert outcome.exit_code == 0
    text = "divert: the diverts d -> e -> d form a circle; a message goes through each of them once"
    assert f"warning: {file}:6: {text}" in outcome.output
