"""Write what is generated of docs/queue-kinds.md: the table of differences and the pictures.

Run `python -m tests.interop.kinds.page` after ours.json, artemis.json or differences.toml has changed.
"""

import re
from typing import Any, Final

from tests.interop.broker_process import REPOSITORY
from tests.interop.kinds.instance import KINDS
from tests.interop.kinds.pictures import drawn
from tests.interop.kinds.recorded import ARTEMIS, OURS, differences, load
from tests.interop.kinds.scenario import programs, title

PAGE: Final = REPOSITORY / "docs" / "queue-kinds.md"
PICTURES: Final = REPOSITORY / "docs" / "pictures"
GENERATED: Final = re.compile(r"(?<=<!-- table: differences -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD: Final = "| what is done | what is seen | Artemis | this broker | why |\n| --- | --- | --- | --- | --- |\n"


def shown(value: Any) -> str:
    """Return a value of a fact for a reader."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "none"
        case []:
            return "nothing"
        case list() if any(isinstance(item, list) for item in value):
            return " / ".join(shown(item) for item in value)
        case list():
            return " ".join(shown(item) for item in value)
        case dict():
            return "; ".join(f"{name}: {shown(item)}" for name, item in value.items())
    return str(value).replace("|", "\\|")


def table() -> str:
    """Return the table of differences."""
    artemis, ours, known = load(ARTEMIS), load(OURS), programs(KINDS)
    rows: dict[str, list[tuple[str, str]]] = {}
    for difference in differences():
        rows.setdefault(difference.program, []).append((difference.fact, difference.why))
    lines = []
    for program, facts in rows.items():
        names = "<br>".join(fact for fact, _ in facts)
        theirs, own = (
            "<br>".join(shown(seen[program][fact]) if fact in seen[program] else "-" for fact, _ in facts)
            for seen in (artemis, ours)
        )
        why = " ".join(dict.fromkeys(why for _, why in facts))
        lines.append(f"| `{program}`: {title(known[program])} | {names} | {theirs} | {own} | {why} |\n")
    return HEAD + "".join(lines)


def page(text: str) -> str:
    """Return the text of the page with the table as it must be."""
    written, number = GENERATED.subn(lambda _: f"\n{table()}\n", text)
    assert number == 1, "the page has no place for the table"
    return written


def write() -> None:
    """Write the page and the pictures."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, text in drawn(load(OURS)).items():
        (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
