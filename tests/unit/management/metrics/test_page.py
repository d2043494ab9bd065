"""docs/monitoring.md and the alerts that are shipped name the metrics that there are."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from artemis_py.management.metrics.catalogue import CATALOGUE
from artemis_py.management.metrics.exposition import PREFIX, Family, Kind
from tests.unit.management.metrics.world import MetricsWorld
from tests.unit.management.test_mesh_control import Two

REPOSITORY: Final = Path(__file__).resolve().parents[4]
PAGE: Final = (REPOSITORY / "docs" / "monitoring.md").read_text(encoding="utf-8")
ALERTS: Final = (REPOSITORY / "conf" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")


def rules() -> list[dict[str, Any]]:
    """The alerts, as Prometheus reads them."""
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load(ALERTS)["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def sample_names(families: list[Family]) -> set[str]:
    """Names that a rule may use."""
    found = set()
    for family in families:
        suffixes = ("_bucket", "_count", "_sum") if family.kind is Kind.HISTOGRAM else ("",)
        found |= {family.sample_name + suffix for suffix in suffixes}
    return found


def row(family: Family) -> str:
    """The row of a metric in the table of the page."""
    labels = ", ".join([f"`{label}`" for label in family.labels])
    return f"| `{family.sample_name}` | {family.kind.value} | {labels} | {family.help} |"


def test_the_page_has_every_metric() -> None:
    """The texts are in the code; this fails with the rows as they should be."""
    rows = [line for line in PAGE.splitlines() if line.startswith((f"| `{PREFIX}", "| `process_"))]

    assert rows == [row(family) for family in CATALOGUE]


def test_alerts_use_metrics_that_there_are() -> None:
    scraped = MetricsWorld(mesh=Two(), logins=lambda: (1, 1)).scrape()
    used = set(
        re.findall(
            rf"\b(?:{PREFIX}|process_)\w+", re.sub(r'"[^"]*"', "", "\n".join([each["expr"] for each in rules()]))
        )
    )

    assert used
    assert used <= sample_names(scraped)


def test_each_alert_says_what_is_at_stake() -> None:
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert "instance" in rule["annotations"]["summary"]


def test_the_page_has_every_alert() -> None:
    assert re.findall(r"^\| ([A-Z]\w+) \| (?:critical|warning|info) \|", PAGE, re.MULTILINE) == [
        rule["alert"] for rule in rules()
    ]


def test_labels_of_alerts_exist() -> None:
    """A label that a metric does not have matches nothing, and the alert never fires."""
    labels = {family.sample_name: set(family.labels) for family in CATALOGUE}
    for rule in rules():
        for name, selector in re.findall(rf"({PREFIX}\w+){{([^}}]*)}}", rule["expr"]):
            used = set(re.findall(r"(\w+)[=!]", selector)) - {"job"}
            assert used <= labels.get(name, set()), rule["alert"]
