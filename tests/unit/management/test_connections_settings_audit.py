"""Closing connections, where settings come from, and the log of administrative acts."""

import json
import logging

import pytest

from artemis_py.core.runtime.access import Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import make_queue
from tests.unit.management.world import World, consume


class Ended:
    """The client of a session, that keeps why it was ended."""

    def __init__(self, session: Session) -> None:
        self.reasons: list[str] = []
        session.client = self

    def user_removed(self, reason: str) -> None: ...

    def rights_changed(self) -> None: ...

    def refer(self, only_followers: bool) -> None: ...

    def closed_by_operator(self, reason: str) -> None:
        self.reasons.append(reason)


def connect(world: World, user: str, peer: str) -> tuple[Session, Ended]:
    """One more client."""
    session = world.services.sessions.open(Subject(user), f"client of {user}", peer, "AMQP")
    return session, Ended(session)


@pytest.mark.parametrize("by", ["number", "text", "user", "address", "peer"])
def test_connections_are_closed_by_what_lists_show(by: str) -> None:
    world = World()
    session, meant = connect(world, "app", "192.0.2.7:5000")
    _, other = connect(world, "else", "192.0.2.8:5000")
    operation, value = {
        "number": ("closeConnectionWithID", session.id),
        "text": ("closeConnectionWithID", str(session.id)),
        "user": ("closeConnectionsForUser", "app"),
        "address": ("closeConnectionsForAddress", "192.0.2.7"),
        "peer": ("closeConnectionsForAddress", "192.0.2.7:5000"),
    }[by]

    assert world.call("broker", operation, value) is True
    assert (meant.reasons, other.reasons) == (["closed by an administrator"], [])


def test_a_connection_that_is_not_there_is_not_closed() -> None:
    world = World()

    assert world.call("broker", "closeConnectionWithID", 4711) is False
    assert world.call("broker", "closeConnectionsForUser", "nobody") is False
    assert "is a number" in world.refusal("broker", "closeConnectionWithID", "x")


def test_the_connection_of_the_request_stays_for_the_answer() -> None:
    world = World()
    own = Ended(world.session)

    assert "of the request itself" in world.refusal("broker", "closeConnectionWithID", world.session.id)
    assert world.call("broker", "closeConnectionsForUser", "admin") is False
    assert own.reasons == []


def test_a_list_of_consumers_says_which_messages_they_have() -> None:
    world = World()
    queue = make_queue(world.domain)
    world.publish("q", 5)
    consume(world, queue, 2)
    answer = json.loads(world.call("broker", "listConsumers", {"field": "queue", "operation": "EQUALS", "value": "q"}))
    (row,) = answer["data"]

    assert (row["messagesInTransit"], row["oldestInTransit"]) == (2, 1)


def test_each_setting_has_the_match_it_comes_from() -> None:
    world = World()
    world.domain.settings.put("#", AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=3))
    world.domain.settings.put("orders.#", AddressSettings(max_delivery_attempts=5))
    origins = json.loads(world.call("broker", "listAddressSettingOrigins", "orders.eu"))
    values = json.loads(world.call("broker", "getAddressSettingsAsJSON", "orders.eu"))

    assert origins["max-delivery-attempts"] == {"value": 5, "match": "orders.#"}
    assert origins["dead-letter-address"] == {"value": "DLQ", "match": "#"}
    assert origins["redelivery-delay"] == {"value": 0, "match": None}
    assert values["max-delivery-attempts"] == 5


def test_each_act_has_one_line_in_the_log_with_its_result(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    make_queue(world.domain)
    with caplog.at_level(logging.INFO, "artemis_py.management.audit"):
        world.call("queue.q", "pause")
        world.call("queue.q", "getMessageCount")
        world.call("broker", "listQueues")
        world.refusal("broker", "destroyQueue", "none")

    who = "administration: user=admin peer=127.0.0.1:4000 resource="
    assert caplog.messages == [
        f"{who}queue.q operation=pause parameters=[] result=None",
        f"{who}broker operation=destroyQueue parameters=[\"none\"] refused=queue 'none' does not exist",
    ]


def test_messages_that_are_sent_are_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is the password that clients of Artemis send along."""
    world = World()
    make_queue(world.domain)
    with caplog.at_level(logging.INFO, "artemis_py.management.audit"):
        id = world.call("queue.q", "sendMessage", {"pin": "1234"}, 3, "private", True, "admin", "pass word")

    who = "administration: user=admin peer=127.0.0.1:4000 resource="
    assert caplog.messages == [f"{who}queue.q operation=sendMessage parameters=(not logged) result={id}"]


def test_a_line_about_an_act_is_bounded_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Names come from clients."""
    world = World()
    with caplog.at_level(logging.INFO, "artemis_py.management.audit"):
        world.refusal("queue.q\n", "pu\nrge", "x" * 10_000)
        world.refusal("broker", "destroyQueue", "x\ny" * 10_000)

    assert all("\n" not in message and len(message) < 1500 for message in caplog.messages)
    assert len(caplog.messages) == 2
