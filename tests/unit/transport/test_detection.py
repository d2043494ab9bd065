"""First bytes to protocol."""

import pytest

from artemis_py.transport.detection import MAX_HEAD_BYTES, UnknownProtocol, recognise
from tests.core_harness import make_host
from tests.line_protocol import LineProtocolManager
from tests.unit.transport.doubles import small_domain


class GreedyManager(LineProtocolManager):
    """Never makes up its mind."""

    name = "GREEDY"

    def matches(self, head: bytes) -> bool | None:
        return None


LINE = LineProtocolManager(make_host(small_domain()))
GREEDY = GreedyManager(make_host(small_domain()))


@pytest.mark.parametrize("head", [b"", b"L", b"LINE"])
def test_too_few_bytes_ask_for_more(head: bytes) -> None:
    """TCP may cut anywhere."""
    assert recognise([LINE], head) is None


@pytest.mark.parametrize("head", [b"LINE ", b"LINE alice\n"])
def test_protocol_is_recognised_by_its_first_bytes(head: bytes) -> None:
    """One port serves all protocols."""
    assert recognise([LINE], head) is LINE


def test_undecided_protocol_does_not_hide_another() -> None:
    """A protocol that needs more bytes leaves room for one that knows already."""
    assert recognise([GREEDY, LINE], b"LINE x") is LINE


def test_bytes_of_no_protocol_are_refused() -> None:
    """Nobody claims them and nobody waits for more."""
    with pytest.raises(UnknownProtocol):
        recognise([LINE], b"HTTP")


def test_undecided_protocols_get_a_bounded_head() -> None:
    """reliability §4: a stranger's bytes are not collected without end."""
    assert recognise([GREEDY], bytes(MAX_HEAD_BYTES - 1)) is None
    with pytest.raises(UnknownProtocol):
        recognise([GREEDY], bytes(MAX_HEAD_BYTES))
