"""Reloading: a running broker follows its files again, because an operator asks for it, or its file has changed.

What is wrong with the files is logged, and never ends the broker: what cannot be used stays as it was.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from attrs import frozen

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.config.report import merged
from artemis_py.deployment.file_watch import FileWatch
from artemis_py.deployment.plan import Plan
from artemis_py.errors import ConfigError, Problem
from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)


# A file made for Artemis has some twenty; a generated one may have one for each of thousands of matches.
LOGGED_LIMIT: Final = 100
"""Lines of the log about one configuration."""


def log_warnings(warnings: Sequence[Problem]) -> None:
    """Write one line for each warning about a configuration; the same about several lines of the file is one."""
    lines = merged(warnings)
    for problem in lines[:LOGGED_LIMIT]:
        LOGGER.warning("%s", problem)
    if len(lines) > LOGGED_LIMIT:
        LOGGER.warning("%d more warnings; `artemis-py check` prints all of them", len(lines) - LOGGED_LIMIT)


@frozen
class Reloaded:
    """What a broker has changed to follow a configuration."""

    plan: Plan
    problems: Sequence[Problem]
    """Changes that were refused, and files that could not be used."""

    @property
    def made(self) -> int:
        """Number of changes that the running broker follows, but for those that were refused."""
        return len(self.plan.changes) - self.waiting

    @property
    def waiting(self) -> int:
        """Number of changes that wait for the next start."""
        return sum(change.needs_restart for change in self.plan.changes)

    def log(self) -> None:
        """Write one line for each change and problem, then the sum."""
        made = [change for change in self.plan.changes if not change.needs_restart]
        waiting = [change for change in self.plan.changes if change.needs_restart]
        for change in made:
            LOGGER.info("configuration changes: %s", change)
        for change in waiting:
            LOGGER.warning("configuration waits for the next start: %s", change)
        for problem in self.problems:
            LOGGER.error("configuration is not followed: %s", problem)
        LOGGER.info(
            "configuration reloaded: changes=%d waiting=%d problems=%d", len(made), len(waiting), len(self.problems)
        )


@frozen
class Watching:
    """A file that is read again when it has changed."""

    file: FileWatch
    period_s: Callable[[], float | None]
    """Seconds between two looks at it; None: it is not watched now."""


class Reloader:
    """Reloads when it is asked to, once after another, and when a watched file has changed."""

    def __init__(
        self,
        source: Callable[[], BrokerConfig],
        reload: Callable[[BrokerConfig], Reloaded],
        watching: Watching | None = None,
        refused: Callable[[Sequence[Problem]], None] | None = None,
    ) -> None:
        """Create it. `source` reads the configuration, in a thread, and `reload` has the broker follow it.

        `refused` is told of the mistakes of one that cannot be followed.
        """
        self._source: Final = source
        self._refused: Final = refused
        self._reload: Final = reload
        self._watching: Final = watching
        self._requested: Final = asyncio.Event()

    def request(self) -> None:
        """Ask for a reload; requests that come while one is under way become one more."""
        self._requested.set()

    async def run(self) -> None:
        """Serve requests until the task is cancelled."""
        while True:
            await self._asked()
            self._requested.clear()
            if self._watching is not None:
                self._watching.file.note()
            try:
                config = await asyncio.to_thread(self._source)
                log_warnings(config.warnings)
                self._reload(config).log()
            except ConfigError as error:
                for problem in error.problems:
                    LOGGER.error("configuration is not reloaded: %s", problem)
                if self._refused is not None:
                    self._refused(error.problems)
            except Exception:  # the task must live: an operator would ask again and get no answer
                LOGGER.exception("configuration is not reloaded")

    async def _asked(self) -> None:
        """Wait until a reload is asked for, or the watched file has changed."""
        watching = self._watching
        if watching is None:
            await self._requested.wait()
            return
        delay_s = watching.period_s()
        while not self._requested.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._requested.wait()
                    return
            settles_s = watching.file.look()
            if settles_s == 0:
                LOGGER.info("configuration has changed: file=%s", watching.file.path)
                return
            delay_s = watching.period_s() if settles_s is None else settles_s
