"""Builds the store of a configuration, with its folders and the parts of the broker that it needs."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.core.routing.domain import Domain
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.deployment.diverts import restore_diverts
from artemis_py.deployment.exchanges import restore_exchanges
from artemis_py.deployment.lifecycle import Part, State
from artemis_py.errors import Problem
from artemis_py.protocol import ProtocolManager
from artemis_py.store.disk import DiskMonitor
from artemis_py.store.lmdb import LmdbStore
from artemis_py.store.log.options import LogOptions
from artemis_py.store.log_start import LogSettings
from artemis_py.store.recovery import restore, restore_branches, restore_jobs, restore_retained
from artemis_py.transport.repeated import Repeated
from artemis_py.transport.turn import Turn
from artemis_py.transport.worker import Worker

ARTEMIS_JOURNAL: Final = "activemq-data-*.amq"
"""Files of the journal of Artemis."""


def journal_folder(config: BrokerConfig) -> Path:
    """Return the folder of the store."""
    return config.home / config.journal_directory


def large_messages_folder(config: BrokerConfig) -> Path:
    """Return the folder of the files of large messages."""
    return config.home / config.large_messages_directory


def paging_folder(config: BrokerConfig) -> Path | None:
    """Return the folder for non-durable messages that do not fit into memory; None means a temporary folder."""
    return config.home / config.paging_directory if config.persistence_enabled else None


def warnings_of_store(config: BrokerConfig) -> list[Problem]:
    """Return a warning if the folder of the store has the journal of Artemis, whose messages would seem to be lost."""
    folder = journal_folder(config)
    if not config.persistence_enabled or next(folder.glob(ARTEMIS_JOURNAL), None) is None:
        return []
    text = "Artemis has kept messages here, which are not read; let clients consume them from Artemis first"
    return [Problem(str(folder), 0, "journal-directory", text)]


def store_of(config: BrokerConfig) -> LmdbStore | None:
    """Return the store that a configuration asks for, not opened yet; None if everything is kept in memory."""
    if not config.persistence_enabled:
        return None
    waits = config.journal_sync_transactional or config.journal_sync_non_transactional
    return LmdbStore(
        journal_folder(config),
        large_messages_folder=large_messages_folder(config),
        answers_wait=waits,
        log=_log_of(config) if config.write_ahead_log else None,
    )


def _log_of(config: BrokerConfig) -> LogSettings:
    """Return how the write-ahead log uses the disk, and when it is folded."""
    files = LogOptions(
        file_bytes=config.journal_file_size_bytes,
        min_files=config.journal_min_files,
        pool_files=config.journal_pool_files,
    )
    return LogSettings(
        files=files,
        max_bytes=config.write_ahead_log_max_size_bytes,
        max_age_s=config.write_ahead_log_max_age_ms / 1000,
        most_looks=-(-config.journal_buffer_timeout_ns // 1_000_000),
    )


def parts_of_store(
    store: LmdbStore,
    disk: DiskMonitor,
    services: Services,
    hosts: VirtualHosts,
    managers: Sequence[ProtocolManager],
    may_create: bool,
    loop: asyncio.AbstractEventLoop,
    turn: Turn,
    worker: Worker,
    folding_worker: Worker,
) -> list[Part]:
    """Return the parts that recover the stored state and store what happens from then on.

    `worker` commits; `folding_worker` writes what a write-ahead log has into the store.

    With `may_create`, a missing folder of the store is created. It is long so that the order stands in one place.
    """
    formats = {PLAIN_FORMAT.name: PLAIN_FORMAT} | {each.name: each for one in managers for each in one.formats}
    domain = services.sessions.domain
    looks = Repeated(loop, turn.enter, disk.scan)

    def failed(reason: str) -> None:
        for each in domains():
            each.storage_failed(reason)
        turn.plan()

    def domains() -> list[Domain]:
        everybody = [*hosts.restored(), *[host.services for host in hosts.leaving()]]
        return [each.sessions.domain for each in everybody]

    def of_each(restore_one: Callable[[Services], object]) -> Callable[[], None]:
        """Return a function that restores something in the default domain, then in each virtual host."""

        def restore_all() -> None:
            for each in hosts.restored():
                restore_one(each)

        return restore_all

    return [
        Part(
            "store",
            State.RECOVERING,
            lambda: restore(store, domain, formats, may_create, hosts),
            lambda: store.close([queue for each in domains() for queue in each.queues.values()]),
        ),
        # Parts stop in reverse: the workers finish their commit and fold before the store is closed.
        Part("folding worker", State.RECOVERING, stop=folding_worker.stop),
        Part(
            "store worker",
            State.RECOVERING,
            lambda: store.start(loop, worker, failed, turn.stored, folding_worker),
            worker.stop,
        ),
        Part("retained messages", State.RECOVERING, of_each(lambda each: restore_retained(each.retained, formats))),
        # The disk is checked before clients can connect.
        Part("disk", State.RECOVERING, lambda: looks.start(disk.scan()), looks.stop),
        # Before anything is delivered or expires.
        Part("prepared branches", State.RECOVERING, of_each(lambda each: restore_branches(each.branches))),
        Part("jobs", State.RECOVERING, of_each(lambda each: restore_jobs(each.jobs))),
        Part("stages", State.RECOVERING, of_each(lambda each: each.staging.restore())),
        Part("exchanges", State.RECOVERING, of_each(lambda each: restore_exchanges(each.sessions.domain.exchanges))),
        Part("diverts", State.RECOVERING, of_each(lambda each: restore_diverts(each.diverts))),
        # Before addresses and queues of the configuration are created.
        Part("histories", State.RECOVERING, of_each(lambda each: each.retroactive.restore())),
    ]
