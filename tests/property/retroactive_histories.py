"""Histories for the property test of retroactive addresses: from hypothesis, and longer ones by number."""

from collections.abc import Callable
from random import Random
from typing import Final

from hypothesis import strategies as st

from artemis_py.core.names.routing_type import RoutingType

COLOURS: Final = ("red", "green")
SIZES: Final = (0, 1, 3, 7)
KINDS: Final = st.sampled_from((RoutingType.MULTICAST, RoutingType.MULTICAST, RoutingType.ANYCAST))

OPERATIONS: Final = st.one_of(
    st.tuples(
        st.just("send"),
        st.integers(1, 6),
        st.sampled_from((-1, 0, 0, 1)),
        st.sampled_from(COLOURS),
        st.integers(3, 5),
        st.booleans(),
        st.sampled_from((0, 0, 0, 15)),
    ),
    st.tuples(st.just("create"), KINDS, st.sampled_from((None, None, "red")), st.booleans(), st.booleans()),
    st.tuples(st.just("create"), st.just(RoutingType.MULTICAST), st.none(), st.just(True), st.booleans()),
    st.tuples(st.just("rush"), st.integers(3, 8), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("to one"), st.integers(0, 5)),
    st.tuples(st.just("later"), st.sampled_from((0, 1, -1)), st.booleans(), st.integers(1, 25)),
    st.tuples(st.just("resize"), st.sampled_from(SIZES)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("drain"), st.integers(0, 5)),
    st.tuples(st.just("begin")),
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("wait"), st.integers(5, 20)),
    st.tuples(st.just("scan")),
    st.tuples(st.just("turn")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("check")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash")),
)


def history(seed: int) -> list[tuple[object, ...]]:
    """A longer one, with more messages than hypothesis comes to by itself."""
    dice = Random(seed)

    def flip() -> bool:
        return dice.random() < 0.65

    multicast, anycast = RoutingType.MULTICAST, RoutingType.ANYCAST
    choices: list[Callable[[], tuple[object, ...]]] = [
        lambda: (
            "send",
            dice.randint(1, 6),
            dice.choice((-1, 0, 0, 1)),
            dice.choice(COLOURS),
            dice.randint(3, 5),
            flip(),
            dice.choice((0, 0, 0, 15)),
        ),
        lambda: ("rush", dice.randint(3, 8), dice.randint(1, 3), flip()),
        lambda: ("create", dice.choice((multicast, multicast, anycast)), dice.choice((None, "red")), flip(), flip()),
        lambda: ("to one", dice.randint(0, 3)),
        lambda: ("later", dice.choice((0, 1, -1)), flip(), dice.randint(1, 25)),
        lambda: ("resize", dice.choice((*SIZES, 7, 20))),
        lambda: ("delete", dice.randint(0, 3)),
        lambda: ("drain", dice.randint(0, 3)),
        lambda: ("begin",),
        lambda: ("end", flip()),
        lambda: ("wait", dice.randint(5, 20)),
        lambda: (dice.choice(("scan", "turn", "turn", "commit", "commit", "check", "restart", "crash")),),
        lambda: (dice.choice(("turn", "commit", "crash")),),
    ]
    return [dice.choice(choices)() for _ in range(dice.randint(5, 25))]
