"""What all connections of one acceptor have in common."""

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import field, frozen

from artemis_py.logs import LogBrake, named_logger
from artemis_py.protocol import (
    DEFAULT_OUTPUT_LIMIT_BYTES,
    Authenticator,
    ProtocolManager,
)
from artemis_py.transport.config import AcceptorConfig
from artemis_py.transport.connections import Connections
from artemis_py.transport.turn import Turn

LOGGER: Final = named_logger("artemis_py.transport.driver")


@frozen(kw_only=True)
class AcceptorContext:
    """What all connections of one acceptor have in common."""

    config: AcceptorConfig
    managers: Sequence[ProtocolManager]
    """The protocols spoken here, in the order in which they are asked."""
    authenticator: Authenticator
    turn: Turn
    connections: Connections
    tls: ssl.SSLContext | None = None
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    idle_timeout_override_ms: int | None = None
    """For `ConnectionContext`."""
    brake: LogBrake = field(factory=lambda: LogBrake(LOGGER))
    parameters: Mapping[str, object] = field(init=False)
    """What each protocol made of the acceptor's parameters, by its name."""

    @parameters.default
    def _read_parameters(self) -> Mapping[str, object]:
        config = self.config
        return {manager.name: manager.read_parameters(config.name, config.parameters) for manager in self.managers}
