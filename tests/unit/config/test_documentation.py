"""The manual has every option, with the default and explanation that the code has.

Run this module (`python -m`) to write the tables of docs/artemis-compatibility.md, docs/broker-connections.md,
docs/configuration.md and docs/management.md again.
"""

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Final

import pytest
from attrs import NOTHING

from artemis_amqp.broker.manager import PARAMETERS as AMQP_PARAMETERS
from artemis_mqtt.broker.parameters import PARAMETERS as MQTT_PARAMETERS
from artemis_openwire.broker.parameters import PARAMETERS as OPENWIRE_PARAMETERS
from artemis_py.config.broker_config import LOGIN_OPTIONS, MAIN_OPTIONS, WILDCARD_OPTIONS
from artemis_py.config.exchanges import ARGUMENT_OPTIONS, BINDING_OPTIONS, EXCHANGE_OPTIONS
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS
from artemis_py.core.settings.bridge_config import BRIDGE_ELEMENTS
from artemis_py.core.settings.broker_connection_config import BRIDGE_OPTIONS, BROKER_CONNECTION_OPTIONS
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS
from artemis_py.core.settings.cluster_config import CLUSTER_OPTIONS, DISCOVERY_OPTIONS, LOGIN_ELEMENTS
from artemis_py.core.settings.declaration import FIRST_RELEASE, Kind, Option
from artemis_py.core.settings.divert_config import DIVERT_OPTIONS
from artemis_py.core.settings.queue_config import QUEUE_OPTIONS
from artemis_py.core.settings.queue_settings import Mutability, QueueAttribute
from artemis_py.core.settings.resource_limits import RESOURCE_LIMIT_OPTIONS
from artemis_py.core.settings.router_config import CACHE_OPTIONS, POOL_OPTIONS, ROUTER_OPTIONS
from artemis_py.management.http.config import WEB_OPTIONS
from artemis_py.management.queue_attributes import ATTRIBUTES, COLUMNS, SHOWN
from artemis_py.transport.config import ACCEPTOR_OPTIONS, CONNECTOR_OPTIONS, CONNECTOR_TLS_OPTIONS, TLS_OPTIONS
from tests.unit.config.compatibility import COMPATIBILITY

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
TABLE: Final = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def shown(default: object) -> str:
    """A default as one would write it; a dash for none."""
    match default:
        case None | "" | ():
            return "-"
        case _ if default is NOTHING:
            return "required"
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
    return ", ".join(f"`{name}`" for name in option.words)


def table(rows: Iterable[tuple[str, str, object, str]]) -> str:
    """Markdown."""
    lines = [f"| `{name}` | {kind} | {shown(default)} | {text} |" for name, kind, default, text in rows]
    return "\n".join(["", "| name | value | default | meaning |", "| --- | --- | --- | --- |", *lines, "", ""])


def help_of(option: Option) -> str:
    """What an option does, and since when if there were releases without it."""
    return option.help if option.since == FIRST_RELEASE else f"{option.help} Since {option.since}."


def of_options(*options: Option) -> str:
    """A table of what the broker reads itself."""
    return table((each.name, kind_of(each), default_of(each), help_of(each)) for each in options)


def default_of(option: Option) -> object:
    """The default; a member of an enum as it is written."""
    return next((text for text, member in option.words.items() if member is option.default), option.default)


def of_queues(*attributes: QueueAttribute) -> str:
    """A table of what broker.xml says about queues; the default may be an address setting."""
    return table((each.name, kind_of(each), _default_in_file(each), help_of(each)) for each in attributes)


def _default_in_file(attribute: QueueAttribute) -> object:
    if attribute.in_file is not None:
        return attribute.in_file
    return attribute.default if attribute.setting is None else attribute.setting.name


def of_management() -> str:
    """A table of what management says about queues."""
    heads = "| member | value | `updateQueue` | attribute | column | meaning |\n| --- | --- | --- | --- | --- | --- |"
    columns = dict(zip(SHOWN, COLUMNS, strict=True))
    lines = [
        f"| `{name}` | {kind_of(each)} | {'yes' if each.mutability is Mutability.EVERYBODY else 'no'} "
        f"| `{each.shown}` | `{columns[each.shown]}` | {help_of(each)} |"
        for name, each in ATTRIBUTES.items()
    ]
    return "\n".join(["", heads, *lines, "", ""])


CONFIGURATION: Final = {
    "broker": of_options(*MAIN_OPTIONS, *BROKER_OPTIONS),
    "wildcards": of_options(*WILDCARD_OPTIONS),
    "acceptor": of_options(*ACCEPTOR_OPTIONS),
    "tls": of_options(*TLS_OPTIONS),
    "amqp": of_options(*AMQP_PARAMETERS),
    "mqtt": of_options(*MQTT_PARAMETERS),
    "openwire": of_options(*OPENWIRE_PARAMETERS),
    "queue": of_queues(*QUEUE_OPTIONS),
    "divert": of_options(*DIVERT_OPTIONS),
    "exchange": of_options(*EXCHANGE_OPTIONS),
    "binding": of_options(*BINDING_OPTIONS),
    "argument": of_options(*ARGUMENT_OPTIONS),
    "address-setting": of_options(*ADDRESS_SETTINGS),
    "login": of_options(*LOGIN_OPTIONS),
    "resource-limit-setting": of_options(*RESOURCE_LIMIT_OPTIONS),
    "web": of_options(*WEB_OPTIONS),
    "connector": of_options(*CONNECTOR_OPTIONS, *CONNECTOR_TLS_OPTIONS),
    "cluster-connection": of_options(*CLUSTER_OPTIONS),
    "cluster-login": of_options(*LOGIN_ELEMENTS),
    "discovery-group": of_options(*DISCOVERY_OPTIONS),
    "connection-router": of_options(*ROUTER_OPTIONS),
    "router-pool": of_options(*POOL_OPTIONS),
    "router-cache": of_options(*CACHE_OPTIONS),
}
BROKER_CONNECTIONS: Final = {
    "amqp-connection": of_options(*BROKER_CONNECTION_OPTIONS),
    "sender": of_options(*BRIDGE_OPTIONS),
    "bridge": of_options(*BRIDGE_ELEMENTS),
}
PAGES: Final = {
    "artemis-compatibility.md": COMPATIBILITY,
    "broker-connections.md": BROKER_CONNECTIONS,
    "configuration.md": CONFIGURATION,
    "management.md": {"queue": of_management()},
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, tables in PAGES.items() for name in tables])
def test_the_page_has_the_table(page: str, name: str) -> None:
    """To mend it, run this module."""
    tables = {found[2]: found[0] for found in TABLE.finditer((DOCS / page).read_text(encoding="utf-8"))}

    assert tables[name] == f"<!-- table: {name} -->\n{PAGES[page][name]}<!-- end -->"


def write_tables() -> None:
    """Put all tables into their pages."""
    for name, tables in PAGES.items():
        path = DOCS / name
        page = path.read_text(encoding="utf-8")
        filled = TABLE.sub(lambda found, tables=tables: found[1] + tables[found[2]] + found[3], page)  # type: ignore[misc]
        path.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    write_tables()
