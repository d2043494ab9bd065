"""A broker's core with its metrics, a loop that a test moves, and how a scrape is read."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.virtual_hosts import VirtualHost
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.management.facts import AcceptorFacts, BrokerFacts, MeshFacts
from artemis_py.management.metrics.broker_metrics import BrokerMetrics
from artemis_py.management.metrics.exposition import Family
from tests.core_harness import make_domain, make_hosts, make_services, settle_down

ACCEPTORS: Final = [AcceptorFacts("main", "127.0.0.1", 5672, ("AMQP",)), AcceptorFacts("iot", "::", 1883, ("MQTT",))]


class Timer:
    """A planned call."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """An event loop that runs the last planned call when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timer: Timer | None = None

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], object], /) -> object:
        raise AssertionError("nothing is to be called at once")

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        self.timer = Timer(when, callback)
        return self.timer

    def run_late(self, seconds: float) -> None:
        """Run the planned call so many seconds after its time."""
        timer = self.timer
        assert timer is not None
        self.now = timer.when + seconds
        timer.callback()


class MetricsWorld:
    """The metrics of a broker without sockets."""

    def __init__(
        self,
        settings: dict[str, AddressSettings] | None = None,
        acceptors: list[AcceptorFacts] | None = None,
        mesh: MeshFacts | None = None,
        logins: Callable[[], tuple[int, int]] | None = None,
        options: BrokerSettings | None = None,
    ) -> None:
        self.domain: Domain = make_domain(settings, options)
        self.services = make_services(self.domain)
        self.hosts = make_hosts(self.services)
        listening = ACCEPTORS if acceptors is None else acceptors
        facts = BrokerFacts(
            version="1.2.3",
            node_id="node-1",
            started_steady_ms=-5000,
            acceptors=lambda: listening,
            disk_usage=lambda: 0.25,
            mesh=mesh,
        )
        self.metrics = BrokerMetrics(self.hosts, facts, logins)
        self.loop = Loop()
        self.metrics.start(self.loop)

    def make_host(self, name: str = "other") -> VirtualHost:
        """A virtual host."""
        return self.hosts.create(VirtualHostConfig(name=name))

    def scrape(self, between: Callable[[], object] | None = None) -> list[Family]:
        """All metrics; `between` is called between the steps of the scrape."""
        scrape = self.metrics.scrape()
        while True:
            try:
                next(scrape)
            except StopIteration as end:
                families: list[Family] = end.value
                return families
            if between is not None:
                between()

    def read(self) -> dict[str, Any]:
        """All numbers, as `values_of` returns them."""
        return values_of(self.scrape())

    def settle_down(self) -> None:
        settle_down(self.domain)


def values_of(families: list[Family]) -> dict[str, Any]:
    """Numbers by name without prefix: of a metric with labels, a dictionary by their values joined by a space."""
    found: dict[str, Any] = {}
    for family in families:
        if not family.labels and len(family.samples) == 1:
            found[family.name] = family.samples[0].value
        else:
            found[family.name] = {
                " ".join([value for _, value in sample.labels]) + sample.suffix: sample.value
                for sample in family.samples
            }
    return found


def what_is_not_zero(values: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a metric that are not zero."""
    return {label: value for label, value in values.items() if value}
