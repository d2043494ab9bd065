"""The two text formats in which Prometheus reads metrics: its own, version 0.0.4, and OpenMetrics 1.0.

    Prometheus 0.0.4                              OpenMetrics 1.0
    # HELP artemis_py_logins_total Logins.        # HELP artemis_py_logins Logins.
    # TYPE artemis_py_logins_total counter        # TYPE artemis_py_logins counter
    artemis_py_logins_total{result="ok"} 3        artemis_py_logins_total{result="ok"} 3
                                                  # EOF

This module knows the formats and no metric. Lines are joined here and not by the library of Prometheus, because that
takes twenty times as long, in one piece, on the loop of the broker.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from attrs import evolve, field, frozen

PREFIX: Final = "artemis_py_"

PROCESS: Final = "process_"
"""Names that begin so are those of Prometheus' own clients, and get no prefix: dashboards look for them."""

OPEN_METRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""Content type of OpenMetrics."""

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the older format."""

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels, in the order in which they are written."""


class Kind(Enum):
    """Type of a metric. The value is its name in both formats, except that the older one has no `info`."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@frozen
class Sample:
    """One line: a number, and what it is about."""

    value: float
    labels: Labels = ()
    suffix: str = ""
    """`_bucket`, `_count` or `_sum` in a histogram; `render` adds the suffixes of counters and infos."""


@frozen
class Family:
    """A metric with its samples."""

    name: str
    """Without prefix and without `_total` or `_info`, but with its unit."""
    kind: Kind
    help: str
    unit: str = field(default="")
    labels: tuple[str, ...] = ()
    """Names of its labels."""
    samples: tuple[Sample, ...] = ()

    @unit.validator
    def _ends_name(self, attribute: object, unit: str) -> None:
        assert not unit or self.name.endswith(f"_{unit}"), f"{self.name} does not end with its unit {unit}"

    @property
    def full_name(self) -> str:
        """Name with its prefix, as OpenMetrics calls the family."""
        return self.name if self.name.startswith(PROCESS) else PREFIX + self.name

    @property
    def sample_name(self) -> str:
        """Name of its samples, as rules and dashboards use it; a histogram has several, which begin with this."""
        return self.full_name + _SUFFIXES.get(self.kind, "")

    def of(self, value: float) -> "Family":
        """Return this metric with one number and no labels."""
        return evolve(self, samples=(Sample(value),))

    def by(self, values: Iterable[tuple[tuple[str, ...], float]]) -> "Family":
        """Return this metric with numbers, each with the values of its labels."""
        return evolve(
            self, samples=tuple([Sample(value, tuple(zip(self.labels, names, strict=True))) for names, value in values])
        )


_SUFFIXES: Final = {Kind.COUNTER: "_total", Kind.INFO: "_info"}


def render(families: Iterable[Family], open_metrics: bool) -> bytes:
    """Return the text of metrics in one of the formats; those without samples are left out."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            _write(family, open_metrics, lines)
    if open_metrics:
        lines.append("# EOF\n")
    return "".join(lines).encode()


def _write(family: Family, open_metrics: bool, lines: list[str]) -> None:
    name, kind = family.full_name, family.kind.value
    suffix = _SUFFIXES.get(family.kind, "")
    help = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    if open_metrics:
        help = help.replace('"', '\\"')
    else:
        name += suffix
        suffix = ""
        kind = "gauge" if family.kind is Kind.INFO else kind
    lines.append(f"# HELP {name} {help}\n# TYPE {name} {kind}\n")
    if open_metrics and family.unit:
        lines.append(f"# UNIT {name} {family.unit}\n")
    for sample in family.samples:
        labels = ",".join([f'{label}="{_escaped(value)}"' for label, value in sample.labels])
        braces = f"{{{labels}}}" if labels else ""
        lines.append(f"{name}{suffix}{sample.suffix}{braces} {number(sample.value)}\n")


def _escaped(value: str) -> str:
    """Return the value of a label as it is written; what is no text in UTF-8 becomes a question mark."""
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(value: float) -> str:
    """Return a number as both formats write it."""
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    return "NaN" if value != value else str(value)
