"""Parameters of an acceptor's URL that a protocol reads: declared once, parsed once for each acceptor.

A protocol declares them as the fields of an attrs class, each with `option`: its name in the URL, kind, default, bounds
and meaning. `options_of` gives the reader of broker.xml, `artemis-py check` and the manual what they need;
`read_parameters` makes an object from the values of one acceptor.

    @frozen(kw_only=True)
    class LineParameters:
        greeting: str = option(Kind.TEXT, "HELLO", "First word of the answer to a login.", name="lineGreeting")

    PARAMETERS: Final = options_of(LineParameters)
    read_parameters(LineParameters, {"lineGreeting": "HI"}).greeting == "HI"
"""

from collections.abc import Mapping
from typing import TypeVar

from artemis_py.core.settings.declaration import Kind, Option, options_of
from artemis_py.errors import ArtemisError

Owner = TypeVar("Owner")


class InvalidParameter(ArtemisError):
    """A parameter of an acceptor cannot be used; the text says what is wrong, then what would be right."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name: str = name


def read_parameters(owner: type[Owner], given: Mapping[str, str]) -> Owner:
    """Make an `owner` from an acceptor's parameters; those of other protocols are ignored. Raises InvalidParameter."""
    values = {
        option.attribute: parse_parameter(option, given[option.name])
        for option in options_of(owner)
        if option.name in given
    }
    return owner(**values)


def parse_parameter(option: Option, text: str) -> object:
    """Turn the text of one parameter into its value. Raises InvalidParameter."""
    if option.kind is Kind.TEXT:
        return text
    if not isinstance(option.kind, Kind):
        member = option.kind.__members__.get(text.upper())
        if member is None:
            known = " or ".join(option.kind.__members__)
            raise InvalidParameter(option.name, f'"{text}" is not one of its values; write {known}')
        return member
    if option.kind is Kind.BOOLEAN:
        if text not in ("true", "false"):
            raise InvalidParameter(
                option.name, f'"{text}" is neither true nor false; write one of the two in lower case'
            )
        return text == "true"
    assert option.kind in (Kind.COUNT, Kind.BYTES, Kind.MILLISECONDS, Kind.SECONDS), "no parameter is of another kind"
    try:
        number = int(text)
    except ValueError:
        message = f'"{text}" is not a whole number; write one such as {option.default or 1000}'
        raise InvalidParameter(option.name, message) from None
    if option.minimum is not None and number < option.minimum:
        raise InvalidParameter(option.name, f"{number} is too small; write at least {option.minimum:g}")
    if option.maximum is not None and number > option.maximum:
        raise InvalidParameter(option.name, f"{number} is too large; write at most {option.maximum:g}")
    return number
