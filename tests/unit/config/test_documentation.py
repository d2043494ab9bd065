"""docs/configuration.md has every option, with the default and explanation that the code has.

Run this file as a script to write its tables anew.
"""

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Final

import pytest

from artemis_amqp.broker.manager import PARAMETERS as AMQP_PARAMETERS
from artemis_mqtt.broker.parameters import PARAMETERS as MQTT_PARAMETERS
from artemis_py.config.broker_config import LOGIN_OPTIONS, MAIN_OPTIONS, WILDCARD_OPTIONS
from artemis_py.core.settings.options import ADDRESS_SETTINGS, BROKER_OPTIONS, QUEUE_OPTIONS, Kind, Option
from artemis_py.transport.config import ACCEPTOR_OPTIONS, TLS_OPTIONS

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
TABLE: Final = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def shown(default: object) -> str:
    """A default as one would write it; a dash for none."""
    match default:
        case None | "" | ():
            return "-"
        case bool():
            return f"`{str(default).lower()}`"
        case Enum():
            return f"`{default.name}`"
        case tuple():
            return f"`{','.join(default)}`"
        case _:
            return f"`{default}`"


def kind_of(option: Option) -> str:
    """What may be written."""
    if isinstance(option.kind, Kind):
        return option.kind.value
    return ", ".join(f"`{name}`" for name in option.kind.__members__)


def table(rows: Iterable[tuple[str, str, object, str]]) -> str:
    """Markdown."""
    lines = [f"| `{name}` | {kind} | {shown(default)} | {text} |" for name, kind, default, text in rows]
    return "\n".join(["", "| name | value | default | meaning |", "| --- | --- | --- | --- |", *lines, "", ""])


def of_options(*options: Option) -> str:
    """A table of what the broker reads itself."""
    return table((each.name, kind_of(each), each.default, each.help) for each in options)


TABLES: Final = {
    "broker": of_options(*MAIN_OPTIONS, *BROKER_OPTIONS),
    "wildcards": of_options(*WILDCARD_OPTIONS),
    "acceptor": of_options(*ACCEPTOR_OPTIONS),
    "tls": of_options(*TLS_OPTIONS),
    "amqp": of_options(*AMQP_PARAMETERS),
    "mqtt": of_options(*MQTT_PARAMETERS),
    "queue": of_options(*QUEUE_OPTIONS),
    "address-setting": of_options(*ADDRESS_SETTINGS),
    "login": of_options(*LOGIN_OPTIONS),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_table(name: str) -> None:
    """To mend it, run this file."""
    tables = {found[2]: found[0] for found in TABLE.finditer(PAGE.read_text(encoding="utf-8"))}

    assert tables[name] == f"<!-- table: {name} -->\n{TABLES[name]}<!-- end -->"


def write_tables() -> None:
    """Put all tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda found: found[1] + TABLES[found[2]] + found[3], page), encoding="utf-8")


if __name__ == "__main__":
    write_tables()
