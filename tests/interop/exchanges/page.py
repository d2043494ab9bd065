"""Write what is generated of docs/exchange-peers.md: the facts that differ, with reasons, and those that do not.

Run `python -m tests.interop.exchanges.page` after one of the recorded files or differences.toml has changed.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from tests.interop.broker_process import REPOSITORY
from tests.interop.exchanges.brokers import MODULES
from tests.interop.exchanges.recorded import EVERY_FACT, LACKING, OURS, PEERS, Difference, differences, recorded
from tests.interop.kinds.page import shown
from tests.interop.kinds.recorded import load
from tests.interop.kinds.scenario import Seen, programs, title

PAGE: Final = REPOSITORY / "docs" / "exchange-peers.md"
COLUMNS: Final = ("what is done", "what is seen", *PEERS, "this broker", "why")
DIFFERENT: Final = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
SAME: Final = "| what is done | what is seen | all |\n| --- | --- | --- |\n"
NOTHING: Final = "-"


def cell(value: Any) -> str:
    """Return a value of a fact for a reader; a list that is empty is a dash."""
    match value:
        case []:
            return NOTHING
        case list():
            return ", ".join(f"({cell(item)})" if isinstance(item, list) else _code(item) for item in value)
    return shown(value)


def _code(item: object) -> str:
    """Return an item of a list as code, which keeps `*` what it is; an empty text is two quotes."""
    text = shown(item) or "''"
    return f"`{text}`"


def _name(fact: str) -> str:
    """Return a fact for a reader."""
    return "`''`" if fact == "``" else fact


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _shown(fact: str, seen: Seen) -> str:
    """Return what a broker shows."""
    if LACKING in seen:
        return str(seen[LACKING])
    return cell(seen[fact]) if fact in seen else NOTHING


def _reasons(listed: Iterable[Difference], program: str, fact: str) -> str:
    """Return why a fact is not the same for all; nothing if it is."""
    whys = (one.why for one in listed if one.program == program and {fact, EVERY_FACT} & {*one.facts})
    return " ".join(dict.fromkeys(whys))


def tables() -> dict[str, str]:
    """Return the tables of the page by name. A program, and a reason, is in the first of its rows."""
    own, others, known, listed = load(OURS), recorded(), programs(MODULES), differences()
    different, same = [DIFFERENT], [SAME]
    for program, seen in own.items():
        name = alike = f"`{program}`: {title(known[program])}"
        before = ""
        for fact in seen:
            reasons = _reasons(listed, program, fact)
            if reasons:
                columns = [_shown(fact, each[program]) for each in (*others.values(), own)]
                different.append(_row((name, _name(fact), *columns, "" if reasons == before else reasons)))
                name, before = "", reasons
            else:
                same.append(_row((alike, _name(fact), cell(seen[fact]))))
                alike = ""
    return {"different": "".join(different), "same": "".join(same)}


def page(text: str) -> str:
    """Return the text of the page with the tables as they must be."""
    for name, table in tables().items():
        generated = re.compile(rf"(?<=<!-- table: {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
        text, number = generated.subn(lambda _, table=table: f"\n{table}\n", text, count=1)  # type: ignore[misc]
        assert number == 1, f"the page has no place for the table {name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
