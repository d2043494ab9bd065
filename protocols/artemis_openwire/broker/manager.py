"""OpenWire as a protocol of the broker: the entry point `OPENWIRE` of the group `artemis_py.protocols`."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from artemis_openwire.broker.advisories import Advisories
from artemis_openwire.broker.branches import BranchWork
from artemis_openwire.broker.clients import Clients
from artemis_openwire.broker.handler import ClientHandler
from artemis_openwire.broker.numbering import Numbering
from artemis_openwire.broker.parameters import PARAMETERS, Parameters
from artemis_openwire.broker.patterns import QueuePatterns
from artemis_openwire.broker.referral import update_clients
from artemis_openwire.broker.scheduler import MANAGEMENT, Scheduler
from artemis_openwire.engine.commands import BrokerInfo
from artemis_openwire.engine.negotiation import matches
from artemis_openwire.engine.structures import BrokerId
from artemis_openwire.messages.format import OPENWIRE_FORMAT
from artemis_py.core.messages.message import MessageFormat
from artemis_py.core.runtime.events import BranchEnded
from artemis_py.core.settings.declaration import Option
from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import ConnectionContext, Host, Siblings
from artemis_py.wire.parameters import read_parameters

_SPACE: Final = "OPENWIRE.broker"
_BROKER_ID: Final = b"id"


class OpenWireProtocolManager:
    """State that all OpenWire connections of a domain share; the transport knows that of the default domain."""

    name = "OPENWIRE"
    formats: Sequence[MessageFormat] = (OPENWIRE_FORMAT,)
    parameters: Sequence[Option] = PARAMETERS
    websocket_subprotocols: Sequence[str] = ()
    greeting: bytes = b""

    def __init__(self, host: Host, first: "OpenWireProtocolManager | None" = None) -> None:
        """Create it for the domain of `host`; if that is not the default one, `first` is the manager of that."""
        self.host: Final = host
        self.run_name: str = f"ID:{uuid4()}" if first is None else first.run_name
        """Name of this run of the broker; messages of other protocols get ids below it."""
        self.clients: Final = Clients()
        self.numbering: Numbering = Numbering(host) if first is None else first.numbering
        self.advisories: Final = Advisories(self, host)
        self.patterns: Final = QueuePatterns(host)
        self.branch_work: Final = BranchWork(host)
        host.events.subscribe(self.branch_work.on_event, BranchEnded)
        self.brake: LogBrake = LogBrake(named_logger("artemis_openwire")) if first is None else first.brake
        """Rate limit for log lines that clients can cause."""
        self._scheduler: Final = Scheduler(self, host.jobs)
        self.info: BrokerInfo = BrokerInfo() if first is None else first.info
        """How the broker introduces itself."""
        if first is not None:
            host.sessions.register_endpoint(MANAGEMENT, self._scheduler)
        host.referrals.when_changed(self._brokers_changed)
        self.siblings: Final = Siblings(self, host, lambda other: OpenWireProtocolManager(other, self))
        """Managers of all domains: client ids and advisories of one mean nothing in another."""

    def read_parameters(self, acceptor: str, given: Mapping[str, str]) -> Parameters:
        """Parse an acceptor's parameters. Raises InvalidParameter."""
        return read_parameters(Parameters, given)

    def start(self) -> None:
        """Take up the broker's id: distributed transactions need one that stays the same (openwire §12.1)."""
        records = self.host.records(_SPACE)
        known = dict(records.load()).get(_BROKER_ID)
        if known is None:
            known = f"ID:{uuid4()}".encode("ascii")
            records.save(_BROKER_ID, known)
        self.host.sessions.register_endpoint(MANAGEMENT, self._scheduler)
        name = self.host.options.name
        self.info = BrokerInfo(broker_id=BrokerId(value=known.decode("ascii")), broker_name=name, broker_url="")
        # Now that they know the id: jobs of an earlier run become messages of the protocol when they are due.
        self.siblings.all()

    def _brokers_changed(self, has_more: bool) -> None:
        """Tell clients which other brokers there are now."""
        self.host.background.start(update_clients(self, has_more))

    def matches(self, head: bytes) -> bool | None:
        """Tell whether a connection that begins with these octets is OpenWire; None: too few to tell."""
        return matches(head)

    def connect(self, context: ConnectionContext) -> ClientHandler:
        """Start a conversation."""
        parameters = context.parameters
        return ClientHandler(self, context, parameters if isinstance(parameters, Parameters) else Parameters())
