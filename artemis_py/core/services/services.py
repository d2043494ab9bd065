"""The services of a broker: parts above routing and sessions, which nothing below may name.

A new service is created here, beside the others; protocols and management get all of them through `Host`.
"""

from typing import Final

from artemis_py.core.services.branches import Branches
from artemis_py.core.services.diverts import ManagedDiverts
from artemis_py.core.services.jobs import Jobs
from artemis_py.core.services.leases import Leases
from artemis_py.core.services.reaper import Reaper
from artemis_py.core.services.retained import RetainedMessages
from artemis_py.core.services.retroactive import Retroactive
from artemis_py.core.services.slow_consumers import SlowConsumers
from artemis_py.core.services.staging import Staging
from artemis_py.core.sessions.sessions import Sessions


class Services:
    """The services of one domain; created when a broker is assembled."""

    def __init__(self, sessions: Sessions) -> None:
        domain = sessions.domain
        self.sessions: Final = sessions
        self.staging: Final = Staging(domain)
        self.branches: Final = Branches(domain)
        self.retained: Final = RetainedMessages(
            domain.dispatcher, domain.options.wildcards, domain.addresses, domain.records
        )
        self.diverts: Final = ManagedDiverts(domain)
        self.retroactive: Final = Retroactive(domain)
        self.jobs: Final = Jobs(sessions)
        self.leases: Final = Leases()
        self.reaper: Final = Reaper(sessions)
        self.slow_consumers: Final = SlowConsumers(sessions)
