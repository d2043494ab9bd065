"""The number of a store's format: what this release reads, what it converts, and what the number says besides.

    2, 3       older; converted by the first start
    4, 5       without and with virtual hosts
    + LOGGED   while the write-ahead log may have batches that the file does not have
    + INHERITING while queues have inherited ranges (`inherited`)

So a release that does not know one of these refuses a store only as long as it is in use there.
"""

from pathlib import Path
from typing import Any, Final

from artemis_py.errors import StoreError
from artemis_py.logs import named_logger
from artemis_py.store import schema

LOGGER: Final = named_logger(__name__)

NEWEST: Final[int] = schema.HOSTS_FORMAT + schema.LOGGED + schema.INHERITING


def is_logged(version: int) -> bool:
    """Tell whether the log may have batches that the file does not have."""
    return version > schema.FORMAT_VERSION and (version - schema.FORMAT_VERSION) & schema.LOGGED != 0


def read_format(databases: dict[bytes, Any], transaction: Any) -> int:
    """Return the format of a store; 0 if it has none."""
    value: bytes = transaction.get(schema.FORMAT_KEY, b"", db=databases[schema.META])
    return int(schema.U32.unpack(value)[0]) if len(value) == schema.U32.size else 0


def mark(databases: dict[bytes, Any], transaction: Any, flag: int, is_set: bool) -> None:
    """Add LOGGED or INHERITING to the format of a store, or subtract it."""
    version = read_format(databases, transaction)
    own = version - schema.FORMAT_VERSION
    marked = schema.FORMAT_VERSION + (own | flag if is_set else own & ~flag)
    if marked != version:
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(marked), db=databases[schema.META])


def check_format(folder: Path, databases: dict[bytes, Any], transaction: Any, for_import: bool) -> None:
    """Give a new store its format, and convert an older one. Raises StoreError for a format that is not read."""
    meta = databases[schema.META]
    if transaction.get(schema.FORMAT_KEY, db=meta) is None:
        transaction.put(schema.FORMAT_KEY, schema.U32.pack(schema.FORMAT_VERSION), db=meta)
        return
    version = read_format(databases, transaction)
    if version > NEWEST:
        raise StoreError(
            f"the store in {folder} has format {version}, this release of artemis_py reads "
            f"{schema.HOSTS_FORMAT}: start it with the newer release that wrote it"
        )
    if version >= schema.FORMAT_VERSION:
        if for_import and is_logged(version):
            raise StoreError(
                f"the store in {folder} has a write-ahead log, because its broker was not stopped cleanly: "
                "start the broker and stop it, then import"
            )
        return
    if version == schema.UNSEALED_FORMAT:
        _seal_numbers(databases, transaction)
    elif version != schema.KEYLESS_FORMAT:
        raise StoreError(
            f"the store in {folder} has format {version}, this release of artemis_py reads "
            f"{schema.FORMAT_VERSION}: have its messages consumed by the older release that wrote it, and start "
            "this one with an empty journal-directory"
        )
    transaction.put(schema.FORMAT_KEY, schema.U32.pack(schema.FORMAT_VERSION), db=meta)
    template = "store converted, older releases do not open it any more: folder=%s from=%d to=%d"
    LOGGER.info(template, folder, version, schema.FORMAT_VERSION)


def _seal_numbers(databases: dict[bytes, Any], transaction: Any) -> None:
    """Add checksums to the numbers of a store whose format had none."""
    meta, marks = databases[schema.META], databases[schema.MARKS]
    numbers = [(meta, key, transaction.get(key, db=meta)) for key in schema.NUMBERS]
    numbers += [(marks, bytes(key), value) for key, value in transaction.cursor(db=marks)]
    for database, key, value in numbers:
        # A number of another length is damaged, and stays as it is until it is read.
        if value is not None and len(value) in (schema.U32.size, schema.U64.size):
            number = int.from_bytes(value, "big")
            transaction.put(key, schema.number_value(key, number), db=database)
