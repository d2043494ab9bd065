"""The cache of a router: the broker that a key was given, so that it gets the same one again.

records   mesh-routes, router NUL key   ->   JSON: node id, time of the choice
"""

import json
from collections.abc import Callable
from typing import Final

from artemis_py.core.queues.storage import Storage
from artemis_py.core.settings.router_config import CacheConfig

ROUTES: Final = "mesh-routes"
"""Space of the records of all routers."""

MAX_ENTRIES: Final = 100_000
"""Keys that one router remembers: clients choose many of them as they like. An entry takes some 200 bytes."""


class RouteCache:
    """Keys and brokers of one router; the key that was not asked for longest makes room."""

    def __init__(self, router: str, config: CacheConfig, storage: Storage, now_ms: Callable[[], int]) -> None:
        self._prefix: Final = f"{router}\0"
        self._timeout_ms: Final = config.timeout_ms
        self._storage: Final = storage if config.persisted else None
        self._now_ms: Final = now_ms
        self._entries: Final[dict[str, tuple[str, int]]] = {}

    def load(self) -> None:
        """Read what an earlier run left."""
        if self._storage is None:
            return
        found: list[tuple[str, str, int]] = []
        for key, value in self._storage.load_records(ROUTES):
            try:
                name = key.decode()
                node_id, chosen_ms = json.loads(value)
                if name.startswith(self._prefix):
                    found.append((name[len(self._prefix) :], str(node_id), int(chosen_ms)))
            except (ValueError, TypeError):
                # The key gets a broker again.
                continue
        for key_text, node_id, chosen_ms in sorted(found, key=lambda each: each[2]):
            self._entries[key_text] = node_id, chosen_ms

    def get(self, key: str) -> str | None:
        """Return the node id for a key, unless it was chosen too long ago."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        if 0 < self._timeout_ms <= self._now_ms() - entry[1]:
            self._save(key, None)
            return None
        self._entries[key] = entry
        return entry[0]

    def put(self, key: str, node_id: str) -> None:
        """Remember the broker of a key."""
        self._entries.pop(key, None)
        entry = self._entries[key] = node_id, self._now_ms()
        self._save(key, entry)
        if len(self._entries) > MAX_ENTRIES:
            oldest = next(iter(self._entries))
            del self._entries[oldest]
            self._save(oldest, None)

    def _save(self, key: str, entry: tuple[str, int] | None) -> None:
        if self._storage is not None:
            value = None if entry is None else json.dumps(entry).encode()
            self._storage.save_record(ROUTES, (self._prefix + key).encode(), value)
