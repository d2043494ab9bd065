"""What each broker shows the scenarios, where they differ, and which side this broker takes.

`expected/classic.json` and `expected/artemis.json` were recorded (`python -m tests.interop.openwire.record`): by
scenario, what was observed. `expected/sides.json` is written by hand: it has an entry for every difference.
What this broker must show follows from the three. `python -m tests.interop.openwire.expectations` writes
`docs/openwire-differences.md` from them.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / "expected"
PAGE: Final = HERE.parents[2] / "docs" / "openwire-differences.md"
RECORDED: Final = ("classic", "artemis")
OWN: Final = "own"
UNSTEADY: Final = "any of"
"""`{"any of": [a, b]}` is expected where a broker's own races decide."""
ABSENT: Final = "not observed"
"""Stands for an observation that one broker's scenario never came to."""

Seen = Mapping[str, Mapping[str, Any]]


@frozen
class Side:
    """One decision: whose behaviour this broker has in some observations of a scenario."""

    scenario: str
    side: str
    why: str
    observations: tuple[str, ...] = ()
    """Those that it is about; none named: all that differ."""
    ours: Mapping[str, Any] = {}
    """Values by observation, if the side is `own`."""


@frozen
class Difference:
    """One observation with something to decide."""

    scenario: str
    observation: str
    classic: Any
    artemis: Any


def recorded(broker: str) -> Seen:
    """What one of `RECORDED` showed."""
    seen: Seen = json.loads((FOLDER / f"{broker}.json").read_text(encoding="utf-8"))
    return seen


def sides() -> list[Side]:
    """The decisions, in the order of the file."""
    entries = json.loads((FOLDER / "sides.json").read_text(encoding="utf-8"))
    return [Side(**{**entry, "observations": tuple(entry.get("observations", ()))}) for entry in entries]


def _pairs(classic: Seen, artemis: Seen) -> Iterator[Difference]:
    for scenario in sorted({*classic, *artemis}):
        first, second = classic.get(scenario, {}), artemis.get(scenario, {})
        for observation in {**first, **second}:
            yield Difference(scenario, observation, first.get(observation, ABSENT), second.get(observation, ABSENT))


def differences() -> list[Difference]:
    """Where the recorded brokers differ, and where this broker is unlike both though they do not."""
    unlike_both = {(side.scenario, observation) for side in sides() for observation in side.ours}
    return [
        pair
        for pair in _pairs(*map(recorded, RECORDED))
        if pair.classic != pair.artemis or (pair.scenario, pair.observation) in unlike_both
    ]


def side_of(difference: Difference, decisions: list[Side]) -> list[Side]:
    """The decisions about it: exactly one, if the file is right."""
    return [
        side
        for side in decisions
        if side.scenario == difference.scenario
        and (not side.observations or difference.observation in side.observations)
    ]


def _chosen(difference: Difference, side: Side) -> Any:
    if side.side == OWN:
        return side.ours[difference.observation]
    return difference.classic if side.side == "classic" else difference.artemis


def expected(broker: str) -> Seen:
    """What a broker must show: `classic`, `artemis`, or `ours` as decided."""
    if broker in RECORDED:
        return recorded(broker)
    decisions = sides()
    wanted = {scenario: dict(seen) for scenario, seen in recorded("classic").items()}
    for difference in differences():
        value = _chosen(difference, *side_of(difference, decisions))
        seen = wanted.setdefault(difference.scenario, {})
        if value == ABSENT:
            seen.pop(difference.observation, None)
        else:
            seen[difference.observation] = value
    return wanted


def agrees(wanted: Any, seen: Any) -> bool:
    """Whether what was seen is what was wanted."""
    if isinstance(wanted, Mapping) and list(wanted) == [UNSTEADY]:
        return seen in wanted[UNSTEADY]
    return bool(wanted == seen)


def disagreements(wanted: Seen, seen: Seen) -> list[str]:
    """A line for everything in `seen` that is not as wanted, and for what is wanted in a scenario and was not seen."""
    lines = []
    for scenario, observations in seen.items():
        expectation = wanted.get(scenario, {})
        for observation in {**expectation, **observations}:
            want, got = (values.get(observation, ABSENT) for values in (expectation, observations))
            if not agrees(want, got):
                lines.append(f"{scenario}, {observation}: wanted {want!r}, seen {got!r}")
    return lines


NAMES: Final = {"classic": "as ActiveMQ Classic", "artemis": "as Artemis", OWN: "as neither"}

HEAD: Final = """\
# OpenWire: where ActiveMQ Classic and Artemis differ

Written by `python -m tests.interop.openwire.expectations`; do not edit. The scenarios of `tests/interop/openwire` are
programs on the genuine client of ActiveMQ. They ran against ActiveMQ Classic {classic} and Apache Artemis {artemis}
with comparable configurations. Of {total} observations {same} were the same for both. The others are below, and the few
in which this broker is unlike both: each with the side that it takes and the reason. `~` stands for the name of the
scenario.
"""


def _cell(value: Any) -> str:
    if value == ABSENT:
        return "not seen"
    if isinstance(value, Mapping) and list(value) == [UNSTEADY]:
        return " or ".join(_cell(one) for one in value[UNSTEADY])
    return "`" + json.dumps(value, ensure_ascii=False).replace("|", "\\|") + "`"


def page(classic: str, artemis: str) -> str:
    """The text of `PAGE` for these versions."""
    pairs = list(_pairs(*map(recorded, RECORDED)))
    different = differences()
    same = sum(pair.classic == pair.artemis for pair in pairs)
    parts = [HEAD.format(classic=classic, artemis=artemis, total=len(pairs), same=same)]
    group = ""
    for side in sorted(sides(), key=lambda side: side.scenario):
        if (name := side.scenario.partition(".")[0]) != group:
            group = name
            parts.append(f"\n## {group}\n")
        parts.append(f"\n### {side.scenario}: {NAMES[side.side]}\n\n{side.why}\n\n")
        parts.append("| Observation | ActiveMQ Classic | Artemis | This broker |\n| --- | --- | --- | --- |\n")
        for one in different:
            if side in side_of(one, [side]):
                cells = (one.observation, _cell(one.classic), _cell(one.artemis), _cell(_chosen(one, side)))
                parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def main() -> None:
    """Write the page."""
    from tests.interop.openwire.peers import ARTEMIS, CLASSIC_5

    PAGE.write_text(page(CLASSIC_5.version, ARTEMIS), encoding="utf-8")


if __name__ == "__main__":
    main()
