"""Write the table of docs/mesh-peers.md: what two brokers of a mesh do, Apache Artemis and this one.

Run `python -m tests.interop.mesh.page` after ours.json or artemis.json has changed.
"""

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

from tests.interop.broker_process import REPOSITORY
from tests.interop.kinds.recorded import load
from tests.interop.kinds.scenario import Seen, programs
from tests.interop.mesh.cluster import ARTEMIS, EITHER, MODULES, OURS, chosen

PAGE: Final = REPOSITORY / "docs" / "mesh-peers.md"
GENERATED: Final = re.compile(r"(?<=<!-- table: programs -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD: Final = "| what is done | Artemis | this broker |\n| --- | --- | --- |\n"
FATE: Final = ("sent", "came", "stranded", "lost", "doubled", "in order")
FAULTS: Final[Mapping[str, str]] = {
    "waits although a consumer has room": "stranded",
    "is lost": "lost",
    "comes twice": "doubled",
    "comes out of order": "in order",
}


def values(fact: Any) -> list[Any]:
    """Return what was seen of a fact: one value, or all of one that is not the same each time."""
    return list(fact[EITHER]) if isinstance(fact, dict) and EITHER in fact else [fact]


def shown(value: Any) -> str:
    """Return the values of a fact for a reader."""
    return " or ".join(_word(each) for each in values(value))


def _word(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case []:
            return "nothing"
        case list():
            return ", ".join(map(str, value))
    return str(value)


def sentence(facts: Seen) -> str:
    """Return what a program saw in words."""
    parts = []
    if "sent" in facts:
        if values(facts["came"]) == [facts["sent"]]:
            parts.append(f"all {facts['sent']} came" if facts["sent"] > 1 else "it came")
        else:
            parts.append(f"{shown(facts['came'])} of {facts['sent']} came")
    for fact, words in (("stranded", "wait"), ("lost", "lost"), ("doubled", "came twice")):
        if any(values(facts.get(fact, 0))):
            parts.append(f"{shown(facts[fact])} {words}")
    if False in values(facts.get("in order", True)):
        parts.append("out of order" if values(facts["in order"]) == [False] else "at times out of order")
    parts += [f"{fact}: {shown(value)}" for fact, value in facts.items() if fact not in FATE or "sent" not in facts]
    return "; ".join(parts)


def has_fault(facts: Seen, fact: str) -> bool:
    """Whether a program saw, at least once, something stranded, lost, doubled or out of order."""
    good = fact == "in order"
    return fact in facts and any(bool(value) is not good for value in values(facts[fact]))


def summary() -> str:
    """Return in how many programs each fault was seen."""
    artemis, ours = load(ARTEMIS), load(OURS)
    lines = [f"| of {len(ours)} programs, those in which a message | Artemis | this broker |\n| --- | --- | --- |\n"]
    for words, fact in FAULTS.items():
        numbers = (sum(has_fault(facts, fact) for facts in seen.values()) for seen in (artemis, ours))
        lines.append(f"| {words} | " + " | ".join(map(str, numbers)) + " |\n")
    return "".join(lines)


def table() -> str:
    """Return the tables."""
    artemis, ours, known = load(ARTEMIS), load(OURS), chosen()
    text = [summary()]
    for module in MODULES:
        text.append(f"\n**{(inspect.getdoc(module) or '').partition(chr(10))[0]}**\n\n{HEAD}")
        for name in programs([module]):
            if name in known:
                title = (inspect.getdoc(known[name]) or "").partition("\n")[0]
                text.append(f"| {title} | {sentence(artemis[name])} | {sentence(ours[name])} |\n")
    return "".join(text)


def page(text: str) -> str:
    """Return the text of the page with the tables as they must be."""
    written, number = GENERATED.subn(lambda _: f"\n{table()}\n", text)
    assert number == 1, "the page has no place for the tables"
    return written


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
