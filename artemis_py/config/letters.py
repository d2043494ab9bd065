"""Dead-letter and expiry addresses that have no queue: every message they should get would be discarded.

A file can be held against its own `<addresses>` only. A broker that starts knows more: queues that clients made in
earlier runs are there as well.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.resolving import repository_of
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.errors import Problem

HasQueue = Callable[[str, str | None], bool]
"""Whether an address has a queue, or the one of this name."""


@frozen
class Unserved:
    """A setting whose address has no queue."""

    match: str
    setting: str
    target: str
    remedy: str


# The setting, and the one that makes its queues on demand.
_PAIRS: Final = (
    ("dead_letter_address", "auto_create_dead_letter_resources"),
    ("expiry_address", "auto_create_expiry_resources"),
)


def unserved(config: BrokerConfig, has_queue: HasQueue) -> Iterator[Unserved]:
    """The settings of each match that say where messages go, and nothing takes them there."""
    settings = config.settings
    repository = repository_of(config)
    for match, written in config.address_settings.items():
        # A match is covered by itself, and by all that are broader: what is merged for it is what its addresses get.
        resolved = repository.resolve(_plain(match, settings.literal_match_markers))
        for target_name, auto_create_name in _PAIRS:
            target = getattr(resolved, target_name)
            says_something = getattr(written, target_name) or getattr(written, auto_create_name) is False
            if not target or not says_something:
                continue
            address, queue = parse_fqqn(target)
            if queue is None and getattr(resolved, auto_create_name):
                continue
            if not has_queue(address, queue):
                auto_create = auto_create_name.replace("_", "-")
                remedy = "declare it in <addresses>" if queue else f"declare one in <addresses>, or set {auto_create}"
                yield Unserved(match, target_name.replace("_", "-"), target, remedy)


def problems_of_letters(config: BrokerConfig, places: Mapping[str, tuple[str, int]]) -> list[Problem]:
    """What is wrong about that with a file, as far as the file itself tells; `places`: of each match."""
    found = []
    for each in unserved(config, lambda address, queue: _is_declared(config, address, queue)):
        file, line = places.get(each.match, ("", 0))
        what = "is no queue of <addresses>" if "::" in each.target else "has no queue in <addresses>"
        text = f'match "{each.match}": {each.setting} "{each.target}" {what}: messages would be lost; {each.remedy}'
        found.append(Problem(file, line, "address-setting", text))
    return found


def _is_declared(config: BrokerConfig, address: str, queue: str | None) -> bool:
    wildcards = config.settings.wildcards
    for declared in config.addresses:
        if not any(queue is None or each.name == queue for each in declared.queues):
            continue
        if declared.name == address or not address:
            return True
        if wildcards.routing_enabled and wildcards.matches(declared.name, address):
            return True
    return False


def _plain(match: str, markers: str | None) -> str:
    """The one address that a match between literal markers means; any other match as it is."""
    if markers is not None and len(match) >= 3 and match[0] == markers[0] and match[-1] == markers[1]:
        return match[1:-1]
    return match
