"""Retained messages: found by patterns, replaced, expiring, and there again after a restart."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.message import Message, MessageFormat
from artemis_py.core.messages.record import encode_with_durability
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.services.old_retained import OLD_SPACE
from artemis_py.core.services.retained import NODE_BYTES, SPACE, RetainedMessages
from artemis_py.core.settings.broker_settings import BrokerSettings
from artemis_py.errors import LimitExceeded
from tests.core_harness import START_MS, make_domain, make_services
from tests.unit.store.world import World

FORMATS: dict[str, MessageFormat] = {PLAIN_FORMAT.name: PLAIN_FORMAT}

# What builds before the one format wrote for a durable message, and for one with annotations that is not and expires.
OLD_RECORD = (
    b"\0\0\0\0\0\0\0\0\x01\x04\0\x05\0\x03\0\x02\0\0\0\0plaina.bme"
    b'{"properties":{"$map":[]},"annotations":{"$map":[]},"body":"m"}'
)
OLD_RECORD_THAT_EXPIRES = (
    b"\0\0\0\0\0\x0fBE\0\x04\0\x05\0\x01\0\0\0\0\0\x06plainxbeside"
    b'{"properties":{"$map":[]},"annotations":{"$map":[]},"body":"n"}'
)


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
    domain = make_domain()
    retained = make_services(domain).retained
    for address in ("a.c", "a.b", "a", "a.b.c", "$sys.x"):
        retained.put(message(address))

    assert sorted(found(retained, pattern)) == expected


def test_the_last_one_counts() -> None:
    """One message an address, and the memory of one."""
    domain = make_domain()
    retained = make_services(domain).retained
    first, second = message("a", "one"), message("a", "two")
    retained.put(first)
    retained.put(second)

    assert retained.get("a") is second
    assert (retained.count, first.references, second.references) == (1, 0, 1)


def test_a_removed_one_is_gone() -> None:
    """With the nodes that led to it, and none that lead elsewhere."""
    domain = make_domain()
    retained = make_services(domain).retained
    for address in ("a.b", "a.b.c", "x.y.z"):
        retained.put(message(address))

    assert retained.remove("a.b")
    assert retained.remove("x.y.z")
    assert not retained.remove("x.y")
    assert found(retained, "#") == ["a.b.c"]
    assert retained.count == 1


def test_an_expired_one_is_gone() -> None:
    """At its time, whether anybody looks or not; one that replaced it stays."""
    domain = make_domain()
    retained = make_services(domain).retained
    retained.put(message("a", expires_ms=START_MS + 10))
    retained.put(message("b", expires_ms=START_MS + 10))
    retained.put(message("b"))
    domain.dispatcher.now_ms = START_MS + 10

    seen = found(retained, "#"), retained.get("a")
    domain.dispatcher.handle_deadlines()

    assert seen == (["b"], None)
    assert retained.count == 1


def test_a_search_goes_on_where_it_stopped() -> None:
    """In slices, of messages and of steps, while others come and go."""
    domain = make_domain()
    retained = make_services(domain).retained
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
    domain = make_domain()
    retained = make_services(domain).retained
    for address in addresses:
        retained.put(message(address))

    expected = {address for address in addresses if domain.options.wildcards.matches(text, address)}

    assert set(found(retained, text)) == expected


def test_they_survive_a_restart(tmp_path: Path) -> None:
    """All but expired and removed ones, and numbers are not used twice."""
    with World(tmp_path) as world:
        for made in (message("a", "old"), message("b"), message("c", expires_ms=START_MS + 5), message("a", "new")):
            world.services.retained.put(made)
        world.services.retained.remove("b")
        world.settle()

    with World(tmp_path) as world:
        world.domain.dispatcher.now_ms = START_MS + 10
        assert world.services.retained.load(FORMATS) == 0
        kept = world.services.retained.get("a")
        assert kept is not None
        assert (kept.view.body, kept.durable, world.services.retained.count) == ("new", True, 1)
        world.services.retained.put(message("d"))
        world.settle()

    with World(tmp_path) as world:
        world.services.retained.load(FORMATS)
        assert sorted(found(world.services.retained, "#")) == ["a", "d"]


def test_a_record_of_no_use_is_forgotten(tmp_path: Path) -> None:
    """A protocol that was uninstalled, or nonsense: said, and not kept for ever."""
    no_text = encode_with_durability(message("a.b")).replace(b"a.b", b"\xff\xff\xff")
    with World(tmp_path) as world:
        world.services.retained.put(message("a"))
        world.store.save_record(SPACE, bytes(7) + b"\x09", b"nonsense")
        world.store.save_record(SPACE, bytes(7) + b"\x0a", no_text)
        world.settle()

    with World(tmp_path) as world:
        assert world.services.retained.load({}) == 3
        world.settle()
        assert world.store.load_records(SPACE) == []


def test_whether_it_is_durable_survives_a_restart(tmp_path: Path) -> None:
    """A message of MQTT's QoS 0 stays one, with whatever the broker added to it."""
    with World(tmp_path) as world:
        made = message("a")
        made.durable = False
        made.set_extra("_AMQ_ORIG_ADDRESS", "b")
        world.services.retained.put(made)
        world.settle()

    with World(tmp_path) as world:
        world.services.retained.load(FORMATS)
        kept = world.services.retained.get("a")
        assert kept is not None
        assert (kept.durable, kept.lookup("_AMQ_ORIG_ADDRESS"), kept.id) == (False, "b", 0)


def keep_old_records(folder: Path, *values: bytes) -> None:
    """Make the store of an older build."""
    with World(folder) as world:
        for number, value in enumerate(values, 1):
            world.store.save_record(OLD_SPACE, number.to_bytes(8, "big"), value)
        world.settle()


def test_old_records_are_read_once_and_written_in_the_one_format(tmp_path: Path) -> None:
    """A crash right after the start leaves both as they were."""
    keep_old_records(tmp_path, OLD_RECORD, OLD_RECORD_THAT_EXPIRES)
    with World(tmp_path) as world:
        assert world.services.retained.load(FORMATS) == 0
        assert world.services.retained.count == 2

    with World(tmp_path) as world:
        assert world.services.retained.load(FORMATS) == 0
        kept = world.services.retained.get("a.b")
        assert kept is not None
        assert (kept.view.body, kept.durable, kept.priority, kept.producer) == ("m", True, 4, "me")
        world.settle()
        assert world.store.load_records(OLD_SPACE) == []
        assert len(world.store.load_records(SPACE)) == 2

    with World(tmp_path) as world:
        assert world.services.retained.load(FORMATS) == 0
        expiring = world.services.retained.get("x")
        assert expiring is not None
        assert (expiring.durable, expiring.expires_ms, expiring.annotations) == (False, START_MS + 5, b"beside")
        world.domain.dispatcher.now_ms = START_MS + 5
        world.domain.dispatcher.handle_deadlines()
        assert found(world.services.retained, "#") == ["a.b"]


def test_an_old_record_beside_a_new_one_counts(tmp_path: Path) -> None:
    """The older build ran last, so its message is the last one of the address."""
    with World(tmp_path) as world:
        world.services.retained.put(message("a.b", "of the newer build, before"))
        world.settle()
    keep_old_records(tmp_path, OLD_RECORD)

    for _ in range(2):
        with World(tmp_path) as world:
            assert world.services.retained.load(FORMATS) == 0
            kept = world.services.retained.get("a.b")
            assert kept is not None
            assert (kept.view.body, world.services.retained.count) == ("m", 1)
            world.settle()
            assert len(world.store.load_records(SPACE)) == 1


@pytest.mark.parametrize("formats", [FORMATS, {}])
def test_an_old_record_of_no_use_is_forgotten(tmp_path: Path, formats: dict[str, MessageFormat]) -> None:
    """Damaged, cut short, or of a protocol that was uninstalled: counted, and not kept for ever."""
    no_text = OLD_RECORD.replace(b"a.b", b"\xff\xff\xff")
    values = [OLD_RECORD] if not formats else [b"", OLD_RECORD[:19], OLD_RECORD[:29], no_text]
    keep_old_records(tmp_path, *values)

    with World(tmp_path) as world:
        assert world.services.retained.load(formats) == len(values)
        world.settle()
        assert world.store.load_records(OLD_SPACE) == world.store.load_records(SPACE) == []


def test_what_is_retained_is_counted_with_the_tree(tmp_path: Path) -> None:
    """Until the last of them goes, whether it was sent in this run or an earlier one, and its address exists or not."""
    names = ["a.b.c", "a.b", "x"]
    with World(tmp_path) as world:
        for name in names:
            world.services.retained.put(message(name))
        world.settle()
        before = world.domain.account.size_bytes
    with World(tmp_path) as world:
        world.domain.create_address("x", frozenset(RoutingType))
        retained = world.services.retained
        retained.load(FORMATS)
        after = (world.domain.account.size_bytes, retained.size_bytes)

        assert before == sum(message(name).size for name in names) + 4 * NODE_BYTES + len("abcx")
        assert after == (before, before)
        retained.put(message("a.b", "longer"))
        assert world.domain.account.size_bytes == retained.size_bytes == before + len("longer") - len("m")
        for name in names:
            retained.remove(name)
        assert (world.domain.account.size_bytes, retained.size_bytes) == (0, 0)


def test_retained_messages_leave_half_of_memory_to_others() -> None:
    """One that is no larger than what it replaces is still taken, and there is room again when some are gone."""
    domain = make_domain(options=BrokerSettings(global_max_size_bytes=10_000))
    retained = make_services(domain).retained
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
