"""What the names in an attach mean (artemis-model §1.6)."""

import pytest

from artemis_amqp.broker.addressing import missing_prefix
from artemis_py.wire.prefixes import Prefixes

NONE = Prefixes()


@pytest.mark.parametrize(
    ("address", "prefixes", "expected"),
    [
        ("queue://orders", NONE, "anycastPrefix=queue://"),
        ("topic://news", NONE, "multicastPrefix=topic://"),
        ("topic://news", Prefixes.parse("queue://", ""), "multicastPrefix=topic://"),
        ("queue://orders", Prefixes.parse("queue://", ""), None),
        ("queue://orders", Prefixes.parse("", "queue:"), None),
        ("orders", NONE, None),
        ("my.queue://orders", NONE, None),
        ("", NONE, None),
    ],
)
def test_scheme_without_a_prefix_of_the_acceptor_is_noticed(
    address: str, prefixes: Prefixes, expected: str | None
) -> None:
    """artemis-model §7.1: users expect it to work, and it is off by default."""
    assert missing_prefix(address, prefixes) == expected
