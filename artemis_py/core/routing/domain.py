"""A domain: a set of addresses and queues, and the way of a message to its queues.

It is built in layers, each a class that knows nothing of the next: the addresses and queues (`directory`), where a
message goes (`routing`), and what sessions and the broker see of both.
"""

from collections.abc import Callable

from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.exchanges.exchanges import Exchanges
from artemis_py.core.routing.exchanges.publishing import Publishing
from artemis_py.core.routing.routing import Routing
from artemis_py.core.runtime.access import AccessControl, OpenAccess, Subject
from artemis_py.core.runtime.accounts import tables_limit
from artemis_py.core.runtime.entropy import Entropy
from artemis_py.core.runtime.events import Events, StoreFailed
from artemis_py.core.settings.broker_settings import DEFAULT_BROKER_SETTINGS, BrokerSettings
from artemis_py.core.settings.repository import SettingsRepository


class Domain(Routing):
    """Addresses, queues, exchanges, routing and access control of one domain."""

    def __init__(
        self,
        settings: SettingsRepository,
        dispatcher: Dispatcher,
        options: BrokerSettings = DEFAULT_BROKER_SETTINGS,
        access: AccessControl | None = None,
        events: Events | None = None,
        entropy: Entropy | None = None,
        host: int = 0,
    ) -> None:
        super().__init__(
            settings,
            dispatcher,
            options,
            Events() if events is None else events,
            Entropy() if entropy is None else entropy,
            host,
        )
        self.access: AccessControl = OpenAccess() if access is None else access
        self.subject_now: Callable[[Subject], Subject] = _as_it_was
        """Function that gives the subject of an earlier login its current rights, to act for a client that is gone."""
        self.in_use: list[Callable[[str], bool]] = []
        """Functions of services that tell whether they still need the address of a name. The reaper then keeps the
        address and its queues."""
        settings.on_change(self.apply_settings)
        self.exchanges: Exchanges = Exchanges(self)
        self.publishing: Publishing = Publishing(self)
        self.in_use.append(self.exchanges.leads_to)

    def set_options(self, options: BrokerSettings) -> None:
        """Apply other options: the limits take effect now, the rest is read where it is needed."""
        self.options = options
        self.dispatcher.account.set_limits(options.global_max_size_bytes, options.global_max_messages)
        self.dispatcher.tables.set_limits(tables_limit(options.global_max_size_bytes), -1)

    def new_id(self) -> int:
        """Return a new id for a session, a consumer or a transaction, unique in this broker."""
        return self.dispatcher.numbers.new_id()

    def storage_failed(self, reason: str) -> None:
        """Refuse durable messages from now on, because the storage takes nothing more; the rest continues in memory."""
        self.dispatcher.storage_failed(reason)
        self.events.emit(StoreFailed(reason))


def _as_it_was(subject: Subject) -> Subject:
    return subject
