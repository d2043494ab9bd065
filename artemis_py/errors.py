"""Every error the broker raises on purpose.

Three families: `ConfigError` (the operator's text is wrong), `ProtocolError` (a peer broke its protocol; its
connection ends) and `Refusal` (the broker understood a request and says no). None carries a wire code: each
protocol package has one table that turns a `Refusal` into its own words. `DamagedValue` stays inside the broker.
"""

from typing import Final

from attrs import frozen


class ArtemisError(Exception):
    """Root of all errors of this package."""


@frozen
class Problem:
    """One mistake in a configuration file."""

    file: str
    line: int
    element: str
    message: str
    """What is wrong, then what would be right."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.element}: {self.message}"


class ConfigError(ArtemisError):
    """The configuration cannot be used; `problems` lists every mistake, in file order."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems: Final = problems


class ProtocolError(ArtemisError):
    """A peer broke its protocol: its connection ends, and the broker keeps running."""


class MalformedFrame(ProtocolError):
    """Bytes that cannot be decoded."""


class DamagedValue(ArtemisError):
    """A stored value is not what was written; its reader continues without it."""


class Refusal(ArtemisError):
    """The broker understood a request and refuses it; the text is meant for the client."""


class NoSuchAddress(Refusal):
    """The address does not exist and may not be created on demand."""


class NoSuchQueue(Refusal):
    """The queue does not exist, or not on the address that was named."""


class AddressExists(Refusal):
    """An address of this name already exists."""


class NoSuchExchange(Refusal):
    """The exchange does not exist."""


class ExchangeDeleted(NoSuchExchange):
    """The exchange that a client was using has been deleted."""


class ExchangeExists(Refusal):
    """An exchange of this name exists already."""


class NoSuchHost(Refusal):
    """The virtual host does not exist."""


class HostExists(Refusal):
    """A virtual host of this name, or for this host name, exists already."""


class HostStopped(Refusal):
    """The virtual host is stopped, or is being deleted: nobody may connect to it."""


class BrokerDrained(HostStopped):
    """The broker gives its messages to others of its mesh: clients are to connect to one of those."""


class NoRoute(Refusal):
    """No queue gets the message, and the exchange or the client wants to know."""

    def __init__(self, text: str, is_policy: bool = False) -> None:
        super().__init__(text)
        self.is_policy: bool = is_policy
        """Whether the exchange itself wants such messages to be rejected, whatever the client wants."""


class QueueExists(Refusal):
    """A queue of this name already exists; names are unique in the broker, or in its virtual host."""


class InUse(Refusal):
    """The address still has bindings, or the queue still has consumers."""


class RoutingTypeMismatch(Refusal):
    """The address or queue does not support the routing type that was asked for."""


class InvalidFilter(Refusal):
    """A selector does not parse; the text names the position."""


class InvalidRequest(Refusal):
    """A value is not allowed for any address, queue or message."""


class MaxConsumersReached(Refusal):
    """The queue has as many consumers as its `max-consumers` allows."""


class AddressFull(Refusal):
    """The address is at its limit and its `address-full-policy` is FAIL."""


class NotAuthorized(Refusal):
    """The user lacks a permission."""


class LimitExceeded(Refusal):
    """A limit of the broker or of one connection was reached; the text names it."""


class DuplicateMessage(Refusal):
    """The address has already accepted a message with this duplicate id; only a transaction is refused for that."""


class TransactionRolledBack(Refusal):
    """The transaction was rollback-only; its work is undone."""


class UnknownTransaction(Refusal):
    """No transaction with this id is open here, or it has ended."""


class UnknownBranch(UnknownTransaction):
    """No transaction branch with this xid is known here (XAER_NOTA)."""


class DuplicateBranch(Refusal):
    """A transaction branch with this xid exists already (XAER_DUPID)."""


class BranchMisused(Refusal):
    """The request does not fit the state of the branch, for example a commit before the prepare (XAER_PROTO)."""


class HeuristicOutcome(Refusal):
    """Management has ended the prepared branch; `is_committed` says how (XA_HEURCOM, XA_HEURRB)."""

    def __init__(self, text: str, is_committed: bool) -> None:
        super().__init__(text)
        self.is_committed: Final = is_committed


class StoreError(Refusal):
    """The requested change could not be made durable."""
