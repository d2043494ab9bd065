"""Domains: several on one dispatcher, apart in what they have and one in what they share."""

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.queues.consumer import FAILED
from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.domains import Domains
from artemis_py.core.settings.address_settings import AddressSettings, FullPolicy
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.errors import AddressFull, InvalidRequest
from artemis_py.store.memory import MemoryStore
from tests.core_harness import (
    START_MS,
    attach,
    make_message,
    make_queue,
    make_services,
    make_session,
    send,
    settle_down,
)


def domain_on(dispatcher: Dispatcher, settings: AddressSettings | None = None) -> Domain:
    """One domain on a dispatcher, with settings for all of its addresses."""
    repository = SettingsRepository(MatchHierarchy[AddressSettings](WildcardSyntax()))
    if settings is not None:
        repository.add("#", settings)
    return Domain(repository, dispatcher)


def two(first: AddressSettings | None = None, second: AddressSettings | None = None) -> tuple[Domain, Domain]:
    """Two domains on one dispatcher."""
    dispatcher = Dispatcher(MemoryStore())
    dispatcher.now_ms = START_MS
    return domain_on(dispatcher, first), domain_on(dispatcher, second)


def test_the_same_name_is_another_address_in_another_domain() -> None:
    """What is sent in one does not come in the other."""
    red, blue = two()
    red_sink, _ = attach(red, make_queue(red, "q"))
    blue_sink, _ = attach(blue, make_queue(blue, "q"))

    send(red, "q", "for red")
    send(blue, "q", "for blue")

    assert red_sink.bodies() == ["for red"]
    assert blue_sink.bodies() == ["for blue"]


def test_wildcard_bindings_end_at_the_border() -> None:
    """A subscription to everything is one to everything of its domain."""
    red, blue = two()
    everything = make_queue(red, "all", RoutingType.MULTICAST, address="#")
    make_queue(blue, "q")

    send(blue, "q", "m")

    assert everything.message_count == 0


def test_each_domain_has_settings_of_its_own() -> None:
    """A limit in one is none in the other."""
    red, blue = two(AddressSettings(max_size_messages=1, address_full_policy=FullPolicy.FAIL))
    make_queue(red, "q")
    make_queue(blue, "q")

    send(red, "q", "m")
    send(blue, "q", "m", "m")

    with pytest.raises(AddressFull):
        red.route(make_message(), red.addresses["q"])


def test_dead_letters_stay_in_their_domain() -> None:
    """A queue hands what nobody could use to the domain that made it."""
    settings = AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1)
    red, blue = two(settings, settings)
    graves = [make_queue(domain, "DLQ") for domain in (red, blue)]
    sink, consumer = attach(blue, make_queue(blue, "q"))
    send(blue, "q", "m")

    consumer.settle(sink.take()[0], FAILED)
    settle_down(blue)

    assert [grave.message_count for grave in graves] == [0, 1]


def test_numbers_are_unique_across_domains() -> None:
    """The store finds messages and queues by them."""
    red, blue = two()
    queues = [make_queue(domain, "q") for domain in (red, blue)]
    messages = [make_message(), make_message()]
    for domain, message in zip((red, blue), messages, strict=True):
        domain.route(message, domain.addresses["q"])
    sessions = [make_session(domain) for domain in (red, blue)]

    assert queues[0].id != queues[1].id
    assert messages[0].id != messages[1].id
    assert sessions[0].id != sessions[1].id


def test_memory_is_one_account() -> None:
    """What one domain holds is missing in the other."""
    dispatcher = Dispatcher(MemoryStore(), options=BrokerSettings(global_max_messages=2))
    dispatcher.now_ms = START_MS
    fail = AddressSettings(address_full_policy=FullPolicy.FAIL)
    red, blue = domain_on(dispatcher, fail), domain_on(dispatcher, fail)
    make_queue(red, "q")
    make_queue(blue, "q")

    send(red, "q", "m", "m")

    with pytest.raises(AddressFull):
        blue.route(make_message(), blue.addresses["q"])


def test_one_run_of_the_dispatcher_delivers_in_all_domains() -> None:
    """A turn of the transport runs the dispatcher once."""
    red, blue = two()
    red_sink, _ = attach(red, make_queue(red, "q"))
    blue_sink, _ = attach(blue, make_queue(blue, "q"))
    for domain in (red, blue):
        domain.route(make_message(), domain.addresses["q"])

    red.dispatcher.run()

    assert len(red_sink.take()) == len(blue_sink.take()) == 1


def test_a_connection_finds_its_domain_by_the_host_it_names() -> None:
    """Hosts that were not added are those of the default domain."""
    red, blue = map(make_services, two())
    domains = Domains(red)
    domains.add("blue.example", blue)

    assert domains.find("Blue.Example") is blue
    assert domains.find("red.example") is red
    assert domains.find(None) is red
    assert domains.all() == [red, blue]


def test_a_domain_of_another_dispatcher_is_refused() -> None:
    """It would have a clock and a memory of its own."""
    red, _ = map(make_services, two())
    stranger, _ = map(make_services, two())
    domains = Domains(red)

    with pytest.raises(InvalidRequest):
        domains.add("stranger.example", stranger)


def test_a_host_has_one_domain() -> None:
    """The second is refused, not put in the place of the first."""
    red, blue = map(make_services, two())
    domains = Domains(red)
    domains.add("blue.example", blue)

    with pytest.raises(InvalidRequest):
        domains.add("BLUE.example", red)
