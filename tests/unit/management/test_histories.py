"""What management shows of retroactive addresses, and what it refuses to do with their histories."""

import json

from artemis_py.core.settings.address_settings import AddressSettings
from tests.unit.management.world import World

RETRO = "$.artemis.internal.news.address.retro"
RING = "$.artemis.internal.news.queue.multicast.retro"
NOT_HIDDEN = {"field": "hidden", "operation": "EQUALS", "value": "false"}


def world() -> World:
    """With the retroactive address `news`, to which two messages were sent."""
    made = World()
    made.domain.settings.put("news", AddressSettings(retroactive_message_count=5))
    made.call("broker", "createAddress", "news", "MULTICAST")
    made.publish("news", 2)
    return made


def names(made: World, operation: str, *wanted: object) -> list[str]:
    return sorted(row["name"] for row in json.loads(made.call("broker", operation, *wanted))["data"])


def test_lists_can_leave_out_what_is_internal_or_temporary() -> None:
    made = world()

    assert RING in names(made, "listQueues")
    assert names(made, "listQueues", NOT_HIDDEN) == []
    assert RETRO in names(made, "listAddresses")
    assert names(made, "listAddresses", NOT_HIDDEN) == ["news"]


def test_an_address_names_its_history_beside_its_queues() -> None:
    made = world()
    made.call("broker", "createQueue", {"name": "q", "address": "news", "routing-type": "MULTICAST"})

    assert made.call("broker", "listBindingsForAddress", "news").splitlines() == [
        "Queue [name=q, routingType=MULTICAST, filter=None]",
        "History [name=$.artemis.internal.news.divert.retro]",
    ]
    assert made.read("queue.q", "MessageCount") == 2


def test_a_history_can_be_emptied_and_not_changed() -> None:
    made = world()
    for operation, parameters in (
        ("destroyQueue", (RING,)),
        ("updateQueue", ({"name": RING, "ring-size": 1},)),
        ("deleteAddress", (RETRO, True)),
        ("createAddress", ("$.artemis.internal.more", "ANYCAST")),
    ):
        assert "belong to the broker" in made.refusal("broker", operation, *parameters)

    assert made.call(f"queue.{RING}", "removeAllMessages") == 2
    made.call("broker", "createQueue", {"name": "q", "address": "news", "routing-type": "MULTICAST"})
    assert made.read("queue.q", "MessageCount") == 0
