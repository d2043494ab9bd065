"""Empties the domain of a virtual host that is being deleted, in slices.

Everything is idempotent: a restart begins again with what is left. The services of the domain are not used afterwards,
so only what they occupy in the accounts of the whole broker has to be given back.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from artemis_py.core.runtime.background import SLICE_UNITS, Steps
from artemis_py.core.services.services import Services
from artemis_py.core.settings.exchange_config import Destination
from artemis_py.errors import StoreError

REASON: Final = "its virtual host is deleted"

RECORDS_PER_SLICE: Final = 500


def clear(services: Services) -> Steps:
    """Delete everything in a domain that nobody is connected to, and its records in the store. Raises StoreError."""
    domain = services.sessions.domain
    services.reaper.stop()
    services.slow_consumers.stop()
    meter = domain.meter
    end = meter.work + SLICE_UNITS
    for _ in _parts(services):
        meter.work += 1
        if meter.work >= end:
            yield None
            end = meter.work + SLICE_UNITS
    # Records are found when they are committed.
    yield domain.storage.when_durable
    after: bytes | None = b""
    while after is not None:
        after = domain.storage.forget_spaces(domain.host, after, RECORDS_PER_SLICE)
        yield domain.storage.when_durable
    return None


def _parts(services: Services) -> Iterator[None]:
    """Delete one thing in each step: first what keeps something of queues, then queues and addresses."""
    domain = services.sessions.domain
    for branch in services.branches.prepared():
        services.branches.complete(branch.xid, is_committed=False)
        services.branches.forget_outcome(branch.xid)
        yield
    for outcome in services.branches.outcomes():
        services.branches.forget_outcome(outcome.xid)
        yield
    for job in services.jobs.all():
        with suppress(StoreError):
            # A message that cannot be read goes with its queue.
            services.jobs.remove(job)
        yield
    search = services.retained.search(domain.options.wildcards.any_words)
    while not search.is_done:
        for message in search.next(limit=20, steps=100):
            services.retained.remove(message.address)
        yield
    for exchange in list(domain.exchanges):
        for binding in list(exchange.bindings.values()):
            key, is_queue, name = binding.identity
            domain.exchanges.unbind(exchange, key, Destination(name, is_queue))
            yield
        if not exchange.is_predeclared:
            domain.exchanges.delete(exchange, force=True)
        yield
    for queue in list(domain.queues.values()):
        if not queue.is_deleted:
            domain.delete_queue(queue.name, force=True, reason=REASON)
        yield
    for name in list(domain.addresses):
        if name in domain.addresses:
            domain.delete_address(name, force=True, reason=REASON)
        yield
