"""Parameters of a protocol that is not ours, declared once."""

import pytest
from attrs import frozen

from artemis_py.core.settings.declaration import Kind, option, options_of
from artemis_py.wire.parameters import InvalidParameter, read_parameters


@frozen(kw_only=True)
class Line:
    """What one acceptor says about lines."""

    greeting: str = option(Kind.TEXT, "HELLO", "First word.", name="lineGreeting")
    length: int = option(Kind.COUNT, 80, "Longest line.", name="lineLength", minimum=10, maximum=100)
    is_loud: bool = option(Kind.BOOLEAN, False, "In capitals.", name="lineLoud")


def test_what_is_given_replaces_the_default() -> None:
    given = {"lineGreeting": "", "lineLength": "10", "lineLoud": "true", "amqpCredits": "many"}

    assert read_parameters(Line, given) == Line(greeting="", length=10, is_loud=True)
    assert read_parameters(Line, {}) == Line()
    assert [parameter.name for parameter in options_of(Line)] == ["lineGreeting", "lineLength", "lineLoud"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lineLength", "x", '"x" is not a whole number; write one such as 80'),
        ("lineLength", "9", "9 is too small; write at least 10"),
        ("lineLength", "101", "101 is too large; write at most 100"),
        ("lineLoud", "TRUE", '"TRUE" is neither true nor false; write one of the two in lower case'),
    ],
)
def test_a_refusal_names_the_parameter(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_parameters(Line, {name: text})

    assert (caught.value.name, str(caught.value)) == (name, message)
