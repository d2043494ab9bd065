"""What docs/spark.md says about names: each one is an option, or is refused as the table says."""

import re
from pathlib import Path
from typing import Final

import pytest

from artemis_py.spark import options
from artemis_py.spark.columns import COLUMNS as READ_COLUMNS
from artemis_py.spark.errors import InvalidOption
from artemis_py.spark.kafka_names import COLUMNS, CONNECTION_OPTIONS, READ_OPTIONS, WRITE_OPTIONS
from artemis_py.spark.options import read_options, write_options

PAGE: Final = (Path(__file__).resolve().parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[tuple[str, str]]:
    """The first two cells of each row of the first table below a line."""
    after = PAGE[PAGE.index(heading) + len(heading) :]
    table = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE)
    assert table is not None
    lines = [line.strip("|").split(" | ") for line in table.group().splitlines()]
    return [(cells[0].strip(), cells[1].strip()) for cells in lines if not set(cells[0]) <= set(" -|")]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


KAFKA: Final = rows("error names ours.")
SAME: Final = {name for theirs, ours in KAFKA if ours.startswith("the same") for name in names(theirs)}


@pytest.mark.parametrize(("theirs", "ours"), [row for row in KAFKA[1:] if not row[1].startswith("the same")])
def test_an_option_of_kafka_is_refused_with_what_the_table_says(theirs: str, ours: str) -> None:
    for name in names(theirs):
        sink = name.lower() in WRITE_OPTIONS
        given = {"address": "a"} if sink else {"mode": "browse", "queue": "q"}
        example = name.replace("*", "fetch.max.bytes")
        with pytest.raises(InvalidOption, match="one of Kafka's") as raised:
            write_options({**given, example: "x"}) if sink else read_options({**given, example: "x"})
        if not ours.startswith("none"):
            assert any(mine in str(raised.value) for mine in names(ours)), name


def test_options_that_are_the_same_exist() -> None:
    known = {option.name for option in options._READ}

    assert known >= SAME
    assert "maxOffsetsPerTrigger" in SAME


def test_the_table_has_every_name_that_is_answered() -> None:
    """But for settings of Kafka's producer, which are many."""
    listed = {name.lower() for theirs, _ in KAFKA for name in names(theirs)}

    assert listed >= READ_OPTIONS.keys() | {name for name in CONNECTION_OPTIONS if not name.startswith("kafka.")}


def test_columns_of_kafka_are_those_of_the_code() -> None:
    found = {name for theirs, _ in rows("other `kafka.*`")[1:] for name in names(theirs)}

    assert found == COLUMNS.keys()


def test_every_option_and_column_is_in_the_manual() -> None:
    missing = [
        option.name
        for option in (*options._READ, *options._WRITE, *options._CONNECTION)
        if f"`{option.name}`" not in PAGE
    ]
    missing += [name for name in READ_COLUMNS if f"`{name}`" not in PAGE]

    assert missing == []
