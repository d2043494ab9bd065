"""Transaction branches (XA): transactions that are prepared first, and committed or rolled back by a later request.

A branch is a transaction with a name that the client chose, its xid.

    active      begun by `start`; a part of its session as every transaction, and rolled back with it or by the
                transaction timeout
    prepared    durable, and on its own: its messages wait in a queue of the broker (`prepared_messages`), its
                deliveries stay claimed, and neither a time-out, a lost connection nor a restart ends it
    ended       forgotten; if management ended a prepared branch, the outcome is kept until `forget`

Everything that one request changes is in one commit of the store, so a crash leaves a branch active (and so rolled
back), prepared, or ended. Protocols answer when the change is durable (`Storage.when_durable`), as for every commit.

A prepared branch belongs to the user that began it: that user may finish it from any connection, and so may all with
the permission to manage the broker.
"""

import json
from collections.abc import Sequence
from typing import Final

from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.queues.queue import Queue
from artemis_py.core.queues.reference import unhold
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.domain import Domain
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.events import BranchEnded
from artemis_py.core.services.branch import BRANCHES, Branch, Content, Route, StoredBranch, write_branch
from artemis_py.core.services.prepared_messages import PREPARED, PreparedMessages
from artemis_py.core.services.xid import Xid, xid_of_key
from artemis_py.core.sessions.session import Session
from artemis_py.errors import (
    ArtemisError,
    BranchMisused,
    DuplicateBranch,
    HeuristicOutcome,
    LimitExceeded,
    NotAuthorized,
    StoreError,
    UnknownBranch,
)

HEURISTICS: Final = "heuristics"
"""Space of the store's records of branches that management has ended, by the key of the xid."""

MAX_STARTED: Final = 1024
"""Open transactions of a session with which it may begin another branch; as many as an AMQP connection may have."""
MAX_PREPARED: Final = 10_000
"""Limit of prepared branches. A transaction manager finishes them at once, unless it has failed."""
MAX_ENTRIES: Final = 20_000
"""Messages and settlements of one prepared branch: it is committed in one turn of the loop."""
MAX_BYTES: Final = 64 << 20
"""Size of the messages of one prepared branch: they are in memory together when it is committed."""
MAX_OUTCOMES: Final = 10_000
"""Outcomes that management decided and no client has forgotten."""
BRANCH_BYTES: Final = 1024
ENTRY_BYTES: Final = 160
"""What a prepared branch counts in the account of tables, and each of its messages and settlements."""


class Outcome:
    """How management has ended a branch."""

    __slots__ = ("ended_ms", "is_committed", "user", "xid")

    def __init__(self, xid: Xid, user: str | None, is_committed: bool, ended_ms: int) -> None:
        self.xid: Xid = xid
        self.user: str | None = user
        self.is_committed: bool = is_committed
        self.ended_ms: int = ended_ms


class RestoredBranches:
    """Numbers of what an earlier run left, for the log."""

    __slots__ = ("lost", "missing", "orphans", "outcomes", "prepared")

    def __init__(self) -> None:
        self.prepared: int = 0
        self.outcomes: int = 0
        self.lost: int = 0
        """Records that cannot be read; the deliveries of their branches wait again."""
        self.missing: int = 0
        """Deliveries that their queues no longer have."""
        self.orphans: int = 0
        """Messages of branches whose records are gone; they stay in the queue of prepared messages."""


class Branches:
    """All branches of a broker."""

    def __init__(self, domain: Domain) -> None:
        self._domain: Final = domain
        self._branches: Final[dict[bytes, Branch]] = {}
        self._active: Final[dict[int, Branch]] = {}
        """Branches that are not prepared, by the id of their transaction."""
        self._outcomes: Final[dict[bytes, Outcome]] = {}
        self._messages: Final = PreparedMessages(domain)
        self._needed: Final[dict[str, int]] = {}
        """Number of prepared branches that need an address, by its name."""
        domain.in_use.append(self.needs)

    # -- restart ------------------------------------------------------------------------------------------------

    def restore(self) -> RestoredBranches:
        """Restore what an earlier run left; called once, when the queues exist and nothing is delivered yet."""
        records = self._domain.records
        found = RestoredBranches()
        stored = records.load_records(BRANCHES)
        queues = {queue.id: queue for queue in self._domain.queues.values()} if stored else {}
        found.orphans = self._messages.restore()
        with_groups: set[Queue] = set()
        for key, value in stored:
            try:
                branch = self._read(key, value, queues, found)
            except (ValueError, KeyError, TypeError, ArtemisError):
                found.lost += 1
                continue
            content = branch.content
            assert content is not None
            found.prepared += 1
            found.orphans -= content.stored_count
            for settlement in content.settlements:
                if settlement.reference.message.has_group:
                    with_groups.add(settlement.reference.queue)
            self._keep(branch, content)
        for queue in with_groups:
            # Its rule finds the claimed messages of its groups when it begins.
            queue.find_groups()
        for key, value in records.load_records(HEURISTICS):
            try:
                user, is_committed, ended_ms = json.loads(value)
                self._outcomes[key] = Outcome(xid_of_key(key), user, is_committed, ended_ms)
            except (ValueError, TypeError, ArtemisError):
                found.lost += 1
                continue
            self._domain.dispatcher.tables.occupy(BRANCH_BYTES)
            found.outcomes += 1
        return found

    def _read(self, key: bytes, value: bytes, queues: dict[int, Queue], found: RestoredBranches) -> Branch:
        record = StoredBranch(value)
        branch = Branch(xid_of_key(key), record.user, record.started_ms)
        branch.prepared_ms = record.prepared_ms
        content = record.content(self._messages.find(record.first, len(record.indexes)), queues)
        branch.content = content
        self._count(content, record.sizes)
        found.missing += len(record.settled) - len(content.settlements)
        return branch

    # -- facts --------------------------------------------------------------------------------------------------

    def needs(self, address: str) -> bool:
        """Tell whether a prepared branch needs an address; if so, it and its queues are in use even if empty."""
        return address in self._needed

    def prepared(self) -> list[Branch]:
        """Return the prepared branches, those of all users."""
        return [branch for branch in self._branches.values() if branch.content is not None]

    def outcomes(self) -> list[Outcome]:
        """Return what management decided and no client has forgotten."""
        return list(self._outcomes.values())

    # -- requests of clients ------------------------------------------------------------------------------------

    def start(self, session: Session, xid: Xid) -> Transaction:
        """Begin a branch; its sends and settlements go into the transaction that is returned.

        Raises DuplicateBranch, LimitExceeded.
        """
        if xid.key in self._branches or xid.key in self._outcomes:
            raise DuplicateBranch(f"branch {xid} exists already")
        if len(session.transactions) >= MAX_STARTED:
            raise LimitExceeded(f"{MAX_STARTED} transactions are open on this connection")
        transaction = session.begin()
        branch = Branch(xid, session.subject.user, session.domain.dispatcher.now_ms)
        branch.session = session
        branch.transaction = transaction
        transaction.on_end = self._on_end
        self._branches[xid.key] = branch
        self._active[transaction.id] = branch
        return transaction

    def join(self, session: Session, xid: Xid) -> Transaction:
        """Return the transaction of an active branch, to work in it again or from another session.

        It still ends with the session that began it. Raises UnknownBranch, NotAuthorized, and BranchMisused if the
        branch is prepared.
        """
        transaction = self._find(session, xid).transaction
        if transaction is None:
            raise BranchMisused(f"branch {xid} is prepared: it takes no more work")
        return transaction

    def end(self, session: Session, xid: Xid, failed: bool = False) -> None:
        """Note that the work in a branch is over for now; if it `failed`, the branch can only be rolled back.

        Raises what `join` raises.
        """
        transaction = self.join(session, xid)
        if failed:
            transaction.fail(BranchMisused("its client ended it as failed"))

    def prepare(self, session: Session, xid: Xid) -> bool:
        """Make a branch durable, so that it can still be committed after a crash.

        The result is False if there is nothing to commit (XA_RDONLY): the branch is forgotten then. Raises
        UnknownBranch, NotAuthorized, BranchMisused if it is prepared already, TransactionRolledBack if it could only be
        rolled back, which is done. After LimitExceeded and StoreError it is as it was.
        """
        branch = self._find(session, xid)
        transaction = branch.transaction
        owner = branch.session
        if transaction is None or owner is None:
            raise BranchMisused(f"branch {xid} is prepared already")
        if not transaction.has_work:
            owner.commit(transaction)
            return False
        self._check_limits(branch, transaction)
        self._check_store()
        self._domain.check_claims(transaction)
        owner.transactions.pop(transaction.id, None)
        transaction.check()
        self._prepare(branch, transaction)
        return True

    def commit(self, session: Session, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch, or with `one_phase` one that is not prepared.

        Raises UnknownBranch, NotAuthorized, BranchMisused for the other phase, HeuristicOutcome, StoreError; and in one
        phase TransactionRolledBack.
        """
        branch = self._find(session, xid)
        content, transaction, owner = branch.content, branch.transaction, branch.session
        if content is not None:
            if one_phase:
                raise BranchMisused(f"branch {xid} is prepared: it is committed in two phases")
            self._commit(branch, content)
        elif transaction is not None and owner is not None:
            if not one_phase:
                raise BranchMisused(f"branch {xid} is not prepared")
            owner.commit(transaction)

    def rollback(self, session: Session, xid: Xid) -> None:
        """Roll a branch back, prepared or not: its deliveries go back as failed attempts, its messages are discarded.

        Raises UnknownBranch, NotAuthorized, HeuristicOutcome, StoreError.
        """
        branch = self._find(session, xid)
        content, transaction, owner = branch.content, branch.transaction, branch.session
        if content is not None:
            self._rollback(branch, content)
        elif transaction is not None and owner is not None:
            owner.rollback(transaction)

    def recover(self, session: Session) -> list[Xid]:
        """Return the branches that the client may finish or forget: prepared ones, and those that management ended."""
        is_manager = self._may_manage(session)
        user = session.subject.user
        found: list[Xid] = []
        for branch in self.prepared():
            if is_manager or branch.user == user:
                found.append(branch.xid)
        for outcome in self._outcomes.values():
            if is_manager or outcome.user == user:
                found.append(outcome.xid)
        return found

    def forget(self, session: Session, xid: Xid) -> None:
        """Forget what management decided about a branch.

        Raises UnknownBranch, NotAuthorized, and BranchMisused if management has not ended it.
        """
        outcome = self._outcomes.get(xid.key)
        if outcome is None:
            self._find(session, xid)
            raise BranchMisused(f"branch {xid} has no outcome to forget: commit it or roll it back")
        self._check_user(session, outcome.user, xid)
        self.forget_outcome(xid)

    # -- management ---------------------------------------------------------------------------------------------

    def complete(self, xid: Xid, is_committed: bool) -> bool:
        """Commit or roll back a prepared branch in place of its transaction manager, and keep the outcome.

        False if no branch of this xid is prepared. Raises LimitExceeded, StoreError.
        """
        branch = self._branches.get(xid.key)
        if branch is None or branch.content is None:
            return False
        if len(self._outcomes) >= MAX_OUTCOMES:
            raise LimitExceeded(f"{MAX_OUTCOMES} outcomes are kept already: forget those that are known")
        if is_committed:
            self._commit(branch, branch.content)
        else:
            self._rollback(branch, branch.content)
        domain = self._domain
        outcome = Outcome(xid, branch.user, is_committed, domain.dispatcher.now_ms)
        self._outcomes[xid.key] = outcome
        domain.dispatcher.tables.occupy(BRANCH_BYTES)
        value = json.dumps((outcome.user, outcome.is_committed, outcome.ended_ms)).encode()
        domain.records.save_record(HEURISTICS, xid.key, value)
        domain.events.emit(BranchEnded(xid.key, is_committed))
        return True

    def forget_outcome(self, xid: Xid) -> bool:
        """Forget what management decided about a branch; False if it decided nothing."""
        if self._outcomes.pop(xid.key, None) is None:
            return False
        self._domain.dispatcher.tables.vacate(BRANCH_BYTES)
        self._domain.records.save_record(HEURISTICS, xid.key, None)
        return True

    # -- permissions --------------------------------------------------------------------------------------------

    def _find(self, session: Session, xid: Xid) -> Branch:
        """Return a branch that the client may finish. Raises UnknownBranch, HeuristicOutcome, NotAuthorized."""
        branch = self._branches.get(xid.key)
        if branch is None:
            outcome = self._outcomes.get(xid.key)
            if outcome is None:
                raise UnknownBranch(f"branch {xid} is unknown here: never begun, ended, or timed out")
            self._check_user(session, outcome.user, xid)
            done = "committed" if outcome.is_committed else "rolled back"
            raise HeuristicOutcome(f"an administrator has {done} branch {xid}", outcome.is_committed)
        self._check_user(session, branch.user, xid)
        return branch

    def _check_user(self, session: Session, user: str | None, xid: Xid) -> None:
        if session.subject.user != user and not self._may_manage(session):
            session.denied(Permission.MANAGE, self._domain.options.management_address)
            raise NotAuthorized(f"branch {xid} belongs to another user than '{session.subject.name}'")

    def _may_manage(self, session: Session) -> bool:
        return session.may(Permission.MANAGE, self._domain.options.management_address)

    # -- what happens -------------------------------------------------------------------------------------------

    def _on_end(self, transaction: Transaction) -> None:
        """Forget a branch whose transaction has ended without being prepared."""
        branch = self._active.pop(transaction.id, None)
        if branch is not None:
            del self._branches[branch.xid.key]

    def _check_limits(self, branch: Branch, transaction: Transaction) -> None:
        """Raise LimitExceeded if the branch is too large to be prepared, or too many are."""
        count = len(transaction.sends) + len(transaction.settlements) + len(transaction.claims)
        if count > MAX_ENTRIES:
            raise LimitExceeded(f"branch {branch.xid} has {count} messages and settlements; {MAX_ENTRIES} are allowed")
        size = 0
        for message, _ in transaction.sends:
            size += message.size
        if size > MAX_BYTES:
            raise LimitExceeded(f"the messages of branch {branch.xid} have {size} bytes; {MAX_BYTES} are allowed")
        if len(self._branches) - len(self._active) >= MAX_PREPARED:
            raise LimitExceeded(f"{MAX_PREPARED} branches are prepared already")
        self._domain.dispatcher.check_tables(f"prepared branch {branch.xid}")

    def _check_store(self) -> None:
        """Raise StoreError if nothing can be stored any more: the outcome of a branch must not be one until restart."""
        failure = self._domain.dispatcher.storage_failure
        if failure is not None:
            raise StoreError(f"the outcome of a branch can no longer be stored: {failure}")

    def _prepare(self, branch: Branch, transaction: Transaction) -> None:
        domain = self._domain
        messages = [message for message, _ in transaction.sends]
        is_durable = transaction.is_durable
        routes = [Route(_origin_of(message), targets) for message, targets in transaction.sends]
        content = Content(self._messages.put(messages))
        content.routes = routes
        sizes: dict[str, tuple[int, int]] = {}
        for message, route in zip(messages, routes, strict=True):
            unhold(message)
            count, size = sizes.get(route.address, (0, 0))
            sizes[route.address] = count + 1, size + message.size
        self._count(content, [(name, *numbers) for name, numbers in sizes.items()])
        content.settlements = transaction.settlements
        for address, id in transaction.claims:
            # From now on nothing may keep the branch from being committed.
            domain.duplicates.add(address, id, is_durable)
            content.ids.append((address.name, id))
        branch.content = content
        branch.prepared_ms = domain.dispatcher.now_ms
        branch.transaction = branch.session = None
        del self._active[transaction.id]
        transaction.on_end = None
        transaction.hand_over()
        domain.records.save_record(BRANCHES, branch.xid.key, write_branch(branch, messages))
        self._keep(branch, content)

    def _count(self, content: Content, sizes: Sequence[tuple[str, int, int]]) -> None:
        """Have the messages of a branch count at the addresses that they were sent to."""
        for name, count, size_bytes in sizes:
            address = self._domain.addresses.get(name)
            if address is not None:
                address.page_out(count, size_bytes)
                content.sizes.append((address, count, size_bytes))

    def _keep(self, branch: Branch, content: Content) -> None:
        """Count a prepared branch."""
        self._branches[branch.xid.key] = branch
        self._domain.dispatcher.tables.occupy(BRANCH_BYTES + ENTRY_BYTES * content.size)
        for name in content.addresses():
            self._needed[name] = self._needed.get(name, 0) + 1

    def _drop(self, branch: Branch, content: Content, names: set[str], size: int) -> None:
        """Forget a prepared branch that has ended."""
        del self._branches[branch.xid.key]
        branch.content = None
        for address, count, size_bytes in content.sizes:
            address.page_in(count, size_bytes)
        self._domain.dispatcher.tables.vacate(BRANCH_BYTES + ENTRY_BYTES * size)
        for name in names:
            count = self._needed.pop(name) - 1
            if count:
                self._needed[name] = count
        self._domain.records.save_record(BRANCHES, branch.xid.key, None)

    def _commit(self, branch: Branch, content: Content) -> None:
        self._check_store()
        references = self._messages.take(content.messages)
        names, size = content.addresses(), content.size
        lost = 0
        for reference in references:
            message = reference.message
            route = content.routes[reference.sequence - content.messages.first]
            bindings = self._bindings(route)
            if bindings:
                address = self._domain.addresses.get(route.address, bindings[0].address)
                address.take_over(message)
            else:
                lost += 1
            message.stored_first = True
            for binding in bindings:
                binding.take(message)
        self._messages.end(references)
        for settlement in content.settlements:
            settlement.carry_out()
        if lost:
            text = "its queues were deleted while its branch was prepared"
            self._domain.discards.add(PREPARED, DiscardCause.BRANCH, text, lost)
        self._drop(branch, content, names, size)

    def _bindings(self, route: Route) -> list[Binding]:
        """Return the bindings of a message that are still there."""
        found: list[Binding] = []
        for target in route.targets:
            binding = self._domain.others.get(target) if isinstance(target, str) else target
            if binding is not None and not binding.is_deleted:
                found.append(binding)
        return found

    def _rollback(self, branch: Branch, content: Content) -> None:
        self._check_store()
        references = self._messages.take(content.messages)
        names, size = content.addresses(), content.size
        self._messages.end(references)
        # Newest first, so that each finds its place at the head of its queue at once.
        for settlement in reversed(content.settlements):
            settlement.undo()
        for name, id in content.ids:
            address = self._domain.addresses.get(name)
            if address is not None:
                self._domain.duplicates.remove(address, id)
        self._drop(branch, content, names, size)


def _origin_of(message: Message) -> str:
    """Return the name of the address whose limits a message counts towards; empty if it is unknown."""
    return "" if message.origin is None else message.origin.name
