"""Notifications: messages on which the broker reports what happens, as in Artemis (docs/notifications.md).

    event ──► heard (same turn): facts, brakes ──► waiting ──► sent (a slice of background work) ──► queues

Nothing is made of an event unless something is bound to the notification address, and nobody listens to events then.
Events come in the middle of the core's work, so messages are sent later, in their order. Nothing is reported about the
address itself, nor about where its messages go, so no notification is the cause of another.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import evolve

from artemis_py.core.addresses.address import Address
from artemis_py.core.addresses.binding import Binding
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.divert import Divert
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.background import Steps
from artemis_py.core.runtime.events import (
    AddressAdded,
    AddressRemoved,
    BindingAdded,
    BindingRemoved,
    BindingUpdated,
    Event,
)
from artemis_py.core.runtime.timers import Timer
from artemis_py.errors import Refusal
from artemis_py.logs import LogBrake, named_logger
from artemis_py.management.notification_facts import COUNT, TIMESTAMP, TYPE, Maker, Notification, NotificationFacts

LOGGER: Final = named_logger(__name__)

PERIOD_MS: Final = 1_000
MOST_IN_PERIOD: Final = 1_000
"""Notifications in a second; those beyond are counted. A storm of clients that connect again causes several for each of
them, and a subscriber must not make the broker slower than the storm does by itself."""

VIOLATIONS_PERIOD_MS: Final = 10_000
MOST_VIOLATIONS: Final = 20
"""Violations of one type in ten seconds, each told once; the others are counted. Whoever guesses passwords causes any
number of them."""

VIOLATIONS: Final = ("SECURITY_AUTHENTICATION_VIOLATION", "SECURITY_PERMISSION_VIOLATION")

CHANGES: Final = (BindingAdded, BindingRemoved, BindingUpdated, AddressAdded, AddressRemoved)
"""Events after which others may get notifications than before."""

LEFT_OUT: Final = "NOTIFICATIONS_DROPPED"
NOTIFICATION_TYPE: Final = "artemis_py_NotifType"

ROOM_BYTES: Final = 4 << 20
"""Notifications that may wait at the address while nothing else is accepted: some 4,000 of them."""

SENT_PER_SLICE: Final = 100
"""Messages that a slice sends: some 2 ms."""


class _Limit:
    """Lets so many notifications pass in a period, and counts the others."""

    def __init__(self, most: int, period_ms: int, type: str | None = None) -> None:
        """`type`: for notifications of one type, of which each is to pass only once in a period."""
        self.most: Final = most
        self.period_ms: Final = period_ms
        self.type: Final = type
        self.left_out = 0
        self.timer: Timer | None = None
        """Ends the period; None if there is none, because nothing has passed lately."""
        self._passed = 0
        self._told: set[str] = set()

    def begin(self) -> None:
        """Begin a period."""
        self.left_out = self._passed = 0
        self._told.clear()

    def lets_pass(self, notification: Notification) -> bool:
        """Tell whether a notification passes, and count it."""
        if self.type is not None:
            key = repr(sorted(notification.properties.items()))
            if key in self._told:
                self.left_out += 1
                return False
            if self._passed < self.most:
                self._told.add(key)
        if self._passed >= self.most:
            self.left_out += 1
            return False
        self._passed += 1
        return True


class Notifications:
    """The notifications of one domain."""

    def __init__(self, domain: Domain, node_id: str, plan: Callable[[], None]) -> None:
        """Create it; `plan` makes sure that a turn is coming, in which waiting notifications are sent."""
        self._domain: Final = domain
        self._name: Final = domain.options.management_notification_address
        self._facts: Final = NotificationFacts(domain, node_id)
        self._plan: Final = plan
        self._brake: Final = LogBrake(LOGGER)
        self._all: Final = _Limit(MOST_IN_PERIOD, PERIOD_MS)
        self._violations: Final = {each: _Limit(MOST_VIOLATIONS, VIOLATIONS_PERIOD_MS, each) for each in VIOLATIONS}
        self._waiting: Final[deque[Notification]] = deque()
        """No more than the limits let pass from one turn to the next."""
        self._own_addresses: frozenset[str] = frozenset()
        """Addresses that notifications get to."""
        self._own_bindings: frozenset[str] = frozenset()
        """Queues and diverts that get them."""
        self._is_heard = False
        """Whether something is bound to the notification address, so that events are listened to."""
        self._is_kept = False
        """Whether one of the queues outlives a restart, so that messages are durable."""
        self._is_sending = False
        """Whether there is background work that sends what waits."""

    def add(self, kind: type[Event], maker: Maker) -> None:
        """Report events of one more kind; called before `start`."""
        self._facts.makers[kind] = maker

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Create the notification address if it does not exist, and report from now on if something is bound to it."""
        domain = self._domain
        address = domain.addresses.get(self._name)
        multicast = frozenset((RoutingType.MULTICAST,))
        if address is None:
            domain.create_address(self._name, multicast)
        elif RoutingType.MULTICAST not in address.routing_types:
            domain.update_address(self._name, address.routing_types | multicast)
        domain.routers.report_on(self._name)
        domain.events.subscribe(self._on_change, *CHANGES)
        self._look()

    def stop(self) -> None:
        """Send what waits, and report nothing more. Not called in the middle of the core's work."""
        events = self._domain.events
        events.unsubscribe(self._on_change)
        events.unsubscribe(self._hear)
        self._is_heard = False
        while self._waiting:
            self._route(self._waiting.popleft())
        for each in (self._all, *self._violations.values()):
            if each.timer is not None:
                each.timer.cancel()

    # -- who gets them -----------------------------------------------------------------------------------------

    def _on_change(self, event: Event) -> None:
        """Look again who gets notifications, if that may have changed. What ends is reported under the old answer."""
        is_end = isinstance(event, BindingRemoved | AddressRemoved)
        if is_end:
            self._hear(event)
        self._look_after(event)
        if not is_end:
            self._hear(event)

    def _look_after(self, event: Event) -> None:
        match event:
            case (
                BindingAdded(_, name, _, facts) | BindingRemoved(_, name, _, facts) | BindingUpdated(_, name, _, facts)
            ):
                if name in self._own_addresses or facts.is_divert or self._domain.options.wildcards.is_wild(name):
                    self._look()
            case AddressAdded(name) | AddressRemoved(name):
                if name in self._own_addresses:
                    self._look()

    def _look(self) -> None:
        """Find out who gets notifications, and where they go from there."""
        bindings = self._bound(self._name)
        self._is_kept = any(each.is_stored if isinstance(each, Queue) else True for each in bindings)
        addresses, names = {self._name}, {each.name for each in bindings}
        follow = list(bindings)
        while follow:
            binding = follow.pop()
            addresses.add(binding.address.name)
            if isinstance(binding, Divert):
                for target in [parse_fqqn(each)[0] for each in binding.forwarding_addresses]:
                    if target and target not in addresses:
                        addresses.add(target)
                        found = self._bound(target)
                        names.update([each.name for each in found])
                        follow += found
        self._own_addresses, self._own_bindings = frozenset(addresses), frozenset(names)
        if bool(bindings) != self._is_heard:
            self._is_heard = bool(bindings)
            events = self._domain.events
            if self._is_heard:
                events.subscribe(self._hear, *[each for each in self._facts.makers if each not in CHANGES])
            else:
                events.unsubscribe(self._hear)

    def _bound(self, name: str) -> list[Binding]:
        """Return what gets the messages of an address, without what belongs to the address itself."""
        domain = self._domain
        address = domain.addresses.get(name)
        return [] if address is None else [each for each in domain.routers.bound(address) if not each.is_accessory]

    # -- what is reported --------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        """Note what an event has to report; it is sent after this turn."""
        if not self._is_heard:
            return
        now_ms = self._domain.dispatcher.now_ms
        for each in self._facts.of(event):
            if each.address in self._own_addresses or each.binding in self._own_bindings:
                continue
            if self._passes(each):
                self._append(evolve(each, time_ms=now_ms))

    def _passes(self, notification: Notification) -> bool:
        limit = self._violations.get(notification.type)
        return (limit is None or self._passes_limit(limit, notification)) and self._passes_limit(
            self._all, notification
        )

    def _passes_limit(self, limit: _Limit, notification: Notification) -> bool:
        if limit.timer is None:
            limit.begin()
            limit.timer = self._domain.dispatcher.after(limit.period_ms, lambda: self._end_period(limit))
            self._plan()
        return limit.lets_pass(notification)

    def _end_period(self, limit: _Limit) -> None:
        """Report how many notifications were left out."""
        limit.timer = None
        if limit.left_out and self._is_heard:
            properties = {COUNT: limit.left_out, NOTIFICATION_TYPE: limit.type}
            self._append(Notification(LEFT_OUT, properties, time_ms=self._domain.dispatcher.now_ms))

    def _append(self, notification: Notification) -> None:
        self._waiting.append(notification)
        if not self._is_sending:
            self._is_sending = True
            self._domain.dispatcher.slices.start(self._send())
            self._plan()

    # -- messages ----------------------------------------------------------------------------------------------

    def _send(self) -> Steps:
        """Send what waits, in slices; nothing in the first, which is in the middle of the core's work."""
        try:
            yield None
            while self._waiting:
                for _ in range(min(len(self._waiting), SENT_PER_SLICE)):
                    self._route(self._waiting.popleft())
                if self._waiting:
                    yield None
        finally:
            self._is_sending = False
        return None

    def _route(self, notification: Notification) -> None:
        domain = self._domain
        address = domain.addresses.get(self._name)
        if address is None:
            return
        try:
            domain.tell(self._message(notification, address), address, ROOM_BYTES)
        except Refusal as refusal:
            template = "notification not sent: type=%s address=%s reason=%s"
            self._brake.warning("", template, notification.type, self._name, refusal)

    def _message(self, notification: Notification, address: Address) -> Message:
        dispatcher = self._domain.dispatcher
        known = {name: value for name, value in notification.properties.items() if value is not None}
        view = MessageView(
            to=address.name,
            creation_time_ms=notification.time_ms,
            properties={TYPE: notification.type, TIMESTAMP: notification.time_ms, **known},
        )
        return plain_message(
            address.name,
            view,
            # That the disk is full or has failed has to be reported, too, and cannot be stored.
            durable=self._is_kept and dispatcher.storage_failure is None and not dispatcher.account.disk_is_full,
            routing_type=int(RoutingType.MULTICAST),
        )
