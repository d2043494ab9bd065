"""Exchanges at the start of a broker."""

from typing import Final

from artemis_py.core.routing.exchanges.exchanges import Exchanges
from artemis_py.logs import named_logger

LOGGER: Final = named_logger(__name__)


def restore_exchanges(exchanges: Exchanges) -> None:
    """Make the exchanges and bindings of earlier runs, and log those that cannot be made."""
    for problem in exchanges.restore():
        LOGGER.error("stored exchange or binding is not used: %s", problem)
