"""The two text formats, read by the parsers of Prometheus' own library, which is the referee."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artemis_py.management.metrics.exposition import Family, Kind, Sample, number, render
from artemis_py.management.metrics.histogram import Histogram
from tests.examples import examples
from tests.unit.management.metrics.world import MetricsWorld

FAMILIES: Final = [
    Family("logins", Kind.COUNTER, "Logins.", "", ("result",)).by([(("ok",), 3), (("bad",), 0)]),
    Family("memory_bytes", Kind.GAUGE, 'Say "bytes" \\ twice\nhere.', "bytes").of(1.5),
    Family("build", Kind.INFO, "It.", "", ("version",)).by([(("1.0",), 1)]),
    Family("nothing", Kind.GAUGE, "It is not there.", "", ("a",)),
    Family("process_open_fds", Kind.GAUGE, "Files.").of(7),
]


def parsed(families: list[Family], open_metrics: bool) -> dict[str, Any]:
    """Families by name, as the library reads them."""
    if open_metrics:
        parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    else:
        parser = pytest.importorskip("prometheus_client.parser")
    return {each.name: each for each in parser.text_string_to_metric_families(render(families, open_metrics).decode())}


def test_openmetrics() -> None:
    """Families of counters have no `_total`, units are told, and an end shows that nothing was cut off."""
    assert render(FAMILIES, open_metrics=True).decode() == (
        "# HELP artemis_py_logins Logins.\n"
        "# TYPE artemis_py_logins counter\n"
        'artemis_py_logins_total{result="ok"} 3\n'
        'artemis_py_logins_total{result="bad"} 0\n'
        '# HELP artemis_py_memory_bytes Say \\"bytes\\" \\\\ twice\\nhere.\n'
        "# TYPE artemis_py_memory_bytes gauge\n"
        "# UNIT artemis_py_memory_bytes bytes\n"
        "artemis_py_memory_bytes 1.5\n"
        "# HELP artemis_py_build It.\n"
        "# TYPE artemis_py_build info\n"
        'artemis_py_build_info{version="1.0"} 1\n'
        "# HELP process_open_fds Files.\n"
        "# TYPE process_open_fds gauge\n"
        "process_open_fds 7\n"
        "# EOF\n"
    )


def test_the_older_format() -> None:
    assert render(FAMILIES, open_metrics=False).decode() == (
        "# HELP artemis_py_logins_total Logins.\n"
        "# TYPE artemis_py_logins_total counter\n"
        'artemis_py_logins_total{result="ok"} 3\n'
        'artemis_py_logins_total{result="bad"} 0\n'
        '# HELP artemis_py_memory_bytes Say "bytes" \\\\ twice\\nhere.\n'
        "# TYPE artemis_py_memory_bytes gauge\n"
        "artemis_py_memory_bytes 1.5\n"
        "# HELP artemis_py_build_info It.\n"
        "# TYPE artemis_py_build_info gauge\n"
        'artemis_py_build_info{version="1.0"} 1\n'
        "# HELP process_open_fds Files.\n"
        "# TYPE process_open_fds gauge\n"
        "process_open_fds 7\n"
    )


@pytest.mark.parametrize("open_metrics", [True, False])
def test_the_library_reads_both(open_metrics: bool) -> None:
    found = parsed(FAMILIES, open_metrics)

    assert {sample.labels["result"]: sample.value for sample in found["artemis_py_logins"].samples} == {
        "ok": 3,
        "bad": 0,
    }
    assert found["artemis_py_memory_bytes"].documentation == 'Say "bytes" \\ twice\nhere.'
    assert "artemis_py_nothing" not in found


@pytest.mark.parametrize("open_metrics", [True, False])
@settings(max_examples=examples(100), deadline=None)
@given(text=st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from('\\"\n{},= '), max_size=8))
def test_any_label_is_read_as_it_was(open_metrics: bool, text: str) -> None:
    family = Family("broker", Kind.GAUGE, "It.", "", ("name",)).by([((text,), 1)])
    (sample,) = parsed([family], open_metrics)["artemis_py_broker"].samples

    assert sample.labels == {"name": text}


def test_what_is_no_text_does_not_break_a_scrape() -> None:
    """A lone surrogate, from a file that is not UTF-8."""
    family = Family("broker", Kind.GAUGE, "It.", "", ("name",)).by([(("a\udc80",), 1)])

    assert b'{name="a?"} 1\n' in render([family], open_metrics=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (0.25, "0.25"), (1.0, "1.0"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (float("nan"), "NaN")],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_each_bucket_has_the_shorter_ones_too() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 30.0):
        histogram.add(value)
    family = histogram.samples_of(Family("lag_seconds", Kind.HISTOGRAM, "It.", "seconds"))

    assert family.samples == (
        Sample(2, (("le", "0.1"),), "_bucket"),
        Sample(3, (("le", "1.0"),), "_bucket"),
        Sample(4, (("le", "+Inf"),), "_bucket"),
        Sample(4, (), "_count"),
        Sample(30.65, (), "_sum"),
    )


def test_a_name_ends_with_its_unit() -> None:
    """OpenMetrics demands it."""
    with pytest.raises(AssertionError, match="does not end with its unit"):
        Family("memory", Kind.GAUGE, "It.", "bytes")


@pytest.mark.parametrize("open_metrics", [True, False])
def test_the_library_reads_a_scrape(open_metrics: bool) -> None:
    """It also checks what OpenMetrics demands of names, types, units and buckets."""
    families = MetricsWorld(logins=lambda: (1, 2)).scrape()
    found = parsed(families, open_metrics)

    assert set(found) >= {each.full_name for each in families if each.samples and each.kind is not Kind.INFO}
