"""Commands with any fields, and octets overwritten anywhere, against a broker: only their own connection ends."""

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_openwire.engine.codec import write_frame
from tests.examples import examples
from tests.openwire_disorder import Disorder, damaged, pieces
from tests.openwire_site import Client, Site, connected, queue

STEADY: Final = queue("steady")


def disturb(site: Site, seed: int, version: int, is_damaged: bool) -> None:
    """Have one client send anything at all, until its connection ends."""
    disorder = Disorder(seed, version)
    chance = disorder.random
    client = connected(site, "c1", version)
    for number in range(chance.randint(1, 30)):
        octets = write_frame(disorder.command(), version)
        if is_damaged and number > 3 and chance.random() < 0.2:
            octets = damaged(octets, chance)
        for piece in pieces(octets, chance):
            if not client.handler.closed:
                client.handler.receive_data(piece, 0.0)
        while client.handler.has_input:
            client.handler.work(0.0)
        site.turn()
        client.handler.data_to_send()
        if chance.random() < 0.1:
            site.commit()
            site.pass_time(chance.choice((0.1, 40.0)))
    client.lose()


def exchange(steady: Client) -> list[str]:
    """What the client beside gets of two messages."""
    steady.send(STEADY, "1", "2")
    found = steady.dispatches()
    for one in found:
        steady.ack(one, one)
    return [str((one.message.content or b"")[4:], "ascii") for one in found if one.message is not None]


@given(seed=st.integers(0, 1 << 32), version=st.integers(1, 12), is_damaged=st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_only_the_connection_itself_ends(seed: int, version: int, is_damaged: bool) -> None:
    """Nothing is raised; a client beside is served; what the client had open is given back."""
    site = Site()
    steady = connected(site, "steady")
    steady.consume(STEADY, prefetch=10)
    disturb(site, seed, version, is_damaged)
    site.commit()

    assert exchange(steady) == ["1", "2"]
    assert site.domain.queue("steady").delivering_count == 0
    assert not site.manager.clients.with_connection_id("c1")
