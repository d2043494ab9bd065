"""What commands print."""

import json
import uuid
from typing import Any

import pytest

from artemis_amqp.client.messages import Message
from artemis_py.cli.messages import as_json, print_message
from artemis_py.cli.render import cell, print_table, summary
from artemis_py.core.messages.view import MessageView


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (True, "yes"), (False, "no"), (5, "5"), (["a", "b"], "a, b"), ("x", "x")]
)
def test_cells_are_for_people(value: object, text: str) -> None:
    assert cell(value) == text


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    """A client chooses names; an escape sequence in one must not act on an administrator's terminal."""
    assert cell("a\x1b[2Jb\n") == "a\ufffd[2Jb\ufffd"


def test_a_table_in_a_pipe_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "n" * 500
    print_table([{"name": long, "count": 1}, {"name": "[bold]", "count": 20}], {"name": "NAME", "count": "COUNT"})
    lines = capsys.readouterr().out.splitlines()

    assert [line.split() for line in lines] == [["NAME", "COUNT"], [long, "1"], ["[bold]", "20"]]


def test_a_summary_tells_count_time_and_rate() -> None:
    assert summary("sent", 1000, 2.0) == "sent 1000 messages in 2.00 s, 500/s"
    assert summary("sent", 1, 0.0) == "sent 1 message in 0.00 s"


def test_a_message_as_json_has_what_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    view = MessageView(body={"k": [1, b"\x00", uuid.UUID(int=1)]}, subject="s", properties={"n": 1})
    print_message(Message(content=view), "json")
    printed = json.loads(capsys.readouterr().out)

    assert printed["body"] == {"k": [1, {"base64": "AA=="}, "00000000-0000-0000-0000-000000000001"]}
    assert (printed["subject"], printed["properties"]) == ("s", {"n": 1})
    assert "reply_to" not in printed


@pytest.mark.parametrize(
    ("body", "printed"), [("text", "text"), (b"raw", "raw"), (None, ""), ([1, "a"], '[1, "a"]'), (5, "5")]
)
def test_a_body_is_one_line(body: Any, printed: str, capfd: pytest.CaptureFixture[str]) -> None:
    print_message(Message(content=MessageView(body=body)), "body")

    assert capfd.readouterr().out == printed + "\n"


def test_nothing_is_printed_if_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(Message(content=MessageView(body="x")), "nothing")

    assert capsys.readouterr().out == ""


def test_the_time_to_live_is_in_milliseconds() -> None:
    assert as_json(Message(ttl_ms=1500))["ttl_ms"] == 1500
