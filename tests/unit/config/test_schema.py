"""The schema and the tables of options say the same."""

import pytest
from lxml import etree

from artemis_py.config import known
from artemis_py.config.broker_config import LOGIN_OPTIONS, MAIN_OPTIONS, WILDCARD_OPTIONS
from artemis_py.config.reader import shipped_folder
from artemis_py.config.schema import SCHEMA_FILES, Schema
from artemis_py.core.settings.options import ADDRESS_SETTINGS, BROKER_OPTIONS, QUEUE_OPTIONS, Option
from tests.unit.config.samples import other_value, whole

CONTAINERS = {"wildcard-addresses", "acceptors", "addresses", "address-settings", "security-settings"}
CONTENTS = Schema(shipped_folder()).contents


def names(options: tuple[Option, ...]) -> set[str]:
    """Of elements or attributes."""
    return {option.name for option in options}


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("core", names(MAIN_OPTIONS) | names(BROKER_OPTIONS) | CONTAINERS),
        ("address-setting", names(ADDRESS_SETTINGS)),
        ("wildcard-addresses", names(WILDCARD_OPTIONS)),
        ("login", names(LOGIN_OPTIONS)),
    ],
)
def test_an_element_may_hold_what_is_read_from_it(element: str, expected: set[str]) -> None:
    """No element that nobody reads, and no option that nobody can write."""
    assert set(CONTENTS[element].children) == expected


def test_a_queue_may_hold_what_is_read_from_it() -> None:
    """Half of its options are attributes, as in Artemis."""
    queue = CONTENTS["queue"]

    assert set(queue.attributes) | set(queue.children) == names(QUEUE_OPTIONS) | {"name", "filter"}


@pytest.mark.parametrize(
    ("legal", "known_names"),
    [
        (set(CONTENTS["core"].children), known.CORE_ELEMENTS),
        (set(CONTENTS["address-setting"].children), known.ADDRESS_SETTINGS),
        (set(CONTENTS["queue"].attributes), known.QUEUE_ATTRIBUTES),
    ],
)
def test_we_have_no_names_that_artemis_has_not(legal: set[str], known_names: frozenset[str]) -> None:
    """What is our own has a namespace of its own."""
    assert legal <= known_names


@pytest.mark.parametrize("option", ADDRESS_SETTINGS, ids=lambda option: option.name)
def test_libxml2_agrees_about_legal_values(option: Option) -> None:
    """Editors complete and check with it."""
    schema = etree.XMLSchema(file=str(shipped_folder() / SCHEMA_FILES[0]))
    text, _ = other_value(option)
    element = f"<{option.name}>{text}</{option.name}>"
    setting = f'<address-settings><address-setting match="#">{element}</address-setting></address-settings>'

    assert schema.validate(etree.fromstring(whole(setting))), schema.error_log
