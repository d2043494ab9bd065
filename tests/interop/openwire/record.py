"""Record what ActiveMQ Classic and Artemis show: `python -m tests.interop.openwire.record [folder]`.

What is expected already stays as it is if the brokers still agree with it, so that observations marked as unsteady
keep their mark. What is new or different is written; `git diff` shows it.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.interop.openwire.expectations import ABSENT, FOLDER, RECORDED, Seen, agrees, recorded
from tests.interop.openwire.peers import CLASSIC_5, artemis, artemis_distribution, build, classic, observe


def merge(old: Seen, new: Seen) -> Seen:
    """The new observations, each in the words of the old ones where those hold."""
    return {
        scenario: {
            what: old[scenario][what] if agrees(old.get(scenario, {}).get(what, ABSENT), value) else value
            for what, value in seen.items()
        }
        for scenario, seen in sorted(new.items())
    }


def text(seen: Seen) -> str:
    """The file of these observations: a line for each, so that a change is a line of a diff."""
    scenarios = []
    for scenario, observations in seen.items():
        lines = [f"  {json.dumps(what)}: {json.dumps(value)}" for what, value in observations.items()]
        scenarios.append(f" {json.dumps(scenario)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(scenarios) + "\n}\n"


def main() -> None:
    """Run both brokers, one after the other."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        for name in ("build", "artemis", *(f"data-{broker}" for broker in RECORDED)):
            (folder / name).mkdir(parents=True)
        built = build(CLASSIC_5, folder / "build")
        starts = {"classic": classic(built), "artemis": artemis(artemis_distribution(folder / "artemis"))}
        for broker, start in starts.items():
            path = FOLDER / f"{broker}.json"
            old = recorded(broker) if path.exists() else {}
            seen = observe(built, start, folder / f"data-{broker}")
            path.write_text(text(merge(old, seen)), encoding="utf-8")


if __name__ == "__main__":
    main()
