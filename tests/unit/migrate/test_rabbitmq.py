"""Definitions of RabbitMQ: what each part becomes, by the file that this broker would start with."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import FullPolicy
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeType, Unroutable
from artemis_py.core.settings.queue_config import QueueConfig
from tests.line_protocol import LineProtocolManager
from tests.migration import Migrated, migrate
from tests.unit.core.exchange_world import reached


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    """A durable queue; the names of arguments have `_` for `-`, and `x-` before them."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": given}


def exchange(name: str, kind: str = "direct", **more: Any) -> dict[str, Any]:
    usual = {"durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    return {"name": name, "vhost": "/", "type": kind} | usual | more


def binding(source: str, to: str, key: str = "", kind: str = "queue", **arguments: Any) -> dict[str, Any]:
    ends = {"source": source, "destination": to, "destination_type": kind}
    given = {name.replace("x_", "x-"): value for name, value in arguments.items()}
    return ends | {"vhost": "/", "routing_key": key, "arguments": given}


def policy(name: str, pattern: str, apply_to: str = "queues", priority: int = 0, **definition: Any) -> dict[str, Any]:
    members = {key.replace("_", "-"): value for key, value in definition.items()}
    return {
        "vhost": "/",
        "name": name,
        "pattern": pattern,
        "apply-to": apply_to,
        "priority": priority,
        "definition": members,
    }


def migrate_definitions(folder: Path, *arguments: str, **members: Any) -> Migrated:
    """Each member of a list is in a line of its own; the first list begins in line 2."""
    given = {"rabbitmq_version": "4.1.0", "vhosts": [{"name": "/"}], **members}
    lines = []
    for name, value in given.items():
        rows = ",\n".join(json.dumps(each) for each in value) if isinstance(value, list) else json.dumps(value)
        lines.append(f'"{name}": [{rows}]' if isinstance(value, list) else f'"{name}": {rows}')
    file = folder / "definitions.json"
    file.write_text("{" + ",\n".join(lines) + "}", encoding="utf-8")
    return migrate(file, folder / "new", *arguments)


def queues_of(result: Migrated) -> dict[str, QueueConfig]:
    return {queue.name: queue for address in result.config.addresses for queue in address.queues}


def test_exchanges_queues_and_bindings(tmp_path: Path) -> None:
    result = migrate_definitions(
        tmp_path,
        queues=[queue("work"), queue("rest") | {"durable": False}],
        exchanges=[
            exchange("orders", "topic", arguments={"alternate-exchange": "rest"}),
            exchange("rest", "fanout", auto_delete=True),
        ],
        bindings=[
            binding("", "work", "work"),
            binding("orders", "work", "*.new", x_custom=1),
            binding("orders", "rest", "old", "exchange"),
            binding("rest", "rest"),
        ],
    )
    found = result.config.exchanges

    assert result.exit_code == 0
    assert [(each.name, each.type, each.unroutable) for each in found.exchanges] == [
        ("orders", ExchangeType.TOPIC, Unroutable.REJECT),
        ("rest", ExchangeType.FANOUT, Unroutable.REJECT),
    ]
    assert found.exchanges[0].alternate == Destination("rest", is_queue=False)
    assert [(each.exchange, each.key, str(each.destination), each.arguments) for each in found.bindings] == [
        ("orders", "*.new", "queue 'work'", ()),
        ("orders", "old", "exchange 'rest'", ()),
        ("rest", "", "queue 'rest'", ()),
    ]
    assert {name: each.durable for name, each in queues_of(result).items()} == {"work": True, "rest": False}
    assert result.outcome('bindings " to work"').startswith("not needed: every queue can be reached by its name")
    assert result.outcome('exchanges "rest".auto_delete').startswith("changed: ")


async def test_the_instance_starts_and_routes(tmp_path: Path) -> None:
    result = migrate_definitions(
        tmp_path,
        queues=[queue("work"), queue("rest")],
        exchanges=[exchange("orders", "topic", arguments={"alternate-exchange": "amq.fanout"})],
        bindings=[binding("orders", "work", "*.new"), binding("amq.fanout", "rest")],
    )
    async with Broker(evolve(result.config, acceptors=()), [LineProtocolManager]) as broker:
        assert reached(broker.domain, "orders", "a.new") == {"work"}
        assert reached(broker.domain, "orders", "other") == {"rest"}


def test_bindings_that_only_differ_in_arguments_get_keys_of_their_own(tmp_path: Path) -> None:
    """In RabbitMQ arguments tell bindings apart; `amq.headers` and `amq.match` are the same."""
    result = migrate_definitions(
        tmp_path,
        queues=[queue("q")],
        bindings=[
            binding("amq.headers", "q", x_match="any", a=1),
            binding("amq.match", "q", x_match="all", b="x", c=None, d=""),
            binding("amq.match", "q", x_match="any", a=1),
            binding("amq.match", "q", x_match="any"),
            binding("amq.match", "q", x_match="all", e=[1]),
        ],
    )
    found = result.config.exchanges

    assert [(each.key, dict(each.arguments)) for each in found.bindings] == [
        ("", {"x-match": "any", "a": 1}),
        ("#2", {"x-match": "all", "b": "x", "c": None, "d": ""}),
    ]
    report = result.report
    assert "not needed: the same binding is there already" in report
    assert "without arguments `any` matches nothing there" in report
    assert "its argument 'e' is no text, number or truth value" in report


@pytest.mark.parametrize(
    ("arguments", "settings", "attributes"),
    [
        ({"max_length": 5}, {}, {"ring_size": 5}),
        ({"max_length": 5, "overflow": "drop-head"}, {}, {"ring_size": 5}),
        (
            {"max_length": 5, "max_length_bytes": 600, "overflow": "reject-publish"},
            {"max-size-messages": 5, "max-size-bytes": 600, "address-full-policy": FullPolicy.FAIL},
            {},
        ),
        ({"message_ttl": 60000}, {"max-expiry-delay": 60000}, {}),
        ({"queue_type": "quorum"}, {"max-delivery-attempts": 21}, {}),
        ({"queue_type": "quorum", "delivery_limit": 4}, {"max-delivery-attempts": 5}, {}),
        ({"single_active_consumer": True}, {}, {"exclusive": True}),
        ({"max_priority": 5, "queue_mode": "lazy"}, {}, {}),
    ],
)
def test_arguments_of_queues(
    tmp_path: Path, arguments: dict[str, Any], settings: dict[str, Any], attributes: dict[str, Any]
) -> None:
    result = migrate_definitions(tmp_path, queues=[queue("q", **arguments)])

    assert result.exit_code == 0
    assert {name: result.setting("q", name) for name in settings} == settings
    made = queues_of(result)["q"]
    assert {name: getattr(made, name) for name in attributes} == attributes
    assert settings or "q" not in result.config.address_settings


@pytest.mark.parametrize(
    ("arguments", "member", "expected"),
    [
        ({"max_length_bytes": 600}, "x-max-length-bytes", "a ring counts messages, not bytes"),
        ({"expires": 1000}, "x-expires", "never deleted by itself"),
        ({"queue_type": "stream"}, "x-queue-type", "a stream becomes an ordinary queue"),
        ({"message_ttl": "soon"}, "x-message-ttl", "is not a whole number"),
        ({"unheard_of": 1}, "x-unheard-of", "has no meaning here"),
        ({"dead_letter_exchange": "no"}, "x-dead-letter-exchange", "no queue would get dead letters"),
    ],
)
def test_what_a_queue_loses(tmp_path: Path, arguments: dict[str, Any], member: str, expected: str) -> None:
    result = migrate_definitions(tmp_path, queues=[queue("q", **arguments)])

    assert result.exit_code == 1
    assert result.outcome(f'queues "q".{member}').startswith("dropped: ")
    assert expected in result.outcome(f'queues "q".{member}')


def test_dead_letters_go_where_the_exchange_leads(tmp_path: Path) -> None:
    """By the key that is given, by any key, and to several queues by a divert."""
    result = migrate_definitions(
        tmp_path,
        queues=[
            queue("by-name", dead_letter_exchange="", dead_letter_routing_key="lost"),
            queue("by-key", dead_letter_exchange="dlx", dead_letter_routing_key="k"),
            queue("any-key", dead_letter_exchange="dlx"),
            queue("several", dead_letter_exchange="all"),
            *[queue("lost"), queue("other")],
        ],
        exchanges=[exchange("dlx"), exchange("all", "fanout")],
        bindings=[binding("dlx", "lost", "k"), *[binding("all", name) for name in ("lost", "other")]],
    )

    assert {
        name: (result.setting(name, "dead-letter-address"), result.setting(name, "expiry-address"))
        for name in ("by-name", "by-key", "any-key", "several")
    } == {
        "by-name": ("lost", "lost"),
        "by-key": ("lost", "lost"),
        "any-key": ("lost", "lost"),
        "several": ("all.dead-letters", "all.dead-letters"),
    }
    (divert,) = result.config.diverts
    assert (divert.address, divert.forwarding_address) == ("all.dead-letters", "lost,other")
    assert result.outcome('queues "by-key".x-dead-letter-exchange').startswith("kept: ")
    assert "whatever their routing key" in result.outcome('queues "any-key".x-dead-letter-exchange')
    assert "all.dead-letters" not in queues_of(result)


def test_policies_are_written_out(tmp_path: Path) -> None:
    """The one with the highest priority applies; the smaller of two numbers counts."""
    result = migrate_definitions(
        tmp_path,
        queues=[queue("work.a", max_length=3), queue("work.b", message_ttl=5), queue("rest", queue_type="quorum")],
        exchanges=[exchange("e"), exchange("spare", "fanout")],
        bindings=[binding("spare", "rest")],
        policies=[
            policy("low", "^work", max_length=9, message_ttl=1),
            policy("high", "^work", priority=1, max_length=7, message_ttl=60000),
            policy("quorums", ".*", "quorum_queues", delivery_limit=2),
            policy("exchanges", "^e$", "exchanges", alternate_exchange="spare"),
            policy("nothing", "^nothing$"),
            policy("broken", "(", max_length=1),
        ],
    )

    assert {name: each.ring_size for name, each in queues_of(result).items()} == {"work.a": 3, "work.b": 7, "rest": -1}
    assert [result.setting(name, "max-expiry-delay") for name in ("work.a", "work.b")] == [60000, 5]
    assert result.setting("rest", "max-delivery-attempts") == 3
    assert result.config.exchanges.exchanges[0].alternate == Destination("spare", is_queue=False)
    assert result.outcome('policies "high"').startswith("changed: ")
    assert [result.outcome(f'policies "{name}"').partition(":")[0] for name in ("low", "nothing")] == ["dropped"] * 2
    assert "cannot be read here" in result.outcome('policies "broken"')


def test_a_time_to_live_applies_to_exchanges_that_lead_to_such_queues_only(tmp_path: Path) -> None:
    """Messages get it from the name that they are sent to."""
    result = migrate_definitions(
        tmp_path,
        queues=[queue("a", message_ttl=7), queue("b", message_ttl=7), queue("c")],
        exchanges=[exchange("same"), exchange("mixed")],
        bindings=[binding("same", "a"), binding("same", "b"), binding("mixed", "b"), binding("mixed", "c")],
    )

    assert result.setting("same", "max-expiry-delay") == 7
    assert result.setting("mixed", "max-expiry-delay") is None
    assert result.outcome('queues "a".x-message-ttl').startswith("changed: ")
    assert "what comes through mixed does not expire" in result.outcome('queues "b".x-message-ttl')


def granted(result: Migrated, match: str, permission: Permission) -> frozenset[str]:
    return result.config.security_settings[match].get(permission, frozenset())


def test_users_and_permissions(tmp_path: Path) -> None:
    """Regular expressions are worked out for the names that there are; passwords are not carried over."""
    everything = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    result = migrate_definitions(
        tmp_path,
        users=[
            {"name": "ann", "password_hash": "AAAA", "tags": ["administrator"]},
            {"name": "bob", "password": "sesame", "tags": "monitoring"},
            {"name": "cid", "password_hash": "AAAA", "tags": []},
        ],
        permissions=[
            {"user": "ann"} | everything,
            {"user": "bob", "vhost": "/", "configure": "^$", "write": "^orders$", "read": "^work\\."},
            {"user": "cid"} | everything,
            {"user": "cid", "vhost": "other", "configure": "", "write": "", "read": ""},
            {"user": "gone"} | everything,
        ],
        topic_permissions=[{"user": "cid", "vhost": "/", "exchange": "orders", "write": "^a", "read": ".*"}],
        queues=[queue("work.a"), queue("rest")],
        exchanges=[exchange("orders", "topic"), exchange("inner", internal=True)],
    )

    users = (tmp_path / "new" / "etc" / "artemis-users.properties").read_text()
    assert [line.partition(" ")[0] for line in users.splitlines()[1:]] == ["bob"]
    assert granted(result, "#", Permission.SEND) == {"ann", "cid"}
    assert granted(result, "#", Permission.MANAGE) == {"ann"}
    assert granted(result, "activemq.management", Permission.MANAGE) == {"ann"}
    assert granted(result, "orders", Permission.SEND) == {"ann", "bob"}
    assert granted(result, "work.a", Permission.CONSUME) == {"ann", "bob", "cid"}
    assert granted(result, "work.a", Permission.SEND) == {"ann", "cid"}
    assert granted(result, "inner", Permission.SEND) == frozenset()
    assert "rest" not in result.config.security_settings
    assert "the hash cannot be verified here" in result.outcome('users "ann".password_hash')
    assert "there is no such user" in result.outcome('permissions "gone"')
    assert "may not use exchange orders at all" in result.outcome('topic_permissions "cid"')
    assert "sesame" not in result.report


def test_one_virtual_host_is_migrated_at_a_time(tmp_path: Path) -> None:
    hosts = {"vhosts": [{"name": "/"}, {"name": "test"}]}
    queues = [queue("a"), queue("b") | {"vhost": "test"}]
    first = migrate_definitions(tmp_path, queues=queues, **hosts)
    second = migrate_definitions(tmp_path, "--virtual-host", "test", "--force", queues=queues, **hosts)

    assert (set(queues_of(first)), set(queues_of(second))) == ({"a"}, {"b"})
    assert first.exit_code == 1
    assert first.outcome('vhosts "test"').startswith("dropped: one virtual host is migrated at a time")


def test_an_export_of_one_host_does_not_name_it(tmp_path: Path) -> None:
    one = {key: value for key, value in queue("a").items() if key != "vhost"}

    assert set(queues_of(migrate_definitions(tmp_path, vhosts=[], queues=[one]))) == {"a"}


@pytest.mark.parametrize(
    ("member", "value", "element", "expected"),
    [
        ("exchanges", exchange("d", "x-delayed-message"), 'exchanges "d".type', "comes from a plugin"),
        ("exchanges", exchange("a/b"), 'exchanges "a/b"', "this broker refuses exchange"),
        ("exchanges", exchange("qpid.e"), 'exchanges "qpid.e"', "this broker refuses exchange"),
        ("queues", queue("a.*"), 'queues "a.*"', "`*` and `#` are wildcards in addresses here"),
        ("queues", queue("a::b"), 'queues "a::b"', "`::`"),
        ("parameters", {"vhost": "/", "component": "shovel", "name": "s", "value": {}}, 'parameters "s"', "shovel: "),
        ("bindings", binding("no", "q"), 'bindings "no to q"', "exchange no is not there"),
        ("unheard", {"a": 1}, "unheard", "is not known to this migration"),
    ],
)
def test_what_is_left_out(tmp_path: Path, member: str, value: dict[str, Any], element: str, expected: str) -> None:
    """With what refers to it; the rest is migrated."""
    result = migrate_definitions(tmp_path, **{member: [value]})

    assert result.exit_code == 1
    assert any(f": {element}: dropped: " in line and expected in line for line in result.report.splitlines()), (
        result.report
    )


def test_names_with_dots_and_backslashes_have_their_own_settings(tmp_path: Path) -> None:
    result = migrate_definitions(tmp_path, queues=[queue("a\\b.c", message_ttl=5)])

    assert result.setting("a\\\\b.c", "max-expiry-delay") == 5


def test_an_exchange_is_as_declared(tmp_path: Path) -> None:
    result = migrate_definitions(tmp_path, exchanges=[exchange("e", "headers", durable=False)])

    assert result.config.exchanges.exchanges == (
        ExchangeConfig(
            name="e",
            type=ExchangeType.HEADERS,
            durable=False,
            unroutable=Unroutable.REJECT,
            configuration_managed=True,
        ),
    )
