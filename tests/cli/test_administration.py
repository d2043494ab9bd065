"""`address` and `queue` against a running broker."""

import pytest

from tests.cli.conftest import Command


def test_an_address_is_created_shown_updated_and_deleted(artemis: Command, name: str) -> None:
    artemis("address", "create", name)
    created = artemis("address", "show", name, "--json").json()["addresses"][0]
    artemis("address", "update", name, "--anycast", "--multicast")
    updated = artemis("address", "show", name, "--json").json()["addresses"][0]
    deleted = artemis("address", "delete", name)

    assert (created["routingTypes"], updated["routingTypes"]) == (["ANYCAST"], ["ANYCAST", "MULTICAST"])
    assert deleted.lines == [f"deleted: address {name}"]
    assert artemis("address", "show", name).code == 1


def test_a_queue_is_created_with_what_was_asked_for(artemis: Command, name: str) -> None:
    artemis(
        *("queue", "create", f"{name}.q", "--address", name, "--multicast", "--non-durable", "--filter", "x = 1"),
        *("--max-consumers", "3", "--exclusive", "--purge-on-no-consumers"),
    )
    (queue,) = artemis("queue", "stat", "--field", "name", "--value", f"{name}.q", "--json").json()["queues"]
    attributes = ("address", "routingType", "durable", "filter", "maxConsumers", "exclusive", "purgeOnNoConsumers")

    assert [queue[attribute] for attribute in attributes] == [name, "MULTICAST", False, "x = 1", 3, True, True]


def test_a_queue_is_updated_in_what_is_named(artemis: Command, name: str) -> None:
    artemis("queue", "create", name, "--max-consumers", "3", "--filter", "x = 1")
    updated = artemis("queue", "update", name, "--filter", "", "--disabled", "--json").json()

    assert (updated["filter"], updated["enabled"], updated["maxConsumers"]) == (None, False, 3)


def test_a_queue_is_purged_and_deleted(artemis: Command, name: str) -> None:
    artemis("producer", "--destination", f"queue://{name}", "--message-count", "4")
    purged = artemis("queue", "purge", name)
    deleted = artemis("queue", "delete", name)

    assert (purged.lines, deleted.lines) == ([f"removed 4 messages from {name}"], [f"deleted: queue {name}"])
    assert artemis("queue", "stat", "--name", name, "--json").json() == {"queues": [], "count": 0}


def test_a_paused_queue_holds_its_messages_until_it_is_resumed(artemis: Command, name: str) -> None:
    artemis("queue", "create", name)
    artemis("queue", "pause", name)
    artemis("producer", "--destination", name, "--message", "held")
    held = artemis("consumer", "--destination", name, "--receive-timeout", "300")
    artemis("queue", "resume", name)
    delivered = artemis("consumer", "--destination", name, "--message-count", "1")

    assert (held.lines, delivered.lines) == ([], ["held"])


def test_statistics_are_a_table_by_default(artemis: Command, name: str) -> None:
    artemis("queue", "create", name)
    heading, row = artemis("queue", "stat", "--name", name).lines

    assert heading.split()[:4] == ["QUEUE", "ADDRESS", "ROUTING", "CONSUMERS"]
    assert row.split()[:4] == [name, name, "ANYCAST", "0"]


@pytest.mark.parametrize(("command", "kind"), [(("queue", "stat"), "queues"), (("address", "show"), "addresses")])
def test_temporary_resources_show_only_if_asked_for(artemis: Command, command: tuple[str, str], kind: str) -> None:
    """The command itself has one, for the answer."""
    usual = artemis(*command, "--json").json()[kind]
    everything = artemis(*command, "--json", "--all").json()[kind]

    assert [row for row in usual if row["temporary"]] == []
    assert len([row for row in everything if row["temporary"]]) == 1


def test_rows_are_limited_and_the_rest_is_announced(artemis: Command, name: str) -> None:
    for number in (1, 2, 3):
        artemis("queue", "create", f"{name}.{number}")
    outcome = artemis("queue", "stat", "--name", name, "--max-rows", "2")

    assert len(outcome.lines) == 3
    assert outcome.err.startswith("3 queues in all")


def test_bindings_of_an_address_are_shown(artemis: Command, name: str) -> None:
    artemis("queue", "create", f"{name}.q", "--address", name)
    shown = artemis("address", "show", name, "--bindings", "--json").json()

    assert [queue["name"] for queue in shown["queues"]] == [f"{name}.q"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("queue", "delete", "none-such"), "queue 'none-such' does not exist"),
        (("queue", "purge", "none-such"), "queue 'none-such' does not exist"),
        (("queue", "stat", "--field", "nam", "--value", "x"), "did you mean name"),
        (("address", "delete", "DLQ"), "still has queues"),
        (("queue", "create", "DLQ"), "exists already"),
        (("address", "show", "DQL"), "did you mean DLQ?"),
    ],
)
def test_a_refusal_says_why_and_has_exit_code_1(artemis: Command, arguments: tuple[str, ...], reason: str) -> None:
    outcome = artemis(*arguments)

    assert (outcome.code, outcome.out) == (1, "")
    assert reason in outcome.err


def test_names_reach_no_terminal_as_they_are(artemis: Command, name: str) -> None:
    """Clients make names: escapes, also C1's, and text that runs backwards are shown, in text, JSON and errors."""
    hostile = f"{name}\x1b[2J\x9b31m\u202egpj\u2028x"
    outcomes = [
        artemis("queue", "create", hostile),
        artemis("queue", "stat", "--name", name),
        artemis("queue", "stat", "--name", name, "--json"),
        artemis("address", "show", hostile),
        artemis("queue", "create", hostile),
        artemis("queue", "delete", hostile),
    ]

    assert [outcome.code for outcome in outcomes] == [0, 0, 0, 0, 1, 0], outcomes
    for outcome in outcomes:
        for line in (outcome.out + outcome.err).split("\n"):
            assert line.isprintable(), ascii(line)
    assert outcomes[2].json()["queues"][0]["name"] == hostile
    assert r"\x1b[2J\x9b31m\u202egpj\u2028x" in outcomes[0].out
    assert "exists already" in outcomes[4].err


# Diverts.


def test_a_divert_is_created_listed_shown_updated_and_deleted(artemis: Command, name: str) -> None:
    for queue in (name, f"{name}.b", f"{name}.c"):
        artemis("queue", "create", queue)
    created = artemis(
        *("divert", "create", f"{name}.d", "--address", name, "--exclusive", "--filter", "size > 1"),
        *("--forwarding-address", f"{name}.b", "--forwarding-address", f"{name}.c", "--routing-type", "anycast"),
        *("--transformer", "add-properties", "--property", "colour=a=b", "--property", "size="),
    )
    artemis("producer", "--destination", name, "--message", "m", "--property", "size=2")
    (listed,) = artemis("divert", "list", "--address", name, "--json").json()["diverts"]
    heading, row = artemis("divert", "list", "--address", name).lines
    shown = artemis("divert", "show", f"{name}.d").lines
    updated = artemis("divert", "update", f"{name}.d", "--filter", "", "--transformer", "", "--json").json()
    deleted = artemis("divert", "delete", f"{name}.d")

    assert created.lines == [f"created: divert {name}.d from {name} to {name}.b,{name}.c"]
    assert (listed["copies"], listed["routingType"], listed["exclusive"]) == (2, "ANYCAST", True)
    assert listed["transformerProperties"] == {"colour": "a=b", "size": ""}
    assert heading.split()[:2] == ["DIVERT", "ADDRESS"]
    assert row.split()[:2] == [f"{name}.d", name]
    assert f'name: "{name}.d"' in shown
    assert (updated["filter"], updated["transformerClassName"], updated["exclusive"]) == (None, None, True)
    assert deleted.lines == [f"deleted: divert {name}.d"]
    assert artemis("divert", "show", f"{name}.d").code == 1
    queues = artemis("queue", "stat", "--name", name).lines[1:]
    assert [line.split()[4] for line in queues] == ["0", "1", "1"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("create", "d", "--address", "a"), 2, "--forwarding-address"),
        (("create", "d", "--address", "a", "--forwarding-address", "b", "--property", "k=v"), 2, "needs --transformer"),
        (
            (
                *("create", "d", "--address", "a", "--forwarding-address", "b"),
                *("--transformer", "t", "--property", "k"),
            ),
            2,
            "is not KEY=VALUE",
        ),
        (("update", "d"), 2, "nothing to change"),
        (("update", "no-such-divert", "--exclusive"), 1, "divert 'no-such-divert' does not exist"),
        (
            ("create", "d", "--address", "a", "--forwarding-address", "b", "--transformer", "t"),
            1,
            "transformer 't' is not installed; there is add-properties",
        ),
    ],
)
def test_what_is_wrong_with_a_divert_is_said(
    artemis: Command, arguments: tuple[str, ...], code: int, text: str
) -> None:
    outcome = artemis("divert", *arguments)

    assert outcome.code == code
    assert text in outcome.err


def test_a_divert_that_closes_a_circle_is_made_with_a_warning(artemis: Command, name: str) -> None:
    made = artemis("divert", "create", f"{name}.d", "--address", name, "--forwarding-address", name)
    mended = artemis("divert", "update", f"{name}.d", "--forwarding-address", f"{name}.b")

    assert made.code == 0
    assert f"warning: a message may come back: {name}.d -> {name}.d; it goes through each divert once" in made.err
    assert "warning" not in mended.err


def test_diverts_are_for_those_who_may_manage(guarded: Command, name: str) -> None:
    """And the address of a divert needs the permission to create it."""
    wanted = ("divert", "create", name, "--address", name, "--forwarding-address", f"{name}.b")

    refused = guarded("paul", *wanted)
    made = guarded("olga", *wanted)

    assert refused.code == 1
    assert "manage" in refused.err
    assert made.code == 0


# Exchanges.


def test_exchanges_are_created_bound_shown_used_and_deleted(artemis: Command, name: str) -> None:
    for queue in (f"{name}.a", f"{name}.spare"):
        artemis("queue", "create", queue)
    created = artemis(
        *("exchange", "create", name, "--type", "topic", "--unroutable", "reject"),
        *("--alternate-queue", f"{name}.spare"),
    )
    selector = ("--argument", "x-filter-jms-selector=size > 1")
    bound = artemis("exchange", "bind", name, "--queue", f"{name}.a", "--key", "a.#", *selector)
    again = artemis("exchange", "bind", name, "--queue", f"{name}.a", "--key", "a.#", "--json").json()
    artemis("exchange", "bind", "amq.match", "--to-exchange", name, "--json-arguments", '{"size": 2, "x-match": "any"}')
    for destination, size in ((f"{name}/a.b", 2), (f"{name}/a.b", 1), ("amq.match", 2)):
        artemis("producer", "--destination", destination, "--message", "m", "--property", f"size={size}")
    listed = {row["name"]: row for row in artemis("exchange", "list", "--json").json()["exchanges"]}
    heading = artemis("exchange", "list").lines[0]
    shown = artemis("exchange", "show", name).lines
    (binding,) = artemis("exchange", "show", name, "--json").json()["boundTo"]
    explained = artemis("exchange", "explain", name, "b.c", "--json-properties", '{"size": 2}').lines
    (entry,) = artemis("exchange", "explain", name, "a.b", "--property", "size=2", "--json").json()["entered"]
    in_use = artemis("exchange", "delete", name, "--if-unused")
    unbound = artemis("exchange", "unbind", name, "--queue", f"{name}.a", "--key", "a.#")
    missing = artemis("exchange", "unbind", name, "--queue", f"{name}.a", "--key", "a.#")
    deleted = artemis("exchange", "delete", name)

    assert created.lines == [f"created: topic exchange {name}"]
    assert bound.lines == [f"bound to {name}"]
    assert again == {"bound": False}
    assert (listed[name]["bindings"], listed[name]["routedMessages"]) == (1, 2)
    assert listed["amq.match"]["routedMessages"] >= 1
    assert heading.split()[:2] == ["EXCHANGE", "TYPE"]
    assert 'type: "topic"' in shown
    assert binding["arguments"] == {"x-filter-jms-selector": "size > 1"}
    assert explained[0] == "delivered to 1 queue"
    assert f"  no   key 'a.#' to queue '{name}.a': its pattern 'a.#' does not cover the routing key 'b.c'" in explained
    assert explained[-1] == f"  no queue was reached, so its alternate is asked: queue '{name}.spare'"
    assert [(each["matches"], each["reason"]) for each in entry["bindings"]] == [
        (False, "its selector does not select the message: size > 1")
    ]
    assert (in_use.code, missing.code) == (1, 1)
    assert "1 bindings" in in_use.err
    assert unbound.lines == [f"unbound from {name}"]
    assert deleted.lines == [f"deleted: exchange {name}"]
    assert artemis("exchange", "show", name).code == 1
    queues = artemis("queue", "stat", "--name", name).lines[1:]
    assert [line.split()[4] for line in queues] == ["1", "2"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("create", "e"), 2, "--type"),
        (("bind", "amq.topic"), 2, "either --queue or --to-exchange"),
        (("bind", "amq.topic", "--queue", "q", "--to-exchange", "amq.direct"), 2, "either --queue or --to-exchange"),
        (("bind", "amq.topic", "--queue", "q", "--argument", "x"), 2, "is not NAME=VALUE"),
        (("bind", "amq.topic", "--queue", "q", "--json-arguments", "["), 2, "it is not JSON"),
        (("bind", "amq.topic", "--queue", "q", "--json-arguments", "[]"), 2, "it is not a JSON object"),
        (("bind", "amq.topik", "--queue", "q"), 1, "did you mean amq.topic"),
        (("bind", "amq.topic", "--queue", "no-such-queue"), 1, "queue 'no-such-queue' does not exist"),
        (("delete", "amq.topic"), 1, "is predeclared"),
    ],
)
def test_what_is_wrong_with_an_exchange_is_said(
    artemis: Command, arguments: tuple[str, ...], code: int, text: str
) -> None:
    outcome = artemis("exchange", *arguments)

    assert outcome.code == code
    assert text in outcome.err
