"""Retained messages: found by patterns, replaced, expiring, and there again after a restart."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.services.retained import NODE_BYTES, RetainedMessages
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import LimitExceeded
from tests.core_harness import START_MS, make_office, make_services
from tests.unit.store.world import World


def message(address: str, body: str = "m", expires_ms: int = 0) -> Message:
    made = plain_message(address, MessageView(body=body), durable=True)
    made.expires_ms = expires_ms
    return made


def found(retained: RetainedMessages, pattern: str) -> list[str]:
    return [each.address for each in retained.search(pattern).next(10_000, 100_000)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.b", ["a.b"]),
        ("a.*", ["a.b", "a.c"]),
        ("*.b", ["a.b"]),
        ("a.#", ["a", "a.b", "a.b.c", "a.c"]),
        ("#", ["a", "a.b", "a.b.c", "a.c"]),
        ("*", ["a"]),
        ("$sys.#", ["$sys.x"]),
        ("a.b.c.#", ["a.b.c"]),
        ("nothing.#", []),
    ],
)
def test_patterns(pattern: str, expected: list[str]) -> None:
    """Any-words also stands for none; a leading wildcard leaves names with `$` alone [MQTT-4.7.2-1]."""
    office = make_office()
    retained = make_services(office).retained
    for address in ("a.c", "a.b", "a", "a.b.c", "$sys.x"):
        retained.put(message(address))

    assert sorted(found(retained, pattern)) == expected


def test_the_last_one_counts() -> None:
    """One message an address, and the memory of one."""
    office = make_office()
    retained = make_services(office).retained
    first, second = message("a", "one"), message("a", "two")
    retained.put(first)
    retained.put(second)

    assert retained.get("a") is second
    assert (retained.count, first.references, second.references) == (1, 0, 1)


def test_a_removed_one_is_gone() -> None:
    """With the nodes that led to it, and none that lead elsewhere."""
    office = make_office()
    retained = make_services(office).retained
    for address in ("a.b", "a.b.c", "x.y.z"):
        retained.put(message(address))

    assert retained.remove("a.b")
    assert retained.remove("x.y.z")
    assert not retained.remove("x.y")
    assert found(retained, "#") == ["a.b.c"]
    assert retained.count == 1


def test_an_expired_one_is_gone() -> None:
    """At its time, whether anybody looks or not; one that replaced it stays."""
    office = make_office()
    retained = make_services(office).retained
    retained.put(message("a", expires_ms=START_MS + 10))
    retained.put(message("b", expires_ms=START_MS + 10))
    retained.put(message("b"))
    office.dispatcher.now_ms = START_MS + 10

    seen = found(retained, "#"), retained.get("a")
    office.dispatcher.handle_deadlines()

    assert seen == (["b"], None)
    assert retained.count == 1


def test_a_search_goes_on_where_it_stopped() -> None:
    """In slices, of messages and of steps, while others come and go."""
    office = make_office()
    retained = make_services(office).retained
    for number in range(100):
        retained.put(message(f"a.{number}"))
    search = retained.search("a.#")
    seen = [each.address for each in search.next(30, 1000)]
    retained.remove("a.50")
    retained.put(message("a.60", "newer"))
    while not search.is_done:
        some = search.next(30, 7)
        assert len(some) <= 7
        seen += [each.address for each in some]

    assert seen == [f"a.{number}" for number in range(100) if number != 50]


@given(
    st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(".".join)),
    st.tuples(st.lists(st.sampled_from("ab*"), max_size=4), st.booleans()),
)
def test_a_search_finds_what_the_wildcard_syntax_matches(addresses: list[str], pattern: tuple[list[str], bool]) -> None:
    """The tree and `WildcardSyntax.matches` say the same."""
    words, ends_any = pattern
    text = ".".join([*words, *("#" if ends_any else ())]) or "a"
    office = make_office()
    retained = make_services(office).retained
    for address in addresses:
        retained.put(message(address))

    expected = {address for address in addresses if office.options.wildcards.matches(text, address)}

    assert set(found(retained, text)) == expected


def test_they_survive_a_restart(tmp_path: Path) -> None:
    """All but expired and removed ones, and numbers are not used twice."""
    formats = {PLAIN_FORMAT.name: PLAIN_FORMAT}
    with World(tmp_path) as world:
        for made in (message("a", "old"), message("b"), message("c", expires_ms=START_MS + 5), message("a", "new")):
            world.services.retained.put(made)
        world.services.retained.remove("b")
        world.settle()

    with World(tmp_path) as world:
        world.office.dispatcher.now_ms = START_MS + 10
        assert world.services.retained.load(formats) == 0
        kept = world.services.retained.get("a")
        assert kept is not None
        assert (kept.view.body, kept.durable, world.services.retained.count) == ("new", True, 1)
        world.services.retained.put(message("d"))
        world.settle()

    with World(tmp_path) as world:
        world.services.retained.load(formats)
        assert sorted(found(world.services.retained, "#")) == ["a", "d"]


def test_a_record_of_no_use_is_forgotten(tmp_path: Path) -> None:
    """A protocol that was uninstalled, or nonsense: said, and not kept for ever."""
    with World(tmp_path) as world:
        world.services.retained.put(message("a"))
        world.store.save_record("retained", bytes(7) + b"\x09", b"nonsense")
        world.settle()

    with World(tmp_path) as world:
        assert world.services.retained.load({}) == 2
        world.settle()
        assert world.store.load_records("retained") == []


def test_what_is_retained_is_counted_with_the_tree(tmp_path: Path) -> None:
    """Until the last of them goes, whether it was sent in this run or an earlier one, and its address exists or not."""
    names = ["a.b.c", "a.b", "x"]
    with World(tmp_path) as world:
        for name in names:
            world.services.retained.put(message(name))
        world.settle()
        before = world.office.account.size_bytes
    with World(tmp_path) as world:
        world.office.create_address("x", frozenset(RoutingType))
        retained = world.services.retained
        retained.load({PLAIN_FORMAT.name: PLAIN_FORMAT})
        after = (world.office.account.size_bytes, retained.size_bytes)

        assert before == sum(message(name).size for name in names) + 4 * NODE_BYTES + len("abcx")
        assert after == (before, before)
        retained.put(message("a.b", "longer"))
        assert world.office.account.size_bytes == retained.size_bytes == before + len("longer") - len("m")
        for name in names:
            retained.remove(name)
        assert (world.office.account.size_bytes, retained.size_bytes) == (0, 0)


def test_retained_messages_leave_half_of_memory_to_others() -> None:
    """One that is no larger than what it replaces is still taken, and there is room again when some are gone."""
    office = make_office(options=BrokerSettings(global_max_size_bytes=10_000))
    retained = make_services(office).retained
    kept = 0
    while retained.size_bytes < 10_000 // 2:
        made = message(f"a{kept}")
        retained.check_room(made.address, made.size)
        retained.put(made)
        kept += 1
    with pytest.raises(LimitExceeded, match="retained messages take"):
        retained.check_room("other", message("other").size)

    assert 10_000 // 2 <= retained.size_bytes < 10_000 // 2 + 1_000
    retained.check_room("a0", message("a0").size)
    with pytest.raises(LimitExceeded):
        retained.check_room("a0", message("a0", "longer than before").size)
    retained.remove("a1")
    retained.check_room(f"a{kept}", message("a").size)
