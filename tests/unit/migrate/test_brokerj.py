"""A configuration of Broker-J: what each part becomes, by the file that this broker would start with."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import FullPolicy
from artemis_py.core.settings.exchange_config import Destination, ExchangeLifetime, Unroutable
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.security.authenticator import AnonymousAccess
from tests.line_protocol import LineProtocolManager
from tests.migration import Migrated, migrate
from tests.unit.core.exchange_world import reached

NODE = {"name": "default", "type": "JSON", "defaultVirtualHostNode": "true"}
PORT = {"name": "AMQP", "port": "${qpid.amqp_port}", "authenticationProvider": "plain", "protocols": ["AMQP_1_0"]}
PLAIN = {"name": "plain", "type": "Plain", "users": [{"name": "ann", "type": "managed", "password": "sesame"}]}


def exchange(name: str, kind: str, *bindings: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "durable": True, "durableBindings": list(bindings)} | more


def binding(key: str, destination: str, **arguments: Any) -> dict[str, Any]:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    return {"bindingKey": key, "destination": destination, "arguments": given}


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "standard", "durable": True} | more


def written(folder: Path, host: dict[str, Any] | None = None, **members: Any) -> Path:
    """A work directory as Broker-J has it."""
    usual = {"name": "Broker", "modelVersion": "9.0", "virtualhostnodes": [NODE], "ports": [PORT]}
    file = folder / "config.json"
    file.write_text(json.dumps(usual | {"authenticationproviders": [PLAIN]} | members, indent=1), encoding="utf-8")
    if host is not None:
        place = folder / "default" / "config" / "default.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({"name": "default", "type": "DERBY", "modelVersion": "9.0"} | host, indent=1))
    return file


def migrate_host(folder: Path, *arguments: str, broker: dict[str, Any] | None = None, **host: Any) -> Migrated:
    return migrate(written(folder, host, **(broker or {})), folder / "new", *arguments)


def queues_of(result: Migrated) -> dict[str, QueueConfig]:
    return {queue.name: queue for address in result.config.addresses for queue in address.queues}


def granted(result: Migrated, match: str, permission: Permission) -> frozenset[str]:
    return result.config.security_settings[match].get(permission, frozenset())


def test_exchanges_queues_and_bindings(tmp_path: Path) -> None:
    result = migrate_host(
        tmp_path,
        queues=[queue("work"), queue("both"), queue("rest", durable=False)],
        exchanges=[
            exchange("amq.direct", "direct"),
            exchange("amq.topic", "topic", binding("a.#", "work", x_filter_jms_selector="n > 1")),
            exchange("both", "fanout", binding("1", "both"), binding("2", "amq.topic")),
            exchange(
                "orders",
                "direct",
                binding("k", "both", x_replacement_routing_key="x"),
                alternateBinding={"destination": "work"},
                unroutableMessageBehaviour="REJECT",
                lifetimePolicy="DELETE_ON_NO_LINKS",
            ),
            exchange("amq.match", "headers", binding("h", "work", x_match="ANY", n=5, there=None, x_note="y")),
        ],
    )
    found = {each.name: each for each in result.config.exchanges.exchanges}

    assert set(found) == {"amq.topic", "both", "orders", "amq.match"}
    assert found["orders"].alternate == Destination("work", is_queue=True)
    assert (found["orders"].unroutable, found["both"].unroutable) == (Unroutable.REJECT, Unroutable.DISCARD)
    assert found["orders"].lifetime is ExchangeLifetime.LAST_BINDING
    assert [(each.exchange, each.key, str(each.destination), dict(each.arguments)) for each in _bindings(result)] == [
        ("amq.topic", "a.#", "queue 'work'", {"x-filter-jms-selector": "n > 1"}),
        ("both", "1", "queue 'both'", {}),
        ("both", "2", "exchange 'amq.topic'", {}),
        ("orders", "k", "exchange 'both'", {"x-replacement-routing-key": "x"}),
        ("amq.match", "h", "queue 'work'", {"x-match": "any", "n": 5, "there": None}),
    ]
    assert {name: each.durable for name, each in queues_of(result).items()} == {
        "work": True,
        "both": True,
        "rest": False,
    }
    assert result.outcome('exchanges "amq.direct"').startswith("not needed: ")
    assert f"{tmp_path}/default/config/default.json:" in result.report


def _bindings(result: Migrated) -> Any:
    return result.config.exchanges.bindings


async def test_the_instance_starts_and_routes(tmp_path: Path) -> None:
    result = migrate_host(
        tmp_path,
        queues=[queue("work"), queue("rest")],
        exchanges=[exchange("e", "topic", binding("a.*", "work"), alternateBinding={"destination": "rest"})],
    )
    async with Broker(evolve(result.config, acceptors=()), [LineProtocolManager]) as broker:
        assert reached(broker.domain, "e", "a.b") == {"work"}
        assert reached(broker.domain, "e", "b") == {"rest"}


@pytest.mark.parametrize(
    ("attributes", "settings", "expected"),
    [
        ({"maximumQueueDepthMessages": 5, "overflowPolicy": "RING"}, {}, {"ring_size": 5}),
        (
            {"maximumQueueDepthMessages": 5, "maximumQueueDepthBytes": "600", "overflowPolicy": "REJECT"},
            {"max-size-messages": 5, "max-size-bytes": 600, "address-full-policy": FullPolicy.FAIL},
            {},
        ),
        (
            {"maximumQueueDepthBytes": 600, "overflowPolicy": "PRODUCER_FLOW_CONTROL"},
            {"max-size-bytes": 600, "address-full-policy": FullPolicy.BLOCK},
            {},
        ),
        ({"maximumDeliveryAttempts": 3}, {"max-delivery-attempts": 3}, {}),
        ({"maximumDeliveryAttempts": 0}, {"max-delivery-attempts": -1}, {}),
        ({"maximumMessageTtl": 70, "minimumMessageTtl": 5}, {"max-expiry-delay": 70, "min-expiry-delay": 5}, {}),
        ({"type": "lvq"}, {}, {"last_value_key": "qpid.LVQ_key"}),
        ({"type": "lvq", "lvqKey": "k"}, {}, {"last_value_key": "k"}),
        ({"ensureNondestructiveConsumers": True, "maximumLiveConsumers": 2}, {}, {"max_consumers": 2}),
        ({"exclusive": "LINK"}, {}, {"max_consumers": 1}),
        ({"type": "priority", "priorities": 10, "holdOnPublishEnabled": True}, {}, {}),
    ],
)
def test_attributes_of_queues(
    tmp_path: Path, attributes: dict[str, Any], settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    result = migrate_host(tmp_path, queues=[queue("q", **attributes)])

    assert result.exit_code == 0
    assert {name: result.setting("q", name) for name in settings} == settings
    made = queues_of(result)["q"]
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("attributes", "member", "expected"),
    [
        ({"sortKey": "k"}, "sortKey", "the queue delivers in the order of arrival"),
        ({"maximumQueueDepthBytes": 5, "overflowPolicy": "RING"}, "maximumQueueDepthBytes", "a ring counts messages"),
        ({"exclusive": "PRINCIPAL"}, "exclusive", "nothing else limits who may consume"),
        ({"messageDurability": "ALWAYS"}, "messageDurability", "as durable as its producer says"),
        ({"alternateBinding": {"destination": "no"}}, "alternateBinding", "no queue would get"),
        ({"unheardOf": 1}, "unheardOf", "is not known to this migration"),
    ],
)
def test_what_a_queue_loses(tmp_path: Path, attributes: dict[str, Any], member: str, expected: str) -> None:
    result = migrate_host(tmp_path, queues=[queue("q", **attributes)])

    assert result.exit_code == 1
    assert result.outcome(f'queues "q".{member}').startswith("dropped: ")
    assert expected in result.outcome(f'queues "q".{member}')


def test_alternates_of_queues_are_dead_letter_addresses(tmp_path: Path) -> None:
    """An exchange is one if it leads to one queue."""
    result = migrate_host(
        tmp_path,
        queues=[
            queue("a", alternateBinding={"destination": "lost"}, expiryPolicy="ROUTE_TO_ALTERNATE"),
            queue("b", alternateBinding={"destination": "dlx"}),
            queue("lost"),
        ],
        exchanges=[exchange("dlx", "fanout", binding("", "lost"))],
    )

    assert [result.setting(name, "dead-letter-address") for name in "ab"] == ["lost", "lost"]
    assert [result.setting(name, "expiry-address") for name in "ab"] == ["lost", None]


def test_queues_are_created_on_demand_as_the_policies_say(tmp_path: Path) -> None:
    """Without one, nothing is."""
    policies = [
        {"pattern": "a\\..*", "nodeType": "queue", "createdOnPublish": "true"},
        {"pattern": "x[0-9]", "nodeType": "queue"},
        {"pattern": "t.*", "nodeType": "exchange"},
    ]
    result = migrate_host(tmp_path, nodeAutoCreationPolicies=policies)

    assert result.setting("#", "auto-create-queues") is False
    assert result.setting("a.#", "auto-create-queues") is True
    assert result.report.count(": dropped: nodes that ") == 2


def test_ports_become_acceptors(tmp_path: Path) -> None:
    ports = [
        PORT | {"bindingAddress": "10.0.0.1", "maxOpenConnections": 9},
        PORT | {"name": "old", "port": 5673, "protocols": ["AMQP_0_9_1"]},
        PORT | {"name": "all of them", "port": 5674, "protocols": []},
        PORT | {"name": "HTTP", "port": 8080, "protocols": ["HTTP"]},
        PORT | {"name": "TLS", "port": 5671, "transports": ["SSL"], "keyStore": "none"},
    ]
    result = migrate_host(tmp_path, broker={"ports": ports, "context": {"qpid.amqp_port": "5679"}})

    assert [(each.name, each.host, each.port, each.connections_allowed) for each in result.config.acceptors] == [
        ("AMQP", "10.0.0.1", 5679, 9),
        ("all-of-them", "0.0.0.0", 5674, -1),
    ]
    assert "clients need AMQP 1.0" in result.outcome('ports "old"')
    assert result.outcome('ports "all of them"').startswith("changed: ")
    assert "not by HTTP" in result.outcome('ports "HTTP"')
    assert "left out, not opened without TLS" in result.outcome('ports "TLS"')


def test_users_come_from_the_providers_of_the_ports(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("# users\nbob:geheim\n")
    (tmp_path / "groups").write_text("team.users = ann, bob\n")
    digest = base64.b64encode(b"0123456789abcdef").decode()
    (tmp_path / "md5").write_text(f"eve:{digest}\n")
    providers = [
        {"name": "file", "type": "PlainPasswordFile", "path": "${qpid.home_dir}${file.separator}passwd"},
        {"name": "md5", "type": "Base64MD5PasswordFile", "path": "md5"},
        {"name": "unused", "type": "SimpleLDAP"},
        PLAIN,
    ]
    ports = [
        PORT | {"name": name, "port": 7000 + number, "authenticationProvider": name}
        for number, name in enumerate(["file", "md5", "plain"])
    ]
    groups = [
        {"name": "g", "type": "GroupFile", "path": "groups"},
        {"name": "m", "type": "ManagedGroupProvider", "groups": [{"name": "ops", "groupmembers": [{"name": "ann"}]}]},
    ]
    result = migrate_host(
        tmp_path, broker={"authenticationproviders": providers, "ports": ports, "groupproviders": groups}
    )
    roles = (tmp_path / "new" / "etc" / "artemis-roles.properties").read_text()
    users = (tmp_path / "new" / "etc" / "artemis-users.properties").read_text()

    assert [line.partition(" ")[0] for line in users.splitlines()[1:]] == ["bob", "ann"]
    assert "team = ann, bob" in roles
    assert "ops = ann" in roles
    assert result.config.login.anonymous_access is AnonymousAccess.NOWHERE
    assert "cannot be verified here" in result.outcome('users "eve"')
    assert result.outcome('authenticationproviders "unused"').startswith("not needed: ")
    assert "geheim" not in result.report + users


def test_without_rules_everybody_who_logs_in_may_do_everything(tmp_path: Path) -> None:
    result = migrate_host(tmp_path, queues=[queue("q")])

    assert granted(result, "#", Permission.SEND) == {"ann"}
    assert granted(result, "#", Permission.MANAGE) == {"ann"}


def test_guests(tmp_path: Path) -> None:
    broker = {"authenticationproviders": [{"name": "plain", "type": "Anonymous"}]}
    result = migrate_host(tmp_path, broker=broker)

    assert result.config.login.anonymous_access is AnonymousAccess.EVERYWHERE
    assert granted(result, "#", Permission.SEND) == {"guests"}


RULES = """
# comments stay out
ACL ALLOW ops ALL ALL
ACL DENY ann PUBLISH EXCHANGE name="secret*"
ACL ALLOW-LOG ann PUBLISH EXCHANGE name="orders" routingKey="a"
10 ACL ALLOW ann PUBLISH EXCHANGE name="orders"
ACL ALLOW ALL CONSUME QUEUE name="work.*"
ACL ALLOW ann PUBLISH EXCHANGE name="" routingKey="direct"
ACL ALLOW ann CONFIGURE BROKER
nonsense
"""


def test_access_rules_are_worked_out_for_each_name(tmp_path: Path) -> None:
    """The first rule that fits decides; what cannot be said here is not allowed."""
    (tmp_path / "acl").write_text(RULES)
    users = [{"name": name, "type": "managed", "password": "x"} for name in ("ann", "eve", "root")]
    broker = {
        "authenticationproviders": [PLAIN | {"users": users}],
        "accesscontrolproviders": [{"name": "acl", "type": "AclFile", "path": "acl"}],
        "groupproviders": [{"name": "m", "type": "Managed", "groups": [_group("ops", "root")]}],
    }
    names = ["orders", "secret.e", "other"]
    result = migrate_host(
        tmp_path,
        broker=broker,
        queues=[queue("work.a"), queue("direct")],
        exchanges=[exchange(name, "direct") for name in names],
    )

    assert granted(result, "#", Permission.SEND) == {"root"}
    assert granted(result, "#", Permission.MANAGE) == {"root"}
    assert granted(result, "orders", Permission.SEND) == {"ann", "root"}
    assert granted(result, "work.a", Permission.CONSUME) == {"ann", "eve", "root"}
    assert granted(result, "work.a", Permission.SEND) == {"root"}
    assert granted(result, "direct", Permission.SEND) == {"ann", "root"}
    assert all("ann" not in granted(result, name, Permission.SEND) for name in names[1:])
    assert "CONFIGURE BROKER is no permission here" in result.report
    assert "acl:10: nonsense: dropped: is no rule that is known here" in result.report


def _group(name: str, *members: str) -> dict[str, Any]:
    return {"name": name, "groupmembers": [{"name": member} for member in members]}


def test_rules_that_are_objects(tmp_path: Path) -> None:
    rule = {"identity": "ann", "operation": "PUBLISH", "objectType": "EXCHANGE", "attributes": {"NAME": "e"}}
    provider = {"name": "r", "type": "RuleBased", "rules": [rule | {"outcome": "ALLOW"}]}
    result = migrate_host(tmp_path, exchanges=[exchange("e", "fanout")], virtualhostaccesscontrolproviders=[provider])

    assert granted(result, "e", Permission.SEND) == {"ann"}
    assert granted(result, "#", Permission.SEND) == frozenset()


def test_one_virtual_host_is_migrated_at_a_time(tmp_path: Path) -> None:
    other = {"name": "other", "type": "Memory", "virtualHostInitialConfiguration": json.dumps({"queues": [queue("o")]})}
    file = written(tmp_path, {"queues": [queue("d")]}, virtualhostnodes=[NODE, other])
    first = migrate(file, tmp_path / "new")
    second = migrate(file, tmp_path / "second", "--virtual-host", "other")

    assert (set(queues_of(first)), set(queues_of(second))) == ({"d"}, {"o"})
    assert first.outcome('virtualhostnodes "other"').startswith("dropped: one virtual host")
    assert "what it began with is migrated" in second.outcome('virtualhostnodes "other"')


def test_a_host_whose_file_is_missing_is_named(tmp_path: Path) -> None:
    result = migrate(written(tmp_path), tmp_path / "new")

    assert result.exit_code == 1
    assert "there is no default/config/default.json" in result.outcome('virtualhostnodes "default"')


def test_the_file_of_a_virtual_host_alone(tmp_path: Path) -> None:
    file = tmp_path / "default.json"
    file.write_text(json.dumps({"name": "default", "nodeAutoCreationPolicies": [], "queues": [queue("q")]}))
    result = migrate(file, tmp_path / "new")

    assert set(queues_of(result)) == {"q"}
    assert [each.host for each in result.config.acceptors] == ["127.0.0.1"]


def test_a_file_with_comments_and_variables_without_a_value(tmp_path: Path) -> None:
    """As the one that Broker-J is shipped with."""
    node = NODE | {"virtualHostInitialConfiguration": "${qpid.initial_config_virtualhost_config}"}
    aliases = PORT | {"virtualhostaliases": [{"name": "nameAlias", "type": "nameAlias"}]}
    file = written(tmp_path, virtualhostnodes=[node], ports=[aliases])
    file.write_text("/*\n * Licence {\n */\n// more\n" + file.read_text())
    result = migrate(file, tmp_path / "new")

    assert [each.port for each in result.config.acceptors] == [5672]
    assert granted(result, "#", Permission.SEND) == {"ann"}
    assert result.outcome('virtualhostnodes "default"').startswith("dropped: ")
    assert result.outcome('ports "AMQP".virtualhostaliases').startswith("not needed: ")


def test_older_models_are_named(tmp_path: Path) -> None:
    result = migrate_host(tmp_path, broker={"modelVersion": "6.1"})

    assert "model 6.1 is not known here" in result.outcome("modelVersion")
