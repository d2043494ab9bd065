"""The guides for those who leave another broker have the tables and the report that the migration has.

Run this module (`python -m`) to write them again.
"""

import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from artemis_py.migrate.activemq import table as activemq
from artemis_py.migrate.artemis import table as artemis
from artemis_py.migrate.brokerj import table as brokerj
from artemis_py.migrate.mosquitto import table as mosquitto
from artemis_py.migrate.rabbitmq import table as rabbitmq
from artemis_py.migrate.rules import Table
from tests.migration import migrate

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
MODULES: Final[dict[str, ModuleType]] = {
    "activemq": activemq,
    "artemis": artemis,
    "mosquitto": mosquitto,
    "rabbitmq": rabbitmq,
    "brokerj": brokerj,
}
PAGES: Final = [f"leaving-{'qpid' if name == 'brokerj' else name}.md" for name in MODULES]
TABLE: Final = re.compile(r"(<!-- table: (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
EXAMPLE: Final = re.compile(r"(```xml\n)(.*?)(```\n\n<!-- example -->\n```\n)(.*?)(```\n<!-- end -->)", re.DOTALL)


def table_of(format: str, name: str) -> str:
    """The rules under a name of a module, as Markdown."""
    rules = getattr(MODULES[format], name)
    return (rules if isinstance(rules, Table) else Table(rules)).markdown()


def report_of(text: str) -> str:
    """What the migration of a file prints."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "activemq.xml"
        file.write_text(text, encoding="utf-8")
        return migrate(file, Path(folder) / "new").report.replace(f"{folder}/", "")


def current(page: str) -> str:
    """A page with the tables and the report of today."""
    text = (DOCS / page).read_text(encoding="utf-8")
    text = TABLE.sub(lambda found: f"{found[1]}\n{table_of(found[2], found[3])}\n\n{found[4]}", text)
    return EXAMPLE.sub(lambda found: f"{found[1]}{found[2]}{found[3]}{report_of(found[2])}{found[5]}", text)


@pytest.mark.parametrize("page", PAGES)
def test_page_and_migration_agree(page: str) -> None:
    """python -m tests.unit.migrate.test_documentation"""
    assert (DOCS / page).read_text(encoding="utf-8") == current(page)


def test_every_rule_of_activemq_is_on_the_page() -> None:
    """A group that no heading names would be missing."""
    text = (DOCS / "leaving-activemq.md").read_text(encoding="utf-8")

    assert [name for name in activemq.TABLE.rules if f"`{name}`" not in text] == []


if __name__ == "__main__":
    for each in PAGES:
        (DOCS / each).write_text(current(each), encoding="utf-8")
