"""Finders of other brokers: what the DNS says, and when it is asked again (mesh §2.4)."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from artemis_py.cluster.finders.dns import Answer, DnsFinder, LookupFailed, lookup_of
from artemis_py.cluster.finders.finder import MOST_ENDPOINTS, Endpoint
from artemis_py.core.settings.cluster_config import DiscoveryConfig

CONFIG = DiscoveryConfig(name="g", dns_name="_artemis._tcp.example", refresh_timeout_ms=10_000)
FOREVER = float("inf")


class Zone:
    """A DNS that a test writes, and a clock that stands still but for waits."""

    def __init__(self, *answers: Answer | str) -> None:
        self.answers = list(answers)
        self.waits: list[float] = []
        self.told: list[set[Endpoint]] = []

    async def lookup(self) -> Answer:
        """The next answer; a text is a failure."""
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise LookupFailed(answer)
        return answer

    async def sleep(self, seconds: float) -> None:
        """Wait for no time; the end of the answers is the end of the finder."""
        self.waits.append(seconds)
        if not self.answers:
            raise asyncio.CancelledError

    async def run(self, config: DiscoveryConfig = CONFIG) -> None:
        """Give all answers."""
        finder = DnsFinder(config, lambda found: self.told.append(set(found)), self.lookup, self.sleep)
        with pytest.raises(asyncio.CancelledError):
            await finder.run()


def found(*endpoints: Endpoint, ttl: float = 5.0) -> Answer:
    """An answer."""
    return Answer(frozenset(endpoints), ttl)


A, B = ("a", 1), ("b", 2)


async def test_changes_are_told_and_nothing_else() -> None:
    """C16: a broker that is added is found, one that is removed is a hint no longer."""
    zone = Zone(found(A), found(A), found(A, B), found(B), found())
    await zone.run()

    assert zone.told == [{A}, {A, B}, {B}, set()]


@pytest.mark.parametrize(("ttl", "expected"), [(5.0, 5.0), (0.0, 1.0), (3600.0, 10.0), (FOREVER, 10.0)])
async def test_an_answer_is_good_for_its_time_to_live(ttl: float, expected: float) -> None:
    """`refresh-timeout` is the longest time, and a second the shortest."""
    zone = Zone(found(A, ttl=ttl))
    await zone.run()

    assert zone.waits == [expected]


async def test_a_failing_name_server_takes_no_broker_away(caplog: pytest.LogCaptureFixture) -> None:
    """And is spoken of once, until it answers again."""
    zone = Zone(found(A), "timeout", "timeout", found(A), "timeout", found(B))
    await zone.run()

    assert zone.told == [{A}, {B}]
    assert [each.levelname for each in caplog.records if "not found" in each.message] == ["WARNING"] * 2
    assert zone.waits[1] == 10.0


async def test_addresses_are_those_that_the_machine_knows() -> None:
    """Without dnspython; the port is that of the group."""
    answer = await lookup_of(DiscoveryConfig(name="g", dns_name="127.0.0.1", dns_port=7))()
    missing = await lookup_of(DiscoveryConfig(name="g", dns_name="no-such-host.invalid", dns_port=7))()

    assert answer == Answer(frozenset({("127.0.0.1", 7)}), FOREVER)
    assert missing.endpoints == frozenset()


async def test_a_name_that_cannot_be_asked_for_is_a_failure() -> None:
    """Not the end of the finder."""
    with pytest.raises(LookupFailed):
        await lookup_of(DiscoveryConfig(name="g", dns_name="a" * 70 + ".x", dns_port=7))()


class NameServer(asyncio.DatagramProtocol):
    """A server for SRV records, by dnspython's own parser."""

    def __init__(self, answer: Callable[[str], list[str] | None]) -> None:
        self.answer = answer

    def connection_made(self, transport: Any) -> None:
        """Remember where answers go."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer one question; None is a name that does not exist."""
        message = pytest.importorskip("dns.message")
        rrset = pytest.importorskip("dns.rrset")
        query = message.from_wire(data)
        response = message.make_response(query)
        question = query.question[0]
        records = self.answer(str(question.name))
        if records is None:
            response.set_rcode(3)
        elif records:
            response.answer.append(rrset.from_text(question.name, 7, "IN", "SRV", *records))
        self.transport.sendto(response.to_wire(), addr)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (
            ["0 0 5672 a.example.", "9 1 61616 b.example."],
            Answer(frozenset({("a.example", 5672), ("b.example", 61616)}), 7),
        ),
        (["0 0 0 ."], Answer(frozenset(), 7)),
        ([], Answer(frozenset(), FOREVER)),
        (None, Answer(frozenset(), FOREVER)),
    ],
)
async def test_service_records_have_hosts_ports_and_a_time(records: list[str] | None, expected: Answer) -> None:
    """From a real name server on this machine."""
    pytest.importorskip("dns")
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: NameServer(lambda name: records if name == "_artemis._tcp.example." else []), ("127.0.0.1", 0)
    )
    try:
        lookup = lookup_of(CONFIG)
        resolver = lookup._resolver  # type: ignore[attr-defined]
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = transport.get_extra_info("socket").getsockname()[1]
        answer = await lookup()
    finally:
        transport.close()

    assert answer == expected


async def test_a_name_server_that_is_away_is_a_failure() -> None:
    """As the finder needs it."""
    pytest.importorskip("dns")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        lookup = lookup_of(CONFIG)
        resolver = lookup._resolver  # type: ignore[attr-defined]
        resolver.nameservers, resolver.port = ["127.0.0.1"], silent.getsockname()[1]
        resolver.lifetime = resolver.timeout = 0.1
        with pytest.raises(LookupFailed):
            await lookup()


async def test_a_hostile_answer_is_cut() -> None:
    """What a finder says is never trusted, not even its length."""
    lookup = lookup_of(DiscoveryConfig(name="g", dns_name="x", dns_port=7))

    async def many(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (f"10.0.{number // 250}.{number % 250}", 7)) for number in range(5000)]

    loop = asyncio.get_running_loop()
    loop.getaddrinfo = many  # type: ignore[method-assign, assignment]
    assert len((await lookup()).endpoints) == MOST_ENDPOINTS


async def test_a_finder_runs_until_it_is_stopped() -> None:
    """On the loop of the broker."""
    told: list[frozenset[Endpoint]] = []
    finder = DnsFinder(DiscoveryConfig(name="g", dns_name="127.0.0.1", dns_port=7), told.append)
    finder.start()
    async with asyncio.timeout(5):
        while not told:
            await asyncio.sleep(0.01)
    finder.stop()
    await finder.wait_stopped()

    assert told == [frozenset({("127.0.0.1", 7)})]
