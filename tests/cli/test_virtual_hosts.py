"""`artemis-py vhost`, and `--vhost` of other commands, against a running broker."""

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def host(artemis: Command, name: str) -> str:
    """A virtual host of this test."""
    host = name.replace(".", "-")
    created = artemis("vhost", "create", host, "--hostname", f"{host}.example", "--max-queues", "5")
    assert created.lines == [f"created: virtual host {host}"]
    return host


def test_a_host_is_shown_changed_and_deleted(artemis: Command, host: str) -> None:
    shown = artemis("vhost", "show", host, "--json").json()
    artemis("vhost", "update", host, "--max-queues", "7", "--hostname", "")
    updated = artemis("vhost", "show", host, "--json").json()
    deleted = artemis("vhost", "delete", host)

    assert (shown["maxQueues"], shown["hostnames"], shown["state"]) == (5, [f"{host}.example"], "ACTIVE")
    assert (updated["maxQueues"], updated["hostnames"]) == (7, [])
    assert deleted.lines == [f"deleted: virtual host {host}"]
    gone = artemis("vhost", "show", host)
    assert (gone.code, f"virtual host '{host}' does not exist" in gone.err) == (1, True)


def test_other_commands_work_in_a_host(artemis: Command, host: str) -> None:
    """The same queue in two hosts; a message is in one of them."""
    artemis("queue", "create", host)
    artemis("queue", "create", host, "--vhost", host)
    artemis("producer", "--destination", f"queue://{host}", "--message-count", "3", "--vhost", host)

    names = ("queue", "stat", "--name", host, "--json")
    inside = artemis(*names, "--vhost", host).json()["queues"]
    outside = artemis(*names, ARTEMIS_PY_VHOST="default").json()["queues"]
    taken = artemis("consumer", "--destination", host, "--message-count", "3", ARTEMIS_PY_VHOST=host)

    assert [queue["messageCount"] for queue in (*inside, *outside)] == [3, 0]
    assert len(taken.lines) == 3


def test_a_stopped_host_refuses_until_it_is_started(artemis: Command, host: str) -> None:
    assert artemis("vhost", "stop", host, "--reason", "for a test").lines == [f"stopped: virtual host {host}"]

    refused = artemis("queue", "list", "--vhost", host)
    again = artemis("vhost", "stop", host)
    started = artemis("vhost", "start", host)

    assert refused.code != 0
    assert "is stopped: for a test" in refused.err
    assert (again.code, "is stopped already" in again.err) == (1, True)
    assert started.code == 0
    assert artemis("queue", "list", "--vhost", host).code == 0
    assert artemis("vhost", "start", host).code == 1


def test_the_list_begins_with_the_default_host(artemis: Command, host: str) -> None:
    heading, first, *rest = artemis("vhost", "list").lines

    assert heading.split()[:3] == ["VIRTUAL", "HOST", "STATE"]
    assert first.split()[:2] == ["default", "ACTIVE"]
    assert host in [line.split()[0] for line in rest]


def test_a_host_that_does_not_exist_is_named(artemis: Command) -> None:
    refused = artemis("queue", "list", "--vhost", "nowhere")

    assert refused.code != 0
    assert "virtual host 'nowhere' does not exist" in refused.err
