"""The identifier of a broker: the same through restarts, as long as its store is the same.

A reader that remembers its offset in a queue also remembers the broker that the offset belongs to.
"""

from typing import Final

from artemis_py.core.queues.storage import Storage
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.store.schema import NODE_RECORDS

NODE_ID: Final = b"node-id"
"""Key of the record with the identifier."""


def node_id(storage: Storage, entropy: Entropy) -> str:
    """Return the identifier in the storage; if there is none yet, make one and save it."""
    known = dict(storage.load_records(NODE_RECORDS)).get(NODE_ID)
    if known is None:
        known = entropy.uuid().encode()
        storage.save_record(NODE_RECORDS, NODE_ID, known)
    return known.decode()
