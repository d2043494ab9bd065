"""Values that are encoded in place: the same octets as the engine's own encoder gives."""

from hypothesis import example, given
from hypothesis import strategies as st

from artemis_amqp.client import encode_value
from artemis_py.spark.encoding import whole_number


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300))
@example(-128)
@example(-129)
@example(127)
@example(128)
def test_a_whole_number_is_encoded_as_the_engine_does(number: int) -> None:
    assert whole_number(number) == encode_value(number)
