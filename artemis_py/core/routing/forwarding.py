"""Forwarding: what becomes of a message that diverts take (artemis-model §3.2).

Everything is decided before anything is done: each divert makes its copies, each copy is admitted by its address and
gets its targets, and diverts among these make copies in turn. Only when none of the copies was refused do the queues
get them, all in the same iteration of the event loop, or a transaction keeps them until its commit. A client whose
message is refused for one of the copies therefore knows that there is none of the others either.
"""

from typing import TYPE_CHECKING, Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.message import Message
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.destinations import find_destination
from artemis_py.core.routing.discards import DiscardCause
from artemis_py.core.routing.divert import Divert
from artemis_py.core.routing.routes import NO_TYPE
from artemis_py.core.routing.sender import BrokerAsSender, Sender
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.routing.undeliverable import BOTH_TYPES
from artemis_py.core.runtime.events import DivertLoop
from artemis_py.errors import LimitExceeded, Refusal

if TYPE_CHECKING:
    from artemis_py.core.routing.routing import Routing

MAX_COPIES: Final = 2000
"""Most copies that diverts make of one message. Each takes some microseconds, so this is a few iterations' worth of
deliveries. Chains of diverts that branch and meet again can ask for any number."""


class Step:
    """One copy on its way, or a message that no copy was made of because a transformer failed."""

    __slots__ = ("address", "before", "divert", "is_forwarded", "is_undelivered", "message", "targets")

    def __init__(self, message: Message, address: Address, divert: Divert | None, before: "Step | None") -> None:
        self.message: Message = message
        self.address: Address = address
        """Address that the message goes through."""
        self.divert: Divert | None = divert
        """The divert that sends it there; None for the message that a client sent."""
        self.before: Step | None = before
        self.targets: list[Binding] = []
        """Bindings that get it, without diverts."""
        self.is_forwarded: bool = False
        """Whether diverts take it, too."""
        self.is_undelivered: bool = False
        """Whether the divert made no copy, and the message is a dead letter."""


class Forwarding:
    """Follows the diverts of one domain."""

    def __init__(self, routing: "Routing") -> None:
        self._routing: Routing = routing
        self._broker: Sender = BrokerAsSender(routing)
        self._step: Step | None = None
        """The copy whose targets are being chosen."""

    def send(
        self,
        message: Message,
        address: Address,
        targets: list[Binding],
        sender: Sender | None,
        transaction: Transaction | None,
    ) -> None:
        """Give a message to its targets, of which some are diverts.

        Raises what the admission or creation of an address raises for a copy, if there is a `sender` to be told; then
        nothing has been done. Without a sender a copy that is refused is discarded and counted, and the others stay.
        """
        # A dead letter that comes from here may be diverted, too: it has passed what its original had passed.
        root = Step(message, address, None, self._step)
        steps = self._plan(root, targets, sender)
        self._carry_out(root, transaction)
        for step in steps:
            self._carry_out(step, transaction)

    def report_loop(self, divert: Divert) -> None:
        """Tell that a message comes to a divert for the second time, and on which way."""
        names = [divert.name]
        step = self._step
        while step is not None and step.divert is not divert:
            if step.divert is not None:
                names.append(step.divert.name)
            step = step.before
        names.append(divert.name)
        names.reverse()
        self._routing.events.emit(DivertLoop(divert.name, tuple(names)))

    # -- deciding ----------------------------------------------------------------------------------------------

    def _plan(self, root: Step, targets: list[Binding], sender: Sender | None) -> list[Step]:
        """Return all copies with their targets, in the order in which they come."""
        steps: list[Step] = []
        waiting: list[tuple[Step, Divert]] = []
        self._split(root, targets, waiting)
        while waiting:
            source, divert = waiting.pop()
            for step in self._copies(source, divert, sender):
                if len(steps) == MAX_COPIES:
                    self._stop(divert, sender)
                    return steps
                steps.append(step)
                if not step.is_undelivered:
                    self._choose(step, waiting)
        return steps

    def _stop(self, divert: Divert, sender: Sender | None) -> None:
        """Make no more copies of a message. Raises LimitExceeded if there is a sender to be told."""
        text = f"diverts make more than {MAX_COPIES} copies of one message"
        if sender is not None:
            raise LimitExceeded(f"divert '{divert.name}': {text}")
        self._routing.discards.add(divert.name, DiscardCause.DIVERT, text)

    def _copies(self, source: Step, divert: Divert, sender: Sender | None) -> list[Step]:
        """Return the copies that a divert makes. Raises a kind of Refusal, for the first that is refused."""
        routing = self._routing
        copy = divert.copy_of(source.message, routing.dispatcher.now_ms)
        if copy is None:
            failed = Step(source.message, source.address, divert, source)
            failed.is_undelivered = True
            return [failed]
        steps: list[Step] = []
        names = divert.forwarding_addresses
        # Made before the first is admitted, because the settings of its address may change it.
        copies = [copy] + [again(copy) for _ in names[1:]]
        for name, copy in zip(names, copies):  # noqa: B905  as many copies as names
            copy.address = name
            try:
                address = self._destination(name, copy.routing_type, sender)
                if routing.admit(copy, address):
                    steps.append(Step(copy, address, divert, source))
            except Refusal as refusal:
                if sender is not None:
                    refusal.args = (f"divert '{divert.name}': {refusal}",)
                    raise
                routing.discards.add(divert.name, DiscardCause.DIVERT, f"diverted, and refused: {refusal}")
        return steps

    def _destination(self, name: str, routing_type: int, sender: Sender | None) -> Address:
        """Return the address that copies go to; it and its queue are created as for any message that is sent there."""
        routing = self._routing
        address = routing.addresses.get(name)
        if address is not None:
            is_served = routing_type == NO_TYPE or RoutingType(routing_type) in address.routing_types
            if is_served and (address.bindings or routing_type == int(RoutingType.MULTICAST)):
                return address
        elif not routing.settings.resolve(name).auto_create_addresses and routing.has_wildcard_queue(name):
            return routing.create_address(name, BOTH_TYPES, auto_created=True)
        return find_destination(routing, self._broker if sender is None else sender, name, "", routing_type)

    def _choose(self, step: Step, waiting: list[tuple[Step, Divert]]) -> None:
        """Choose the targets of a copy; diverts that it has passed on its way are not among them."""
        routing = self._routing
        router = routing.routers.of(step.address)
        before = self._step
        self._mark(step, 1)
        self._step = step
        try:
            targets = router.select(step.message)
        finally:
            self._mark(step, -1)
            self._step = before
        routing.meter.work += router.choices
        self._split(step, targets, waiting)

    def _split(self, step: Step, targets: list[Binding], waiting: list[tuple[Step, Divert]]) -> None:
        """Keep the targets that are no diverts; the diverts wait until it is their turn."""
        self._routing.meter.work += len(targets)
        diverts: list[Divert] = []
        for target in targets:
            if isinstance(target, Divert):
                diverts.append(target)
            else:
                step.targets.append(target)
        step.is_forwarded = len(diverts) > 0
        for divert in reversed(diverts):
            waiting.append((step, divert))

    def _mark(self, step: Step, count: int) -> None:
        """Have the diverts on the way of a copy take it no more (1), or undo that (-1)."""
        passed: Step | None = step
        while passed is not None:
            if passed.divert is not None:
                passed.divert.passing += count
            passed = passed.before

    # -- doing -------------------------------------------------------------------------------------------------

    def _carry_out(self, step: Step, transaction: Transaction | None) -> None:
        """Give one message to its targets; a copy without any may become a dead letter."""
        message, targets = step.message, step.targets
        if step.divert is not None and not step.is_undelivered:
            step.divert.forwarded += 1
        if step.is_undelivered or not (targets or step.is_forwarded):
            before = self._step
            self._mark(step, 1)
            self._step = step
            if step.is_undelivered:
                name = "" if step.divert is None else step.divert.name
                self._routing.undeliverable.untransformed(message, step.address, name, transaction)
            else:
                self._routing.unrouted(message, step.address, transaction)
            self._step = before
            self._mark(step, -1)
            return
        if step.divert is not None:
            step.address.routed += 1
        if transaction is not None and targets:
            transaction.send(message, targets)
        else:
            for target in targets:
                target.take(message)


def again(copy: Message) -> Message:
    """Return another copy like this one, for the next forwarding address."""
    other = copy.copy(copy.address)
    other.expires_ms = copy.expires_ms
    other.delivery_time_ms = copy.delivery_time_ms
    other.routing_type = copy.routing_type
    other.stored_first = copy.stored_first
    return other
