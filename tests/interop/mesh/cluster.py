"""The `broker.xml` of two brokers of a mesh for the programs, how they are run, and what is kept of what they saw."""

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tests.interop.broker_process import Instance
from tests.interop.kinds.recorded import load, save
from tests.interop.kinds.scenario import FAILED, Restarting, Seen, attempt, end_of, programs, setting
from tests.interop.mesh.pair import Pair
from tests.interop.mesh.programs import failures, handover, one_broker, selectors, subscriptions

MODULES: Final[tuple[ModuleType, ...]] = (handover, selectors, one_broker, subscriptions, failures)
HERE: Final = Path(__file__).parent
ARTEMIS: Final = HERE / "artemis.json"
OURS: Final = HERE / "ours.json"
IS_RECORDING: Final = os.environ.get("ARTEMIS_PY_RECORD") == "1"
"""Write what is seen instead of comparing it."""
EITHER: Final = "either"
"""Key of the values of a fact that has been seen to differ from run to run."""

CLUSTER: Final = """
<connectors>
  <connector name="self">tcp://127.0.0.1:{port}</connector>
  <connector name="other">tcp://127.0.0.1:{other}</connector>
</connectors>
<cluster-user>mesh</cluster-user><cluster-password>together</cluster-password>
<cluster-connections>
  <cluster-connection name="mesh">
    <connector-ref>self</connector-ref>
    <check-period>2000</check-period><connection-ttl>10000</connection-ttl><retry-interval>200</retry-interval>
    <message-load-balancing>ON_DEMAND</message-load-balancing>
    <static-connectors><connector-ref>other</connector-ref></static-connectors>
  </cluster-connection>
</cluster-connections>
"""

ANYCAST: Final[Mapping[str, object]] = {
    "dead_letter_address": "now.dead",
    "default_address_routing_type": "ANYCAST",
    "default_queue_routing_type": "ANYCAST",
}
SETTINGS: Final = "".join(
    (
        setting("default.#", **ANYCAST),
        setting("now.#", **ANYCAST, redistribution_delay=0),
        setting("never.#", **ANYCAST, redistribution_delay=-1),
        setting("later.#", **ANYCAST, redistribution_delay=300),
        setting("now.rejected", **ANYCAST, redistribution_delay=0, max_delivery_attempts=1),
        setting(
            "topic.#",
            redistribution_delay=0,
            default_address_routing_type="MULTICAST",
            default_queue_routing_type="MULTICAST",
        ),
    )
)


def configuration(name: str, port: int, other: int, protocols: str) -> str:
    """Return the text for one of the two."""
    instance = Instance(
        persistence="true",
        core="<security-enabled>false</security-enabled><message-expiry-scan-period>100</message-expiry-scan-period>"
        + CLUSTER.format(port=port, other=other),
        parameters=f"protocols={protocols}",
        addresses=one_broker.PARTS.addresses,
        settings=SETTINGS,
    )
    text = instance.configuration().replace("127.0.0.1:0", f"127.0.0.1:{port}")
    return text.replace("<name>interop</name>", f"<name>{name}</name>")


def chosen() -> dict[str, Callable[[Pair], Seen | Restarting]]:
    """Return all programs by name."""
    found = programs(MODULES)
    helpers = {"subscriptions.publish", "subscriptions.subscribe", "failures.while_away"}
    return {name: program for name, program in found.items() if name not in helpers}  # type: ignore[misc]


def observe(pair: Pair, kill: Callable[[], None], start: Callable[[], None]) -> dict[str, Seen]:
    """Run all programs; return what each saw, by its name. `kill` and `start`: node b, once for all of them."""
    seen: dict[str, Seen] = {}
    running: dict[str, Restarting] = {}
    pair.meet()
    for name, program in chosen().items():
        if inspect.isgeneratorfunction(program):
            continue
        seen[name] = attempt(lambda program=program: program(pair))  # type: ignore[misc]
        pair.disconnect()
    for name, program in chosen().items():
        if not inspect.isgeneratorfunction(program):
            continue
        running[name] = program(pair)
        failed = attempt(lambda name=name: next(running[name]))  # type: ignore[misc]
        if failed is not None:
            seen[name] = failed
            del running[name]
    kill()
    pair.disconnect()
    failures.while_away(pair)
    start()
    pair.meet()
    for name, rest in running.items():
        seen[name] = attempt(lambda rest=rest: end_of(rest))  # type: ignore[misc]
        pair.disconnect()
    return {name: seen[name] for name in chosen()}


def compare(seen: Mapping[str, Seen], path: Path, *, may_vary: bool) -> list[str]:
    """Return how what was seen differs from a file; write the file first if `ARTEMIS_PY_RECORD` is 1.

    `may_vary`: what is recorded otherwise already is kept beside the new value, as one of two.
    """
    kept: dict[str, Seen] = {}
    with suppress(FileNotFoundError):
        kept = load(path)
    if IS_RECORDING:
        kept = {
            name: {
                fact: _merged(value, kept.get(name, {}).get(fact, value)) if may_vary else value
                for fact, value in facts.items()
            }
            for name, facts in seen.items()
            if FAILED not in facts
        }
        save(path, kept)
    return [
        f"{name}, {fact}: {seen.get(name, {}).get(fact)!r}, not {kept.get(name, {}).get(fact)!r}"
        for name in dict.fromkeys((*kept, *seen))
        for fact in dict.fromkeys((*kept.get(name, {}), *seen.get(name, {})))
        if not _is_one_of(seen.get(name, {}).get(fact), kept.get(name, {}).get(fact))
    ]


def _merged(value: Any, kept: Any) -> Any:
    values = kept[EITHER] if _is_either(kept) else [kept]
    if value in values:
        return kept
    return {EITHER: sorted([*values, value], key=str)}


def _is_one_of(value: Any, kept: Any) -> bool:
    return value in kept[EITHER] if _is_either(kept) else value == kept


def _is_either(kept: Any) -> bool:
    return isinstance(kept, dict) and EITHER in kept
