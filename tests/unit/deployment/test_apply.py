"""A plan applied to a broker that runs: what changes at once, what is refused, what waits for a restart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from artemis_amqp.engine.performatives import Detach
from artemis_py.broker import Broker
from artemis_py.config.broker_config import BrokerConfig, LoginConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.divert import Divert
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.address_settings import AddressSettings, DeletionPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.queue_config import AddressConfig, QueueConfig
from artemis_py.deployment.apply import Deployment
from artemis_py.deployment.plan import EMPTY, Plan, plan
from artemis_py.errors import ConfigError, NotAuthorized, Problem
from artemis_py.security.permissions import AccessRules
from artemis_py.store.disk import DiskLimit, DiskMonitor
from artemis_py.transport.config import AcceptorConfig
from tests.amqp_broker import Broker as AmqpBroker
from tests.amqp_broker import only
from tests.core_harness import attach, make_domain, make_message, make_queue, make_session, send, settle_down
from tests.line_protocol import LineProtocolManager
from tests.mqtt_site import Site, connected

LINE = [LineProtocolManager]
ANYCAST = frozenset((RoutingType.ANYCAST,))
DURABLE = {"persistence_enabled": True}


def queue(name: str = "q", address: str = "a", **options: Any) -> QueueConfig:
    options = {"routing_type": RoutingType.ANYCAST, "configuration_managed": True} | options
    return QueueConfig(name=name, address=address, **options)


def address(*queues: QueueConfig, name: str = "a") -> AddressConfig:
    return AddressConfig(name=name, routing_types=ANYCAST, queues=queues)


def config(*addresses: AddressConfig, **parts: Any) -> BrokerConfig:
    return evolve(embedded_config(), addresses=addresses, **parts)


def planned(broker: Broker, wanted: BrokerConfig) -> Plan:
    """What a reload would do."""
    return plan(broker.deployment.running(wanted), wanted)


def reload(broker: Broker, wanted: BrokerConfig) -> list[Problem]:
    """Do it, in a turn."""
    problems = broker.deployment.apply(planned(broker, wanted))
    settle_down(broker.domain)
    return problems


async def test_the_start_leaves_nothing_to_do() -> None:
    """The start is the same way as a reload, so a reload of the same file finds no difference."""
    wanted = config(address(queue(filter="a = 1"), queue("p", max_consumers=3)), address(name="b"))
    async with Broker(wanted, LINE) as broker:
        assert planned(broker, wanted).changes == ()


async def test_addresses_and_queues_are_added() -> None:
    async with Broker(config(), LINE) as broker:
        assert reload(broker, config(address(queue()))) == []

        send(broker.domain, "a", "m")
        assert broker.domain.queues["q"].message_count == 1


async def test_a_filter_is_changed_for_what_comes_and_messages_stay() -> None:
    async with Broker(config(address(queue(filter="colour = 'red'"))), LINE) as broker:
        domain = broker.domain

        def arrivals() -> int:
            for colour in ("red", "blue", "blue"):
                domain.route(make_message(colour=colour), domain.addresses["a"])
            return domain.queues["q"].message_count

        assert arrivals() == 1
        reload(broker, config(address(queue(filter="colour = 'blue'"))))

        assert arrivals() == 1 + 2


async def test_address_settings_reach_addresses_and_queues_that_exist() -> None:
    """A new match, a changed one, and one that is gone."""
    base = embedded_config().address_settings
    async with Broker(config(address(queue())), LINE) as broker:
        existing = broker.domain.addresses["a"]
        attempts = []
        for own in (AddressSettings(max_delivery_attempts=3), AddressSettings(max_delivery_attempts=4), None):
            settings = base if own is None else {**base, "a": own}
            reload(broker, config(address(queue()), address_settings=settings))
            attempts.append(existing.settings.max_delivery_attempts)

        assert attempts == [3, 4, 10]


async def test_max_consumers_below_those_that_are_there_is_refused_and_tried_again() -> None:
    """What was refused is as it was, the rest is done, and the next plan has the refused change once more."""
    wanted = config(address(queue(max_consumers=1), queue("p")))
    async with Broker(config(address(queue())), LINE) as broker:
        domain = broker.domain
        session = make_session(domain)
        consumers = [attach(domain, domain.queues["q"]) for _ in range(2)]

        (problem,) = reload(broker, wanted)

        assert problem.element == 'queue "q"'
        assert "has 2 consumers" in problem.message
        assert domain.queues["q"].settings.max_consumers == -1
        assert "p" in domain.queues
        for _, consumer in consumers:
            session.close_consumer(consumer)
        assert len(planned(broker, wanted).changes) == 1
        assert reload(broker, wanted) == []
        assert domain.queues["q"].settings.max_consumers == 1


async def test_a_refused_match_is_tried_again() -> None:
    """`#` stands at the end of a match; the place in the file is told."""
    wanted = config(address_settings={"#.a": AddressSettings()}, places={"#.a": ("broker.xml", 7)})
    async with Broker(config(), LINE) as broker:
        (problem,) = reload(broker, wanted)

        assert str(problem).startswith('broker.xml:7: address-setting "#.a": ')
        assert [change.element for change in planned(broker, wanted).changes] == ['address-setting "#.a"']
        assert "#" not in broker.deployment.config.address_settings


async def test_options_that_can_change_at_run_time_do() -> None:
    """Limits count from now on; what the broker was built with stays until the restart."""
    wanted = config(
        settings=BrokerSettings(global_max_messages=1, transaction_timeout_ms=5, id_cache_size=3, name="other"),
        login=LoginConfig(max_auto_created_per_user=2),
        graceful_shutdown_timeout_ms=7,
        acceptors=(AcceptorConfig(name="more", port=0),),
    )
    async with Broker(config(address(queue())), LINE) as broker:
        domain = broker.domain
        send(domain, "a", "m")
        assert not domain.account.is_full
        found = planned(broker, wanted)
        assert sorted(change.element for change in found.changes if change.needs_restart) == [
            'acceptor "embedded"',
            'acceptor "more"',
            "core/name",
        ]

        assert reload(broker, wanted) == []

        assert domain.account.is_full
        assert (domain.options.transaction_timeout_ms, domain.options.id_cache_size) == (5, 3)
        assert domain.creations.limit == 2
        assert broker.deployment.config.graceful_shutdown_timeout_ms == 7
        assert domain.options.name == "localhost"
        assert [fact.name for fact in broker.acceptor_facts()] == ["embedded"]
        assert all(change.needs_restart for change in planned(broker, wanted).changes)
        assert planned(broker, wanted).needs_restart


def test_the_disk_is_watched_by_the_limits_of_now(tmp_path: Path) -> None:
    """They count at the next look, which may come earlier or later than before."""
    domain = make_domain()
    monitor = DiskMonitor(tmp_path, DiskLimit(), domain.dispatcher.disk_changed)
    deployment = Deployment(Sessions(domain), disk=monitor)

    deployment.apply(plan(EMPTY, config(min_disk_free_bytes=1 << 62, disk_scan_period_ms=250)))

    assert monitor.scan() == 0.25
    assert domain.account.disk_is_full


async def test_a_queue_that_cannot_move_stays_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """As at a start."""
    async with Broker(config(address(queue())), LINE) as broker:
        assert reload(broker, config(address(), address(queue(address="b"), name="b"))) == []

        assert broker.domain.queues["q"].address.name == "a"
    assert "stored queue differs from broker.xml and stays as it is: name=q address=a durable=True" in caplog.text


async def test_a_queue_that_cannot_begin_to_keep_last_values_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Its other attributes follow; one that keeps them goes on without saying so."""
    before = config(address(queue()), address(queue("l", address="b", last_value_key="k"), name="b"))
    async with Broker(before, LINE) as broker:
        after = config(
            address(queue(last_value=True, max_consumers=3)), address(queue("l", address="b", enabled=False), name="b")
        )
        assert reload(broker, after) == []

        plain, last = broker.domain.queues["q"], broker.domain.queues["l"]
        assert (plain.settings.last_value, plain.settings.max_consumers) == (False, 3)
        assert (last.settings.last_value, last.settings.last_value_key, last.enabled) == (True, "k", False)
    assert "as broker.xml says: name=q last-value=False last-value-key=None" in caplog.text
    assert "name=l" not in caplog.text


async def test_what_clients_made_is_taken_over() -> None:
    """It was created on demand; from now on it is one of the configuration, and not deleted on its own."""
    async with Broker(config(), LINE) as broker:
        domain = broker.domain
        make_session(domain).producer("a")
        send(domain, "a", "m")
        wanted = config(address(queue("a")))

        assert reload(broker, wanted) == []

        assert domain.queues["a"].configuration_managed
        assert domain.queues["a"].message_count == 1
        assert planned(broker, wanted).changes == ()


async def test_a_plan_is_applied_to_what_is_there_when_it_is_applied() -> None:
    """Somebody created the queue, or deleted it, after the plan was shown."""
    async with Broker(config(address(queue("goes"))), LINE) as broker:
        domain = broker.domain
        shown = planned(broker, config(address(queue("goes", max_consumers=1), queue("comes", max_consumers=2))))
        domain.delete_queue("goes")
        make_queue(domain, "comes", address="a")

        assert broker.deployment.apply(shown) == []

        assert [domain.queues[name].settings.max_consumers for name in ("goes", "comes")] == [1, 2]


async def test_clients_feel_a_change_in_the_next_turn() -> None:
    """A queue that waited for a second consumer delivers to the first, without a byte from anybody."""
    waiting = config(address(queue("a", consumers_before_dispatch=2)))
    async with Broker(waiting, LINE) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.acceptor_facts()[0].port)
        writer.write(b"LINE alice\nTAKE a 1\nSEND a hello\nECHO nothing yet\n")
        heard = [await reader.readline() for _ in range(3)]
        wanted = config(address(queue("a", consumers_before_dispatch=1)))

        assert broker.change(planned(broker, wanted)) == []

        heard.append(await reader.readline())
        assert heard == [b"HELLO alice\n", b"SENT 1\n", b"nothing yet\n", b"MESSAGE hello\n"]
        writer.close()


# Deletions.


FORCE = {"#": AddressSettings(config_delete_queues=DeletionPolicy.FORCE)}
FORCE_ALL = {"#": AddressSettings(config_delete_addresses=DeletionPolicy.FORCE)}


async def test_force_deletes_what_the_configuration_has_no_more() -> None:
    """With its messages, and consumers are told."""
    async with Broker(config(address(queue(), queue("stays")), address_settings=FORCE), LINE) as broker:
        domain = broker.domain
        send(domain, "a", "m")
        recorder, _ = attach(domain, domain.queues["q"], credit=0)

        assert reload(broker, config(address(queue("stays")), address_settings=FORCE)) == []

        assert set(domain.queues) == {"stays"}
        assert recorder.ended_because == "it is no longer in the configuration"


async def test_force_deletes_addresses_but_those_made_on_demand() -> None:
    async with Broker(config(address(queue()), address_settings=FORCE_ALL), LINE) as broker:
        domain = broker.domain
        make_session(domain).producer("on.demand", RoutingType.ANYCAST)

        reload(broker, config(address_settings=FORCE_ALL))

        assert set(domain.addresses) == {"on.demand", "activemq.notifications"}


@pytest.mark.parametrize(("settings", "left"), [({}, {"q", "stays"}), (FORCE, {"stays"})])
async def test_force_works_at_the_start_too(
    tmp_path: Path, settings: dict[str, AddressSettings], left: set[str]
) -> None:
    """The store remembers which queues came from a configuration."""
    parts = {"home": tmp_path, "address_settings": settings, **DURABLE}
    async with Broker(config(address(queue(), queue("stays")), **parts), LINE):
        pass
    async with Broker(config(address(queue("stays")), **parts), LINE) as broker:
        assert set(broker.domain.queues) == left


# Mistakes that only the start finds.


async def test_all_that_is_refused_at_the_start_is_said_at_once() -> None:
    """Nothing is left running, and nobody has to start three times to learn of three mistakes."""
    wanted = config(address(queue("x" * 5000), queue("y" * 5000)))

    with pytest.raises(ConfigError) as caught:
        await Broker(wanted, LINE).start()

    assert len(caught.value.problems) == 2


def test_a_match_that_is_not_legal_is_said_before_the_start() -> None:
    with pytest.raises(ConfigError, match=r'address-setting "#\.a"'):
        Broker(config(address_settings={"#.a": AddressSettings()}), LINE)


# Permissions.

ALL = {permission: frozenset(("guests",)) for permission in Permission}
NOTHING: dict[Permission, frozenset[str]] = {}


def secured(folder: Path, rules: dict[str, Any]) -> BrokerConfig:
    (folder / "artemis-users.properties").write_text("")
    (folder / "artemis-roles.properties").write_text("")
    return config(address(queue()), security_enabled=True, login=LoginConfig(folder=folder), security_settings=rules)


class Told:
    """A session's connection."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def closed_by_operator(self, reason: str) -> None: ...

    def refer(self, only_followers: bool) -> None: ...

    def user_removed(self, reason: str) -> None:
        self.events.append(reason)

    def rights_changed(self) -> None:
        self.events.append("rights")


async def test_permissions_change_for_sessions_that_are_open(tmp_path: Path) -> None:
    """Granted and taken away, without a new login; once for each session, however many matches changed."""
    async with Broker(secured(tmp_path, {"#": NOTHING}), LINE) as broker:
        session = broker.services.sessions.open(Subject("tester", frozenset(("guests",))))
        session.client = told = Told()
        with pytest.raises(NotAuthorized):
            session.producer("a")

        assert reload(broker, secured(tmp_path, {"#": ALL, "a": ALL})) == []
        session.producer("a")
        assert told.events == ["rights"]

        reload(broker, secured(tmp_path, {"#": ALL, "a": NOTHING}))
        with pytest.raises(NotAuthorized):
            session.producer("a")
        reload(broker, secured(tmp_path, {"#": ALL}))
        session.producer("a")
        assert reload(broker, secured(tmp_path, {"#": ALL})) == []
        assert told.events == ["rights"] * 3


async def test_security_itself_is_switched_by_a_restart(tmp_path: Path) -> None:
    """Nobody who was let in without a password gets rights by a reload; the rules wait with it."""
    async with Broker(config(address(queue())), LINE) as broker:
        wanted = secured(tmp_path, {"#": NOTHING})

        assert reload(broker, wanted) == []

        make_session(broker.domain).producer("a")
        assert "core/security-enabled" in [each.element for each in planned(broker, wanted).changes]


class Roleless:
    """Rules for clients that log in without roles: here they are guests."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return self._rules.allows(evolve(subject, roles=frozenset(("guests",))), permission, address, queue)


NO_CONSUMING: dict[Permission, frozenset[str]] = {
    permission: roles for permission, roles in ALL.items() if permission is not Permission.CONSUME
}


def test_an_amqp_link_that_is_not_allowed_any_more_is_detached() -> None:
    """The connection stays, and so does what is still allowed."""
    access = AccessRules({}, BrokerSettings())
    domain = make_domain()
    domain.access = Roleless(access)
    broker = AmqpBroker(domain=domain)
    deployment = Deployment(broker.host.sessions, access)
    first = evolve(EMPTY, security_settings={"#": ALL})
    deployment.apply(plan(EMPTY, first))
    broker.queue("q")
    broker.queue("p")
    peer = broker.connect()
    peer.receive(name="one", handle=0)
    peer.send(name="two", handle=1)

    deployment.apply(plan(first, evolve(first, security_settings={"#": NO_CONSUMING})))

    detach = only(peer.hear(), Detach)
    assert detach.handle == 0
    assert "consume" in str(detach.error)


def test_mqtt_reads_by_the_permissions_of_now() -> None:
    """A subscription with wildcards asks for each address; what it was told before is forgotten."""
    access = AccessRules({}, BrokerSettings())
    with Site(access=Roleless(access)) as site:
        deployment = Deployment(site.services.sessions, access)
        wanted = evolve(EMPTY, security_settings={"#": ALL})
        deployment.apply(plan(EMPTY, wanted))
        reader, writer = connected(site, "reader"), connected(site, "writer")
        reader.subscribe("a/#")
        received = []
        for denied in (None, "a.b", None):
            rules: dict[str, Any] = {"#": ALL} if denied is None else {"#": ALL, denied: NO_CONSUMING}
            running, wanted = wanted, evolve(wanted, security_settings=rules)
            deployment.apply(plan(running, wanted))
            writer.publish("a/b")
            received.append(len(reader.packets()))

        assert received == [1, 0, 1]


# The start and a reload take the same way.

FORCED = AddressSettings(config_delete_queues=DeletionPolicy.FORCE, config_delete_addresses=DeletionPolicy.FORCE)

CONFIGURATIONS = (
    config(),
    config(address(queue(filter="a = 1"), queue("p", max_consumers=3)), address_settings={"#": FORCED}),
    config(
        address(queue(), queue("r", exclusive=True)),
        address(queue("s", "b", enabled=False), name="b"),
        address_settings={"#": FORCED, "a": AddressSettings(default_exclusive_queue=True, max_size_messages=9)},
        settings=BrokerSettings(global_max_messages=7),
        diverts=(
            DivertConfig(name="d", address="a", forwarding_address="b"),
            DivertConfig(name="p", address="c", forwarding_address="b"),
        ),
    ),
    config(
        address(queue("s", "b"), name="b"),
        diverts=(DivertConfig(name="d", address="a", forwarding_address="b", exclusive=True),),
        address_settings={"#": FORCED, "b": AddressSettings(max_delivery_attempts=2)},
        login=LoginConfig(max_auto_created_per_user=1),
    ),
)


def state(broker: Broker) -> dict[str, object]:
    """What a configuration decides, as far as a running broker can take it up."""
    domain = broker.domain
    return {
        "addresses": {each.name: (each.routing_types, each.settings) for each in domain.addresses.values()},
        "queues": {
            each.name: (
                each.config,
                each.enabled,
                each.settings.exclusive,
                each.settings.max_consumers,
                str(each.filter),
            )
            for each in domain.queues.values()
        },
        "diverts": {
            each.name: (each.config, each.address.name, each.supersedes)
            for each in domain.others.values()
            if isinstance(each, Divert)
        },
        "limits": (domain.account.max_messages, domain.account.max_bytes, domain.creations.limit),
        "options": domain.options,
    }


@pytest.mark.parametrize("wanted", CONFIGURATIONS)
@pytest.mark.parametrize("before", CONFIGURATIONS)
async def test_a_reload_ends_where_a_start_ends(before: BrokerConfig, wanted: BrokerConfig) -> None:
    """With deletions on, whatever ran before."""
    wanted = wanted if wanted.address_settings.get("#") == FORCED else evolve(wanted, address_settings={"#": FORCED})
    async with Broker(wanted, LINE) as started, Broker(before, LINE) as changed:
        assert reload(changed, wanted) == []

        assert state(changed) == state(started)
        assert planned(changed, wanted).changes == ()
