"""For the tests of the configuration: a whole file around a part of it, and values that are not the defaults."""

from enum import Enum
from pathlib import Path

from artemis_py.config import BrokerConfig, parse
from artemis_py.config.reader import shipped_folder
from artemis_py.config.schema import Content, Schema
from artemis_py.core.settings.declaration import Kind, Option
from artemis_py.errors import ConfigError

FILE = "broker.xml"
SCHEMA = Schema(shipped_folder())

# Elements of the schema, named by their parents.
SETTING = "core/address-settings/address-setting"
QUEUE = "core/addresses/address/anycast/queue"


def whole(core: str = "", after: str = "") -> bytes:
    """A broker.xml with `core` from its fourth line on, and `after` behind the core element."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<persistence-enabled>false</persistence-enabled>
{core}
</core>
{after}
</configuration>""".encode()


def read(core: str = "", after: str = "", folder: Path = Path(), **variables: str) -> BrokerConfig:
    """The configuration that a file with this in its core gives."""
    return parse(whole(core, after), FILE, folder, variables)


def mistakes(core: str = "", after: str = "", folder: Path = Path(), **variables: str) -> list[str]:
    """What is said about such a file, one text a mistake; fails the test if nothing is."""
    return mistakes_in(whole(core, after), folder, **variables)


def mistakes_in(data: bytes, folder: Path = Path(), **variables: str) -> list[str]:
    """What is said about a file of these bytes."""
    try:
        parse(data, FILE, folder, variables)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    raise AssertionError("the configuration was accepted")


def content(path: str) -> Content:
    """What the schema allows in an element at this place."""
    found = SCHEMA.root
    for name in path.split("/"):
        found = found.children[name]
    return found


def other_value(option: Option) -> tuple[str, object]:
    """A text for an option, and the value it stands for, which is not the default."""
    kind = option.kind
    if not isinstance(kind, Kind):
        assert isinstance(option.default, Enum)
        return next((text, member) for text, member in option.words.items() if member is not option.default)
    match kind:
        case Kind.TEXT:
            text = "!" if option.maximum == 1 else "()" if option.maximum == 2 else "other"
            return text, text
        case Kind.BOOLEAN:
            return ("false", False) if option.default else ("true", True)
        case Kind.PATTERN:
            return "^get.*$", "^get.*$"
        case Kind.NAMES:
            return "EXTERNAL, PLAIN", ("EXTERNAL", "PLAIN")
        case Kind.BYTES:
            return "3M", 3 * 1024 * 1024
        case Kind.FACTOR:
            factor = 0.5 + (option.minimum or 0)
            return str(factor), factor
        case _:
            number = 17 if option.maximum is None else min(17, int(option.maximum))
            return str(number), number
