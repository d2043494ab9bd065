"""Which other brokers a client is told of, and where a newcomer goes (mesh §7.2)."""

from collections import Counter
from collections.abc import Callable

from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.referrals import HERE, MAX_TOLD, Alternative, Newcomer, Referrals, Route

AMQP = frozenset(("AMQP",))


def broker(number: int, protocols: frozenset[str] = AMQP, is_encrypted: bool = False) -> Alternative:
    """One of some brokers."""
    return Alternative(
        node_id=f"n{number}",
        name=f"b{number}",
        host=f"h{number}",
        port=5672,
        protocols=protocols,
        is_encrypted=is_encrypted,
    )


def newcomer(client_id: str = "c") -> Newcomer:
    """A client that has logged in."""
    return Newcomer(protocol="AMQP", client_id=client_id, subject=Subject("u"), peer="1.2.3.4:5")


def test_a_client_is_told_of_brokers_that_can_serve_it() -> None:
    """Its protocol is spoken there, and encrypted as its connection is; nothing is known of one that says nothing."""
    referrals = Referrals()
    mqtt, silent = broker(2, frozenset(("MQTT",))), broker(3, frozenset())
    referrals.told([broker(1), mqtt, silent, broker(4, is_encrypted=True)])

    assert {each.name for each in referrals.for_client("AMQP", False, "c")} == {"b1", "b3"}
    assert {each.name for each in referrals.for_client("MQTT", False, "c")} == {"b2", "b3"}
    assert {each.name for each in referrals.for_client("AMQP", True, "c")} == {"b4"}


def test_clients_of_a_broker_that_dies_go_to_different_ones() -> None:
    """Each has an order of its own, and the same one everywhere, whatever the order in which brokers were told."""
    here, there = Referrals(), Referrals()
    brokers = [broker(number) for number in range(5)]
    here.told(brokers)
    there.told(brokers[::-1])
    first = Counter(here.for_client("AMQP", False, f"c{number}")[0].name for number in range(500))

    assert len(first) == 5
    assert min(first.values()) > 50
    assert here.for_client("AMQP", False, "c7") == there.for_client("AMQP", False, "c7")


def test_a_list_has_an_end() -> None:
    """And it is this broker's place in the list that decides, where it is in it."""
    referrals = Referrals()
    referrals.told([broker(number) for number in range(40)], [broker(99)])
    with_itself = [referrals.for_client("AMQP", False, f"c{number}", with_itself=True) for number in range(200)]

    assert len(referrals.for_client("AMQP", False, "c")) == MAX_TOLD
    assert all(len(each) == MAX_TOLD for each in with_itself)
    assert 0 < sum(broker(99) in each for each in with_itself) < 200
    assert broker(99) not in referrals.for_client("AMQP", False, "c0")


def test_listeners_hear_of_changes_only() -> None:
    """And whether there is a broker more."""
    referrals = Referrals()
    heard: list[bool] = []
    referrals.when_changed(heard.append)
    referrals.told([broker(1)])
    referrals.told([broker(1)])
    referrals.told([broker(2), broker(1)])
    referrals.told([broker(2)])
    referrals.told([broker(3)])

    assert heard == [True, True, False, True]


class ToOne:
    """A router that sends everyone to one broker."""

    def route(self, newcomer: Newcomer, decided: Callable[[Route], None]) -> None:
        """There."""
        decided(Route((broker(7),)))


def test_a_broker_that_is_leaving_sends_newcomers_on() -> None:
    """If there is anywhere to go; before the router of their acceptor, and until it stays after all."""
    referrals = Referrals()
    found: list[Route] = []
    referrals.route(newcomer(), None, found.append)
    referrals.route(newcomer(), ToOne(), found.append)
    referrals.leave(for_good=True)
    referrals.route(newcomer(), None, found.append)
    referrals.told([broker(1)])
    referrals.route(newcomer(), ToOne(), found.append)
    was_leaving = referrals.is_leaving, referrals.is_leaving_for_good
    referrals.stay()
    referrals.route(newcomer(), None, found.append)

    assert found == [HERE, Route((broker(7),)), HERE, Route((broker(1),)), HERE]
    assert was_leaving == (True, True)
    assert (referrals.is_leaving, referrals.is_leaving_for_good) == (False, False)
