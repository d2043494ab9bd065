"""What the metrics of a broker show, and that their number does not grow with what clients do."""

from artemis_py.core.queues.outcomes import ACCEPTED, FAILED, REJECTED
from artemis_py.core.routing.duplicates import DUPLICATE_ID
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.runtime.events import (
    ConnectionClosed,
    ConnectionOpened,
    ConnectionRefused,
    Denied,
    Duplicate,
    RefusalCause,
)
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.management.facts import AcceptorFacts
from artemis_py.management.metrics.broker_metrics import PER_STEP
from artemis_py.management.metrics.catalogue import CATALOGUE
from artemis_py.release import is_compiled
from tests.core_harness import attach, make_queue, make_session, pass_time, send
from tests.unit.core.exchange_world import make_exchange, publish
from tests.unit.management.metrics.world import MetricsWorld, values_of, what_is_not_zero
from tests.unit.management.test_mesh_control import Member, Two


def opened(id: int, protocol: str = "AMQP", acceptor: str = "main") -> ConnectionOpened:
    return ConnectionOpened(id, protocol, acceptor, "10.0.0.1:5000")


def closed(id: int, protocol: str = "AMQP", acceptor: str = "main") -> ConnectionClosed:
    return ConnectionClosed(id, protocol, acceptor, "10.0.0.1:5000", "closed by peer")


def test_who_the_broker_is() -> None:
    values = MetricsWorld(options=BrokerSettings(name="north")).read()

    assert values["broker"] == {"north node-1": 1}
    ((build, value),) = values["build"].items()
    assert (build.split()[0], build.split()[2], value) == ("1.2.3", str(is_compiled()).lower(), 1)
    assert values["start_time_seconds"] == 995.0


def test_messages() -> None:
    world = MetricsWorld()
    queue = make_queue(world.domain)
    send(world.domain, "q", *"abcde")
    recorder, consumer = attach(world.domain, queue, credit=3)
    first, second, _ = recorder.take()
    consumer.settle(first, ACCEPTED)
    consumer.settle(second, REJECTED)
    values = world.read()

    assert values["queue_messages"] == {"waiting": 2, "delivering": 1, "scheduled": 0}
    assert (values["messages_routed"], values["messages_added"]) == (5, 5)
    assert (values["messages_acknowledged"], values["messages_killed"]) == (1, 1)
    assert what_is_not_zero(values["messages_discarded"]) == {"no-dead-letter-address": 1}


def test_dead_letters_by_cause() -> None:
    world = MetricsWorld({"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1)})
    make_queue(world.domain, "DLQ")
    queue = make_queue(world.domain)
    send(world.domain, "q", "a", "b")
    recorder, consumer = attach(world.domain, queue)
    first, second = recorder.take()
    consumer.settle(first, REJECTED)
    consumer.settle(second, FAILED)
    values = world.read()

    assert what_is_not_zero(values["messages_dead_lettered"]) == {"rejected": 1, "attempts": 1}
    # Nobody need watch the dead-letter queue with a consumer.
    assert values["queues_idle_with_messages"] == 0


def test_messages_that_go_nowhere() -> None:
    world = MetricsWorld({"full": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.DROP)})
    make_queue(world.domain, "full")
    make_queue(world.domain, "gone")
    make_exchange(world.domain)
    world.domain.delete_queue("gone")
    send(world.domain, "full", "a", "b", "c")
    send(world.domain, "gone", "a")
    publish(world.domain, "e")
    values = world.read()

    assert (values["messages_dropped"], values["messages_unrouted"], values["addresses_full"]) == (2, 2, 1)


def test_queues_and_addresses_by_kind() -> None:
    world = MetricsWorld()
    make_queue(world.domain, "a")
    make_queue(world.domain, "b", auto_created=True)
    make_queue(world.domain, "c", configuration_managed=True)
    make_queue(world.domain, "d", internal=True)
    make_session(world.domain).create_temporary_queue(world.domain.queues["a"].routing_type)
    send(world.domain, "a", "x")
    world.domain.delete_queue("b")
    values = world.read()

    assert values["queues"] == {"client": 1, "auto": 0, "configured": 1, "internal": 1, "temporary": 1}
    assert values["addresses"] == {"created": 4, "auto": 0, "internal": 0, "temporary": 1}
    assert (values["queues_created"], values["queues_deleted"]) == (5, 1)
    assert values["queues_idle_with_messages"] == 1


def test_sessions_and_consumers_by_protocol() -> None:
    world = MetricsWorld()
    queue = make_queue(world.domain)
    sessions = world.services.sessions
    for number, protocol in enumerate(["AMQP", "AMQP", "MQTT"]):
        session = sessions.open(Subject("ann"), f"client-{number}", f"10.0.0.{number}:1", protocol)
    attached, _ = attach(world.domain, queue)
    session.consume(queue, attached)
    values = world.read()

    assert values["sessions"] == {"AMQP": 2, "MQTT": 1}
    assert values["consumers"] == {"AMQP": 0, "MQTT": 1}


def test_connections() -> None:
    world = MetricsWorld()
    events = world.domain.events
    for event in (opened(1), opened(2), opened(3, "MQTT", "iot"), closed(1)):
        events.emit(event)
    events.emit(ConnectionRefused(0, "", "iot", "10.0.0.1:5000", RefusalCause.TLS_FAILED, "eof"))
    values = world.read()

    assert values["connections"] == {"AMQP main": 1, "MQTT iot": 1}
    assert values["connections_opened"] == {"AMQP main": 2, "MQTT iot": 1}
    assert values["connections_closed"] == {"AMQP main": 1, "MQTT iot": 0}
    assert values["connections_refused"] == {"iot tls-failed": 1}


def test_a_connection_is_closed_under_the_labels_it_was_opened_with() -> None:
    """Acceptors end before their connections when a broker stops, and when a reload removes them."""
    acceptors = [AcceptorFacts("main", "127.0.0.1", 5672, ("AMQP",))]
    world = MetricsWorld(acceptors=acceptors)
    world.domain.events.emit(opened(1))
    acceptors.clear()
    world.domain.events.emit(closed(1))

    assert world.read()["connections"] == {"AMQP main": 0}


def test_connections_that_the_broker_makes_do_not_show_the_address_of_the_peer() -> None:
    world = MetricsWorld()
    world.domain.events.emit(opened(1, acceptor="mesh-10.0.0.7-61616"))

    assert world.read()["connections"] == {"AMQP other": 1}


def test_what_is_denied_and_what_came_twice() -> None:
    world = MetricsWorld()
    other = world.make_host()
    events = [world.domain.events, other.services.sessions.domain.events]
    for each in events:
        each.emit(Denied(Subject("ann"), Permission.SEND, "a", None, "10.0.0.1:5000"))
        each.emit(Duplicate("a", DUPLICATE_ID))
    world.metrics.stop()
    for each in events:
        each.emit(Duplicate("a", DUPLICATE_ID))
    values = world.read()

    assert what_is_not_zero(values["permission_denials"]) == {"send": 2}
    assert values["messages_duplicate"] == 2


def test_logins() -> None:
    """They are left out if nobody has to log in."""
    assert MetricsWorld(logins=lambda: (3, 1)).read()["logins"] == {"success": 3, "failure": 1}
    assert "logins" not in MetricsWorld().read()


def test_memory_disk_and_store() -> None:
    world = MetricsWorld(options=BrokerSettings(global_max_size_bytes=1_000_000))
    make_queue(world.domain)
    send(world.domain, "q", "a")
    world.domain.dispatcher.disk_changed(True, False)
    world.domain.storage_failed("no space")
    values = world.read()

    assert values["memory_bytes"]["messages"] == world.domain.account.size_bytes > 0
    assert values["memory_limit_bytes"]["messages"] == 1_000_000
    assert (values["disk_usage_ratio"], values["disk_full"], values["store_failed"]) == (0.25, 1, 1)


def test_how_late_the_loop_is() -> None:
    world = MetricsWorld()
    world.loop.run_late(0.0)
    world.loop.run_late(-0.001)
    world.loop.run_late(0.2)
    timer = world.loop.timer
    world.metrics.stop()
    buckets = world.read()["loop_lag_seconds"]

    assert (buckets["0.0001_bucket"], buckets["0.1_bucket"], buckets["0.25_bucket"], buckets["_count"]) == (2, 2, 3, 3)
    assert timer is not None
    assert timer.is_cancelled


def test_virtual_hosts_count_together() -> None:
    world = MetricsWorld()
    host = world.make_host().services.sessions.domain
    for domain in (world.domain, host):
        make_queue(domain)
        send(domain, "q", "a")
    values = world.read()

    assert (values["messages_routed"], values["queues"]["client"]) == (2, 2)
    assert values["virtual_hosts"] == {"active": 1}


def test_counters_outlive_a_virtual_host() -> None:
    world = MetricsWorld({"full": AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.DROP)})
    domain = world.make_host().services.sessions.domain
    make_queue(domain)
    make_queue(domain, "full")
    make_exchange(domain)
    send(domain, "q", "a")
    send(domain, "full", "a", "b")
    publish(domain, "e")
    names = ("messages_added", "messages_routed", "messages_unrouted", "messages_dropped", "queues_created")
    before = world.read()
    world.hosts.delete("other")
    found = [world.read()]
    while world.hosts.leaving():
        world.domain.dispatcher.slices.run()
        pass_time(world.domain, 10)
        found.append(world.read())
    after = found[-1]

    assert [{name: each[name] for name in names} for each in found] == len(found) * [
        {"messages_added": 2, "messages_routed": 2, "messages_unrouted": 1, "messages_dropped": 1, "queues_created": 2}
    ]
    assert before["virtual_hosts"] == {"active": 1}
    assert not after["virtual_hosts"]
    assert (after["queues_deleted"], after["messages_killed"]) == (2, 2)


def test_a_scrape_looks_at_so_many_queues_in_a_step() -> None:
    world = MetricsWorld()
    for number in range(2 * PER_STEP + 1):
        make_queue(world.domain, f"q{number}", address="a")
    scrape = world.metrics.scrape()
    steps = 0
    try:
        while True:
            next(scrape)
            steps += 1
    except StopIteration:
        pass

    # Three for queues, one for the address and the predeclared exchanges.
    assert steps == 4


def test_what_is_deleted_during_a_scrape_counts_once() -> None:
    world = MetricsWorld()
    for number in range(PER_STEP + 1):
        make_queue(world.domain, f"q{number}", address="a")
    send(world.domain, "a", *["x"] * 10)
    count = 10
    before = world.read()
    names = iter([f"q{PER_STEP}", "q0", "q1", "q2"])
    between = world.scrape(lambda: world.domain.delete_queue(next(names)))
    during = {family.name: family.samples for family in between}["messages_added"][0].value
    after = world.read()

    assert before["messages_added"] == during == after["messages_added"] == count


def test_the_number_of_series_does_not_grow_with_clients() -> None:
    """Below 400 with any number of acceptors, peers, queues, users and sessions, in every virtual host."""
    acceptors = [AcceptorFacts(f"acceptor-{number}", "::", number, ("AMQP",)) for number in range(100)]
    world = MetricsWorld(acceptors=acceptors, logins=lambda: (1, 1))
    events = world.domain.events
    for number in range(100):
        for protocol in ("AMQP", "MQTT", "OPENWIRE", "MESH"):
            events.emit(opened(number, protocol, f"acceptor-{number}"))
            events.emit(opened(number, protocol, f"peer-10.0.0.{number}"))
        for cause in RefusalCause:
            events.emit(ConnectionRefused(0, "", f"acceptor-{number}", f"10.0.0.{number}:1", cause, "detail"))
        domain = (world.domain, world.make_host(f"host-{number}").services.sessions.domain)[number % 2]
        queue = make_queue(domain, f"secret-queue-{number}")
        send(domain, queue.name, "a")
        for protocol in ("AMQP", "MQTT", "OPENWIRE", "MESH"):
            subject = Subject(f"secret-user-{number}")
            session = world.services.sessions.open(subject, f"secret-client-{number}", "10.9.9.9:1", protocol)
            events.emit(Denied(subject, Permission.CONSUME, queue.name, queue.name, session.peer))
    families = world.scrape()
    labels = {value for family in families for sample in family.samples for _, value in sample.labels}

    assert sum(len(family.samples) for family in families) < 400
    assert not [value for value in labels if value.startswith(("secret", "peer", "10.0.0", "10.9"))]
    assert sum(values_of(families)["connections"].values()) == 800


def test_every_metric_is_in_the_catalogue_once() -> None:
    names = [family.name for family in CATALOGUE]
    scraped = [family.name for family in MetricsWorld(logins=lambda: (1, 1)).scrape()]

    assert len(names) == len(set(names))
    assert len(scraped) == len(set(scraped))
    assert set(scraped) <= set(names)


class Four(Two):
    """A mesh with four other brokers."""

    def members(self) -> list[Member]:
        """One in each state that metrics tell apart, but for `away`."""
        states = ("up", "suspect", "syncing", "empty")
        return [Member(f"id-{state}", state, state) for state in states]


def test_the_mesh() -> None:
    values = MetricsWorld(mesh=Four()).read()

    assert values["mesh_members"] == {"up": 1, "suspect": 1, "connecting": 1, "leaving": 1, "away": 0}
    assert (values["mesh_messages_claimed"], values["mesh_messages_waiting"]) == (4, 8)
    assert values["mesh_messages_stranded"] == 5
    assert (values["mesh_messages_handed_over"], values["mesh_messages_taken"]) == (10, 20)
