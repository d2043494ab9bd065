"""The broker's own message format: what it writes it reads, and nothing else makes it raise anything else."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.messages.widths import Binary32, Int8, Int16, Int32
from artemis_py.errors import MalformedFrame

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.builds(UUID, int=st.integers(0, 2**128 - 1))
)
KEYS = st.text() | st.integers() | st.binary()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
VIEWS = st.builds(
    MessageView,
    message_id=SCALARS,
    correlation_id=SCALARS,
    user_id=st.none() | st.binary(),
    subject=st.none() | st.text(),
    properties=st.dictionaries(st.text() | st.sampled_from(["$map", "$bytes", "$uuid"]), VALUES, max_size=4),
    annotations=st.dictionaries(st.text(), VALUES, max_size=4),
    body=VALUES,
)


@given(VIEWS)
def test_the_bytes_of_a_message_say_all_that_its_view_says(view: MessageView) -> None:
    assert Message(PLAIN_FORMAT, "a", plain_message("a", view).data).view == view


def test_numbers_keep_their_width() -> None:
    """Clients of JMS tell an int from a long; a store must not make one out of the other."""
    numbers = {"a": Int8(-1), "b": Int16(2), "c": Int32(3), "d": Binary32(0.5), "e": 4, "f": 0.5, "g": True}

    found = Message(PLAIN_FORMAT, "a", plain_message("a", MessageView(properties=dict(numbers))).data).view.properties

    assert found == numbers
    assert [type(each) for each in found.values()] == [Int8, Int16, Int32, Binary32, int, float, bool]


@given(VIEWS, st.integers(min_value=0), st.integers(0, 255))
def test_damaged_bytes_decode_to_something_or_are_malformed(view: MessageView, index: int, octet: int) -> None:
    """A store's checksum catches most damage; what slips through must not surprise the broker."""
    data = bytearray(plain_message("a", view).data)
    data[index % len(data)] = octet
    try:
        decoded = Message(PLAIN_FORMAT, "a", bytes(data)).view
    except MalformedFrame:
        return
    assert isinstance(decoded.properties, dict)
