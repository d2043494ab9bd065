"""What a client is told when something fails: names of Java classes on which clients act (openwire §7).

The names begin with `javax.jms` for every client: Jakarta clients translate them, and others know no other ones.
"""

from typing import Final

from artemis_openwire.engine.structure import Throwable
from artemis_py.errors import (
    AddressFull,
    BrokerDrained,
    ExchangeDeleted,
    HostStopped,
    InvalidFilter,
    LimitExceeded,
    MaxConsumersReached,
    NoRoute,
    NoSuchAddress,
    NoSuchExchange,
    NoSuchQueue,
    NotAuthorized,
    Refusal,
    RoutingTypeMismatch,
    TransactionRolledBack,
)

JMS: Final = "javax.jms.JMSException"
SECURITY: Final = "java.lang.SecurityException"
CLIENT_ID: Final = "javax.jms.InvalidClientIDException"
DESTINATION: Final = "javax.jms.InvalidDestinationException"
SELECTOR: Final = "javax.jms.InvalidSelectorException"
STATE: Final = "java.lang.IllegalStateException"
RESOURCES: Final = "javax.jms.ResourceAllocationException"
ROLLED_BACK: Final = "javax.jms.TransactionRolledBackException"
XA: Final = "javax.transaction.xa.XAException"
IO: Final = "java.io.IOException"

XA_ROLLED_BACK: Final = 100
XA_RESOURCE_ERROR: Final = -3
XA_UNKNOWN: Final = -4
XA_UNTIMELY: Final = -6

CLASSES: Final[dict[type[Refusal], str]] = {
    NotAuthorized: SECURITY,
    NoSuchAddress: DESTINATION,
    NoSuchExchange: DESTINATION,
    ExchangeDeleted: DESTINATION,
    NoRoute: DESTINATION,
    NoSuchQueue: DESTINATION,
    RoutingTypeMismatch: DESTINATION,
    InvalidFilter: SELECTOR,
    AddressFull: RESOURCES,
    HostStopped: IO,
    BrokerDrained: IO,
    LimitExceeded: RESOURCES,
    MaxConsumersReached: RESOURCES,
    TransactionRolledBack: ROLLED_BACK,
}
"""Classes of refusals; every other one is a plain JMSException."""


def throwable_of(refusal: Refusal) -> Throwable:
    """Return what a client is told of a refusal."""
    return Throwable(CLASSES.get(type(refusal), JMS), str(refusal))


def xa_error(code: int, text: str) -> Throwable:
    """Return an error of a distributed transaction. Clients find the code at the end of the text."""
    return Throwable(XA, f"{text} xaErrorCode:{code}")
