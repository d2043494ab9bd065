"""Diverts of any kind against a simple model: which queue gets how many copies, and what a client is refused.

The model follows each copy by itself, with the set of diverts that it has passed, and knows nothing of routers, groups
or plans. Turns have a test of their own, because their order depends on that of the copies (artemis-model §1.2).
"""

from collections import Counter

from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.routing.circles import circles
from artemis_py.core.routing.divert import create_divert, remove_divert, update_divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.events import DivertLoop, Event, Events
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.divert_config import DivertConfig
from artemis_py.errors import AddressFull, TransactionRolledBack
from tests.core_harness import make_domain, make_message, make_queue, make_session
from tests.examples import examples

ADDRESSES = ["a", "b", "c.x", "c.y", "full"]
SOURCES = [*ADDRESSES, "c.*", "#"]
COLOURS = ["red", "blue"]
SYNTAX = WildcardSyntax()
ROOM = 2
"""Messages for which `full` has room."""

CONFIGS = st.lists(
    st.builds(
        lambda address, to, exclusive, colour, turns: DivertConfig(
            name="?",
            address=address,
            forwarding_address=",".join(to),
            exclusive=exclusive,
            filter=None if colour is None else f"colour = '{colour}'",
            routing_name=turns,
        ),
        st.sampled_from(SOURCES),
        st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=2, unique=True),
        st.booleans(),
        st.sampled_from([None, None, *COLOURS]),
        st.sampled_from([None, None, "r", "s"]),
    ),
    max_size=6,
)
SENDS = st.lists(
    st.tuples(
        st.sampled_from(ADDRESSES), st.sampled_from(COLOURS), st.sampled_from(["client", "broker", "transaction"])
    ),
    min_size=1,
    max_size=12,
)


@define
class Model:
    """What should happen."""

    diverts: list[DivertConfig]
    held: Counter[str] = field(factory=Counter)
    looped: set[str] = field(factory=set)
    """Diverts that a message came to a second time, even one that was refused for another copy."""
    surely_looped: set[str] = field(factory=set)
    """Those among them that a message came to which was not refused."""

    def send(self, address: str, colour: str, is_told: bool) -> bool:
        """Send a message; False if the client is refused, and then nothing is held."""
        is_full = self.held["full"] >= ROOM
        if address == "full" and is_full:
            return False
        copies, looped = self._copies(address, colour, frozenset())
        self.looped |= looped
        # All copies of one message find the limits as they were before it.
        if is_told and is_full and any(name == "full" for name, _ in copies):
            return False
        self.surely_looped |= looped
        self.held.update([name for name, is_kept in copies if is_kept])
        return True

    def _copies(self, address: str, colour: str, passed: frozenset[str]) -> tuple[list[tuple[str, bool]], set[str]]:
        """Return the address of each copy and whether its queue keeps it, and the diverts that it came to again."""
        if passed and address == "full" and self.held["full"] >= ROOM:
            return [(address, False)], set()
        wanted = [
            each
            for each in self.diverts
            if (each.address == address or SYNTAX.matches(each.address, address))
            and (each.filter is None or colour in each.filter)
        ]
        exclusive = [each for each in wanted if each.exclusive]
        first = [each for each in exclusive if each.name not in passed]
        asked = exclusive if first else wanted
        looped = {each.name for each in asked if each.name in passed}
        copies = [(address, not first)]
        for divert in first or [each for each in wanted if each.name not in passed]:
            for name in divert.forwarding_addresses:
                more, again = self._copies(name, colour, passed | {divert.name})
                copies += more
                looped |= again
        return copies, looped


def named(configs: list[DivertConfig]) -> list[DivertConfig]:
    """Give each divert a name."""
    return [evolve(config, name=f"d{number}") for number, config in enumerate(configs)]


def make(diverts: list[DivertConfig]) -> tuple[Domain, list[Event]]:
    events: list[Event] = []
    told = Events()
    told.subscribe(events.append, DivertLoop)
    limited = AddressSettings(max_size_messages=ROOM, address_full_policy=FullPolicy.FAIL)
    domain = make_domain({"full": limited}, events=told)
    for name in ADDRESSES:
        make_queue(domain, name)
    for config in diverts:
        create_divert(domain, config)
    return domain, events


def send(domain: Domain, address: str, colour: str, way: str) -> bool:
    """Send as the model does; False if it was refused."""
    message = make_message(colour=colour)
    session = make_session(domain)
    try:
        if way == "broker":
            domain.route(message, domain.addresses[address])
        elif way == "client":
            session.producer(address).send(message)
        else:
            transaction = session.begin()
            try:
                session.producer(address).send(message, transaction)
            finally:
                session.commit(transaction)
    except (AddressFull, TransactionRolledBack):
        return False
    return True


def held(domain: Domain) -> Counter[str]:
    return Counter({name: queue.message_count for name, queue in domain.queues.items() if queue.message_count})


@settings(max_examples=examples(150), deadline=None)
@given(CONFIGS, SENDS)
def test_diverts_do_what_the_model_does(configs: list[DivertConfig], sends: list[tuple[str, str, str]]) -> None:
    diverts = [evolve(config, routing_name=None) for config in named(configs)]
    domain, events = make(diverts)
    model = Model(diverts)

    for address, colour, way in sends:
        assert send(domain, address, colour, way) == model.send(address, colour, is_told=way != "broker")
        assert held(domain) == +model.held

    reported = [event.divert for event in events if isinstance(event, DivertLoop)]
    assert len(reported) == len(set(reported))
    assert model.surely_looped <= set(reported) <= model.looped
    assert bool(circles(diverts, SYNTAX)) or not reported
    assert domain.account.message_count == sum(model.held.values())
    counted = sum(address.account.message_count for address in domain.addresses.values())
    assert counted == sum(model.held.values())


@settings(max_examples=examples(50), deadline=None)
@given(CONFIGS, st.integers(1, 12))
def test_turns_are_fair_and_changes_at_run_time_lose_nothing(configs: list[DivertConfig], count: int) -> None:
    """Each routing name gets one copy of each message. Without diverts an address has its fast way again."""
    turning = [
        evolve(config, address="a", forwarding_address=f"to.{config.name}", exclusive=False, filter=None)
        for config in named(configs)
        if config.routing_name is not None
    ]
    domain, _ = make(turning)
    for config in turning:
        make_queue(domain, f"to.{config.name}")

    for _ in range(count):
        assert send(domain, "a", "red", "client")

    for name in {config.routing_name for config in turning}:
        shares = [held(domain)[f"to.{config.name}"] for config in turning if config.routing_name == name]
        assert sum(shares) == count
        assert max(shares) - min(shares) <= 1
    for config in turning:
        divert = domain.others[config.name]
        changed = update_divert(domain, divert, evolve(config, routing_name=None))  # type: ignore[arg-type]
        remove_divert(domain, changed)
    assert domain.routers.forwarding == 0
    assert send(domain, "a", "red", "client")
    router = domain.addresses["a"].router
    assert router is not None
    assert router.only is domain.queues["a"]
