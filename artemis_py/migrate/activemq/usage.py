"""Limits of memory and disk, and the store."""

from typing import Final

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.migrate.activemq.reading import Reading
from artemis_py.migrate.findings import Outcome
from artemis_py.migrate.rules import words

_STORES: Final = words(
    "kahaDB mKahaDB levelDB kahaPersistenceAdapter amqPersistenceAdapter journalPersistenceAdapter "
    "jdbcPersistenceAdapter memoryPersistenceAdapter journalPersistenceAdapterFactory replicatedLevelDB"
)
_SYNC: Final = ("journal-sync-transactional", "journal-sync-non-transactional")


def read_usage(reading: Reading, broker: ForeignElement) -> None:
    """Read `systemUsage` and `persistenceAdapter` of a broker."""
    core = reading.target.core
    for element in _named(broker, "systemUsage"):
        for attribute in ("sendFailIfNoSpace", "sendFailIfNoSpaceAfterTimeout"):
            if reading.text(element, attribute, is_told=False) not in (None, "false", "0"):
                reading.tell(element, attribute)
                reading.target.setting("#", "disk-full-policy", "FAIL", reading.origin(element, attribute))
            elif attribute in element.attributes:
                reading.tell(element, attribute, Outcome.NEEDLESS, "the default here")
    for element in _named(broker, "memoryUsage"):
        limit = reading.size(element, "limit")
        if limit:
            core.put("global-max-size", str(limit), reading.origin(element, "limit"))
        reading.number(element, "percentOfJvmHeap")
    for element in _named(broker, "storeUsage"):
        reading.size(element, "limit")
        percent = reading.number(element, "percentLimit")
        if percent:
            core.put("max-disk-usage", str(percent), reading.origin(element, "percentLimit"))
    for element in _named(broker, "tempUsage"):
        reading.size(element, "limit")
        reading.number(element, "percentLimit")
    for holder in ("persistenceAdapter", "persistenceFactory"):
        for element in _named(broker, holder):
            for store in element.children:
                _read_store(reading, store)


def _read_store(reading: Reading, store: ForeignElement) -> None:
    if store.name not in _STORES:
        return
    for attribute, off in (("enableJournalDiskSyncs", "false"), ("journalDiskSyncStrategy", "never")):
        value = reading.text(store, attribute)
        if value is not None and value.lower() == off:
            for name in _SYNC:
                reading.target.core.put(name, "false", reading.origin(store, attribute))
    told = {"enableJournalDiskSyncs", "journalDiskSyncStrategy"}
    reading.cover(store)
    reading.tell(store)
    for attribute in store.attributes:
        if attribute not in told:
            reading.tell(store, attribute, Outcome.NEEDLESS, "the store of this broker is another one, without tuning")


def _named(element: ForeignElement, name: str) -> list[ForeignElement]:
    found = [element] if element.name == name else []
    return found + [below for child in element.children for below in _named(child, name)]
