"""What the programs saw, as it is kept in files: of each broker, and why this one differs."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests.interop.exchanges.site import Missing
from tests.interop.kinds.recorded import load
from tests.interop.kinds.scenario import Program, Restarting, Seen

HERE: Final = Path(__file__).parent
OURS: Final = HERE / "ours.json"
BROKER_J: Final = HERE / "broker-j.json"
RABBITMQ: Final = HERE / "rabbitmq.json"
PEERS: Final[Mapping[str, Path]] = {"Broker-J": BROKER_J, "RabbitMQ": RABBITMQ}
DIFFERENCES: Final = HERE / "differences.toml"

LACKING: Final = "lacking"
"""The only fact of a program that needs something that a broker does not have."""
EVERY_FACT: Final = "*"


@frozen
class Difference:
    """Facts that are not the same on this broker and on some of the others, on purpose."""

    peers: tuple[str, ...]
    program: str
    facts: tuple[str, ...]
    why: str


def missing(program: Callable[[Any], Seen | Restarting]) -> Program:
    """Return a program that says what a broker lacks instead of failing."""

    def run(site: Any) -> Seen | Restarting:
        try:
            begun = program(site)
        except Missing as error:
            return {LACKING: str(error)}
        return begun if isinstance(begun, dict) else _rest(begun)

    return run


def _rest(begun: Restarting) -> Restarting:
    """Run the rest of a program that needs a restart."""
    try:
        return (yield from begun)
    except Missing as error:
        return {LACKING: str(error)}


def differences() -> list[Difference]:
    """Return the differences that are wanted, in the order of the file."""
    entries: list[dict[str, Any]] = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["difference"]
    return [
        Difference(tuple(entry["from"]), entry["program"], tuple(entry["facts"]), entry["why"]) for entry in entries
    ]


def unlike(theirs: Mapping[str, Seen], own: Mapping[str, Seen]) -> set[tuple[str, str]]:
    """Return programs and facts that are not the same. What a broker lacks is all facts of a program together."""
    found = set()
    for program in own:
        if LACKING in theirs[program]:
            found.add((program, EVERY_FACT))
            continue
        facts = {*theirs[program], *own[program]}
        found.update((program, fact) for fact in facts if theirs[program].get(fact) != own[program].get(fact))
    return found


def recorded() -> dict[str, dict[str, Seen]]:
    """Return what is kept of all brokers but this one, by name."""
    return {peer: load(path) for peer, path in PEERS.items()}
