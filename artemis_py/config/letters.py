"""Finds dead-letter and expiry addresses without a queue: every message sent to them would be discarded.

A file can be checked only against its own `<addresses>` and `<diverts>`. A broker that starts knows more: the queues
that clients created in earlier runs also exist.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.resolving import repository_of
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.errors import Problem

HasQueue = Callable[[str, str | None], bool]
"""Function that tells whether an address has any queue, or the queue of this name."""


@frozen
class Unserved:
    """A setting whose address has no queue."""

    match: str
    setting: str
    target: str
    remedy: str


# Each setting, and the one that creates its queues on demand.
_PAIRS: Final = (
    ("dead_letter_address", "auto_create_dead_letter_resources"),
    ("expiry_address", "auto_create_expiry_resources"),
)


def unserved(config: BrokerConfig, has_queue: HasQueue) -> Iterator[Unserved]:
    """Yield the dead-letter and expiry settings of each match whose address has no queue."""
    settings = config.settings
    repository = repository_of(config)
    for match, written in config.address_settings.items():
        # The settings of a match are merged with those of all broader matches, as they are for its addresses.
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
    """Return these problems of a file, judged by the file alone; `places` are the file and line of each match."""
    found = []
    for each in unserved(config, lambda address, queue: _is_declared(config, address, queue)):
        file, line = places.get(each.match, ("", 0))
        what = "is not a queue in <addresses>" if "::" in each.target else "has no queue in <addresses>"
        text = f'match "{each.match}": {each.setting} "{each.target}" {what}: messages would be lost; {each.remedy}'
        found.append(Problem(file, line, "address-setting", text))
    return found


def _is_declared(config: BrokerConfig, address: str, queue: str | None) -> bool:
    names = [each.name for each in config.addresses if any(queue in (None, found.name) for found in each.queues)]
    if queue is None:  # a divert takes messages as a queue does
        names += [divert.address for divert in config.diverts]
    wildcards = config.settings.wildcards
    return any(
        name == address or not address or (wildcards.routing_enabled and wildcards.matches(name, address))
        for name in names
    )


def _plain(match: str, markers: str | None) -> str:
    """Return the address that a match between literal markers means; return any other match as it is."""
    if markers is not None and len(match) >= 3 and match[0] == markers[0] and match[-1] == markers[1]:
        return match[1:-1]
    return match
