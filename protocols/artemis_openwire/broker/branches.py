"""Branches of distributed transactions (XA), as OpenWire clients take them through their phases (openwire §15.2).

The core has the branches. What is known here is which deliveries of which consumers were acknowledged in one: they stay
in the windows until the branch ends, and another connection may end it.

A client that connects again sends all commands of its open branches again, also of those that are prepared. What it
did in those is in them already, and is taken without being done again.
"""

from typing import TYPE_CHECKING, Final

from artemis_openwire.broker.transactions import (
    COMMIT_TWO_PHASE,
    END,
    FORGET,
    PREPARE,
    RECOVER,
    ClientTransaction,
)
from artemis_openwire.engine import errors
from artemis_openwire.engine.codec import write_nested
from artemis_openwire.engine.commands import DataArrayResponse, IntegerResponse, Response, TransactionInfo
from artemis_openwire.engine.errors import xa_error
from artemis_openwire.engine.step_fields import BEGIN, COMMIT_ONE_PHASE, ROLLBACK
from artemis_openwire.engine.structure import Throwable
from artemis_openwire.engine.structures import XATransactionId
from artemis_py.core.runtime.events import BranchEnded, Event
from artemis_py.core.services.xid import Xid
from artemis_py.errors import (
    BranchMisused,
    DuplicateBranch,
    HeuristicOutcome,
    InvalidRequest,
    Refusal,
    StoreError,
    TransactionRolledBack,
    UnknownBranch,
    UnknownTransaction,
)
from artemis_py.protocol import Host

if TYPE_CHECKING:
    from artemis_openwire.broker.exchange import Exchange

_READ_ONLY: Final = 3
_COMMITTED: Final = 7
_ROLLED_BACK: Final = 6

_CODES: Final[dict[type[Refusal], int]] = {
    UnknownBranch: errors.XA_UNKNOWN,
    UnknownTransaction: errors.XA_UNKNOWN,
    InvalidRequest: -5,
    BranchMisused: errors.XA_UNTIMELY,
    StoreError: -7,
    DuplicateBranch: -8,
    TransactionRolledBack: errors.XA_ROLLED_BACK,
}


def xa_told(refusal: Refusal) -> Throwable:
    """Return what a transaction manager is told of a refusal."""
    if isinstance(refusal, HeuristicOutcome):
        return xa_error(_COMMITTED if refusal.is_committed else _ROLLED_BACK, str(refusal))
    return xa_error(_CODES.get(type(refusal), errors.XA_RESOURCE_ERROR), str(refusal))


class BranchWork:
    """What clients have acknowledged in branches that have not ended, by the key of the xid."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._by_key: dict[bytes, list[ClientTransaction]] = {}

    def add(self, xid: Xid, work: ClientTransaction) -> None:
        """Keep what one connection does in a branch."""
        self._by_key.setdefault(xid.key, []).append(work)

    def forget(self, xid: Xid, work: ClientTransaction) -> None:
        """Forget what a connection did that is gone."""
        works = self._by_key.get(xid.key)
        if works is not None and work in works:
            works.remove(work)
            if not works:
                del self._by_key[xid.key]

    def take(self, xid: Xid) -> list[ClientTransaction]:
        """Return all that was done in a branch, which ends."""
        return self._by_key.pop(xid.key, [])

    def on_event(self, event: Event) -> None:
        """Update the windows after an administrator has ended a branch, when the core is done with that."""
        if isinstance(event, BranchEnded):
            for work in self._by_key.pop(event.key, []):
                self._host.after(0, work.committed if event.is_committed else work.rolled_back)


class ClientBranches:
    """The branches that one connection works in."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange
        self._core: Final = exchange.core
        self._branches: Final = exchange.handler.services.branches
        self._work: Final[BranchWork] = exchange.handler.manager.branch_work
        self._replays: Final[bool] = exchange.info.failover_reconnect
        self._mine: dict[bytes, tuple[Xid, ClientTransaction]] = {}
        """Branches that this connection began or joined, by the octets of their names."""

    def find(self, key: bytes) -> ClientTransaction | None:
        """Return a branch that takes messages and acknowledgements; None if this connection does not work in it."""
        found = self._mine.get(key)
        return None if found is None or not found[1].of.is_open else found[1]

    def on_info(self, info: TransactionInfo, answer_id: int) -> None:
        """Take a step of a branch, and answer when it is durable."""
        engine = self._exchange.handler.engine
        try:
            response = self._act(info)
        except Refusal as refusal:
            engine.fail(answer_id, xa_told(refusal))
            return
        if response is None:
            self._exchange.answer_later(answer_id)
        else:
            self._exchange.handler.answers.when_durable(lambda: engine.respond_with(answer_id, response))

    def _act(self, info: TransactionInfo) -> Response | None:
        """Take a step; return the answer if it is not a plain one. Raises Refusal."""
        if info.type == RECOVER:
            return DataArrayResponse(data=tuple(_named(xid) for xid in self._branches.recover(self._core)))
        id = info.transaction_id
        if not isinstance(id, XATransactionId):
            raise InvalidRequest("a step of a distributed transaction needs the id of its branch")
        xid = Xid(id.format_id, id.global_transaction_id or b"", id.branch_qualifier or b"")
        key = write_nested(id, self._exchange.handler.engine.version)
        is_replay = info.type not in (BEGIN, END) and self._end_replay(key)
        match info.type:
            case value if value == BEGIN:
                self._begin(key, xid)
            case value if value == END:
                if not self._is_replay(key):
                    self._branches.end(self._core, xid)
            case value if value == PREPARE:
                return IntegerResponse(result=0) if is_replay else self._prepare(key, xid)
            case value if value in (COMMIT_ONE_PHASE, COMMIT_TWO_PHASE):
                self._commit(key, xid, info.type == COMMIT_ONE_PHASE)
            case value if value == ROLLBACK:
                self._branches.rollback(self._core, xid)
                self._ended(key, xid, is_committed=False)
            case value if value == FORGET:
                self._branches.forget(self._core, xid)
            case _:
                raise InvalidRequest(f"a distributed transaction has no step of type {info.type}")
        return None

    def _begin(self, key: bytes, xid: Xid) -> None:
        """Begin a branch, or work on in one that was begun here or on another connection of the user."""
        if self.find(key) is not None:
            return
        try:
            of = self._branches.join(self._core, xid)
        except UnknownBranch:
            of = self._branches.start(self._core, xid)
        except (BranchMisused, HeuristicOutcome):
            # It is prepared, or an administrator has ended it since.
            if not self._replays:
                raise
            self._mine[key] = xid, ClientTransaction(self._core.begin(), is_replay=True)
            return
        work = ClientTransaction(of)
        self._mine[key] = xid, work
        self._work.add(xid, work)

    def _is_replay(self, key: bytes) -> bool:
        """Tell whether what comes now was done before."""
        found = self._mine.get(key)
        return found is not None and found[1].is_replay

    def _end_replay(self, key: bytes) -> bool:
        """Work in the branch itself from now on; False if that was so before."""
        if not self._is_replay(key):
            return False
        _, work = self._mine.pop(key)
        if work.of.is_open:
            self._core.rollback(work.of)
        return True

    def _prepare(self, key: bytes, xid: Xid) -> Response:
        try:
            has_work = self._branches.prepare(self._core, xid)
        except TransactionRolledBack:
            self._ended(key, xid, is_committed=False)
            raise
        if not has_work:
            self._ended(key, xid, is_committed=True)
        return IntegerResponse(result=0 if has_work else _READ_ONLY)

    def _commit(self, key: bytes, xid: Xid, one_phase: bool) -> None:
        try:
            self._branches.commit(self._core, xid, one_phase)
        except TransactionRolledBack:
            self._ended(key, xid, is_committed=False)
            raise
        self._ended(key, xid, is_committed=True)

    def _ended(self, key: bytes, xid: Xid, is_committed: bool) -> None:
        """Update the windows of all consumers whose deliveries were acknowledged in the branch."""
        self._mine.pop(key, None)
        for work in self._work.take(xid):
            if is_committed:
                work.committed()
            else:
                work.rolled_back()

    def close(self) -> None:
        """Forget the windows of a connection that is gone; prepared branches stay in the core."""
        for xid, work in self._mine.values():
            self._work.forget(xid, work)
        self._mine.clear()


def _named(xid: Xid) -> XATransactionId:
    return XATransactionId(format_id=xid.format_id, global_transaction_id=xid.global_id, branch_qualifier=xid.qualifier)
