"""No history of a broker makes notifications cause notifications: when nobody does anything, they end."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.consumer import REJECTED, Consumer
from artemis_py.core.routing.divert import create_divert
from artemis_py.core.runtime.access import Subject
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import Refusal
from artemis_py.management.notifications import Notifications
from tests.core_harness import Recorder, make_domain, make_message, make_services, pass_time, settle_down

ADDRESS = "activemq.notifications"
NAMES = (ADDRESS, "alarms", "b", "DLQ", "activemq.#", "#")
BOTH = frozenset(RoutingType)
QUIET_MS = 60_000
"""Reports that are collected come after ten seconds, those about an address with room again later."""


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("divert"), st.sampled_from(NAMES), st.sampled_from(NAMES[:4])),
        st.tuples(st.just("consume"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("send"), st.sampled_from(NAMES[:4]), st.integers(1, 5)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.none()),
        st.tuples(st.just("wait"), st.sampled_from((10, 1_000, 10_000)), st.none()),
    ),
    min_size=3,
    max_size=25,
)
LIMITS = st.fixed_dictionaries(
    {"expiry_delay": st.sampled_from((-1, 100, 5_000))},
    optional={
        "max_size_messages": st.integers(1, 3),
        "address_full_policy": st.sampled_from(FullPolicy),
        "dead_letter_address": st.sampled_from(("DLQ", "alarms", ADDRESS)),
        "expiry_address": st.sampled_from(("DLQ", "alarms", ADDRESS)),
        "max_delivery_attempts": st.integers(1, 2),
        "send_to_dla_on_no_route": st.booleans(),
        "auto_create_dead_letter_resources": st.booleans(),
    },
)


class World:
    """A broker that clients and administrators use at random."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self.domain = make_domain({"#": AddressSettings(**limits)})
        self.services = make_services(self.domain)
        self.notifications = Notifications(self.domain, "-node", lambda: None)
        self.notifications.start()
        self.services.reaper.start()
        self.clients: list[tuple[Recorder, Consumer]] = []
        self.session = self.services.sessions.open(Subject("ann"), "c1", "192.0.2.1:5", "TEST")
        self.count = 0

    @property
    def sent(self) -> int:
        """Notifications that were sent, or could not be sent."""
        address = self.domain.addresses.get(ADDRESS)
        return 0 if address is None else address.routed + address.unrouted

    def step(self, kind: str, one: Any, other: Any) -> None:
        """One thing that somebody does; it may be refused."""
        domain = self.domain
        self.count += 1
        try:
            match kind:
                case "queue":
                    if one not in domain.addresses:
                        domain.create_address(one, BOTH)
                    domain.create_queue(
                        QueueConfig(
                            name=f"q{self.count}", address=one, routing_type=RoutingType.MULTICAST, durable=other
                        )
                    )
                case "divert":
                    create_divert(domain, DivertConfig(name=f"d{self.count}", address=one, forwarding_address=other))
                case "consume":
                    queues = list(domain.queues.values())
                    if queues:
                        client = Recorder()
                        consumer = self.session.consume(queues[one % len(queues)], client)
                        consumer.grant(3)
                        self.clients.append((client, consumer))
                case "send":
                    if one in domain.addresses:
                        for _ in range(other):
                            domain.route(make_message(), domain.addresses[one])
                case "delete":
                    names = list(domain.queues)
                    if names:
                        domain.delete_queue(names[one % len(names)], force=True)
                case "wait":
                    pass_time(domain, one)
        except Refusal:
            pass
        settle_down(domain)
        # Each client rejects what it gets, which makes dead letters.
        for client, consumer in self.clients:
            for reference in client.take():
                consumer.settle(reference, REJECTED)
        settle_down(domain)

    def quiet(self) -> int:
        """Let time pass in which nobody does anything; how many notifications were sent."""
        before = self.sent
        for _ in range(QUIET_MS // 5_000):
            pass_time(self.domain, 5_000)
        return self.sent - before


@settings(max_examples=100)
@given(LIMITS, STEPS)
def test_notifications_end_when_nobody_does_anything(limits: dict[str, Any], steps: list[tuple[str, Any, Any]]) -> None:
    """After a quiet minute, in which the last reports come, there are no more of them."""
    world = World(limits)
    world.step("queue", ADDRESS, False)
    for kind, one, other in steps:
        world.step(kind, one, other)
    world.quiet()

    assert world.quiet() == 0
