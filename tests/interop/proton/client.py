"""A blocking Proton client that hides nothing: raw bytes, credit, settlement and refusals are all visible.

`proton.utils` waits well but hides bytes and credit; this adds what tests ask about, on the same connection class.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Final

from attrs import define, field, frozen
from proton import (
    Data,
    Delivery,
    Described,
    Endpoint,
    Event,
    Handler,
    Link,
    Message,
    Terminus,
    symbol,
    ulong,
)
from proton.reactor import Container, LinkOption
from proton.utils import BlockingConnection

TIMEOUT_S: Final = 60.0
"""How long an expected event may take; nothing waits for it to pass."""

SELECTOR_CODE: Final = ulong(0x468C00000004)
NO_LOCAL_CODE: Final = ulong(0x468C00000003)


class Refused(Exception):
    """The broker refused or ended a link, or rejected a message."""

    def __init__(self, condition: str | None, description: str | None) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


@frozen
class Received:
    """One delivery as it came: still to be settled, unless the sender settled it."""

    client: "Client"
    delivery: Delivery
    data: bytes
    """The whole encoded message."""

    @property
    def message(self) -> Message:
        """Decoded by Proton."""
        message = Message()
        message.decode(self.data)
        return message

    @property
    def body(self) -> Any:
        """The decoded body, binary as bytes."""
        message = self.message  # its memory is what the views of a decoded body look into
        return plain(message.body)

    @property
    def annotations(self) -> dict[str, Any]:
        """The message annotations with plain text keys."""
        return {str(key): value for key, value in (self.message.annotations or {}).items()}

    @property
    def sequence(self) -> int:
        """The position in its queue, `x-opt-sequence-number`."""
        value = self.annotations["x-opt-sequence-number"]
        assert isinstance(value, int)
        return value

    @property
    def bare(self) -> bytes:
        """From the properties section on: what no intermediary may change (AMQP 1.0 §3.2)."""
        return bare_message(self.data)

    def accept(self) -> None:
        """Settle as accepted."""
        self._settle(Delivery.ACCEPTED)

    def reject(self) -> None:
        """Settle as rejected."""
        self._settle(Delivery.REJECTED)

    def release(self) -> None:
        """Settle as released."""
        self._settle(Delivery.RELEASED)

    def modify(self, failed: bool = False, undeliverable_here: bool = False) -> None:
        """Settle as modified."""
        self.delivery.local.failed = failed
        self.delivery.local.undeliverable = undeliverable_here
        self._settle(Delivery.MODIFIED)

    def settle(self) -> None:
        """Settle without a state."""
        self.delivery.settle()
        self.client.sync()

    def _settle(self, state: int) -> None:
        self.delivery.update(state)
        self.delivery.settle()
        self.client.sync()


@define(eq=False)
class _LinkEvents(Handler):  # type: ignore[misc]
    """Collects what happens on one link."""

    received: list[tuple[Delivery, bytes]] = field(factory=list)
    aborted: int = 0

    def on_delivery(self, event: Event) -> None:
        delivery = event.delivery
        if delivery.link.is_receiver and delivery.aborted:
            self.aborted += 1
            delivery.settle()
            delivery.link.advance()
        elif delivery.readable and not delivery.partial:
            data = delivery.link.recv(delivery.pending)
            delivery.link.advance()
            self.received.append((delivery, bytes(data or b"")))


class Receiver:
    """A receiving link; credit is given by hand."""

    def __init__(self, client: "Client", link: Link, events: _LinkEvents) -> None:
        self.client: Final = client
        self.link: Final = link
        self._events: Final = events
        self.refusal: Refused | None = None

    @property
    def address(self) -> str:
        """The node the broker attached us to."""
        address = self.link.remote_source.address
        assert isinstance(address, str)
        return address

    @property
    def filters(self) -> list[str]:
        """Names of the filters the broker says are in force (AMQP 1.0 §3.5.3)."""
        data: Data = self.link.remote_source.filter
        data.rewind()
        if not data.next() or data.type() != Data.MAP:
            return []
        return [str(key) for key in data.get_dict()]

    @property
    def waiting(self) -> int:
        """Deliveries that arrived and were not taken."""
        return len(self._events.received)

    def flow(self, credit: int) -> None:
        """Give that much more credit."""
        self.link.flow(credit)

    def receive(self) -> Received:
        """The next delivery, with credit for it if none is left."""
        if not self._events.received and not self.link.credit:
            self.link.flow(1)
        self.client.wait(lambda: bool(self._events.received) or self._is_closed(), "a message")
        if not self._events.received:
            raise self.client.refusal(self.link)
        delivery, data = self._events.received.pop(0)
        return Received(self.client, delivery, data)

    def receive_many(self, number: int) -> list[Received]:
        """The next `number` deliveries, none of them settled."""
        if self.link.credit + self.waiting < number:
            self.link.flow(number - self.link.credit - self.waiting)
        return [self.receive() for _ in range(number)]

    def drain(self, credit: int = 100) -> list[Received]:
        """All the broker has for us now, at most `credit`: it must use the credit or give it back (AMQP 1.0 §2.6.7)."""
        self.link.drain(credit)
        self.client.wait(lambda: self.link.credit == 0 or self._is_closed(), "the end of a drain")
        if self._is_closed():
            raise self.client.refusal(self.link)
        taken = [Received(self.client, delivery, data) for delivery, data in self._events.received]
        self._events.received.clear()
        self.link.drained()
        self.link.drain_mode = False
        return taken

    def bodies(self) -> list[Any]:
        """Bodies of all that the broker has for us now, accepted."""
        received = self.drain()
        for one in received:
            one.delivery.update(Delivery.ACCEPTED)
            one.delivery.settle()
        self.client.sync()
        return [one.body for one in received]

    def wait_closed(self) -> Refused:
        """Wait until the broker detaches the link, and say why it did."""
        self.client.wait(self._is_closed, "a detach")
        return self.client.refusal(self.link)

    def close(self) -> None:
        """End the link and its terminus."""
        self.client.close_link(self.link)

    def detach(self) -> None:
        """Suspend the link (closed=false): a durable terminus stays."""
        self.client.detach_link(self.link)

    def _is_closed(self) -> bool:
        return bool(self.link.state & Endpoint.REMOTE_CLOSED)


class Sender:
    """A sending link."""

    def __init__(self, client: "Client", link: Link, events: _LinkEvents) -> None:
        self.client: Final = client
        self.link: Final = link
        self._events: Final = events  # keeps the handler alive as long as the link
        self._tags: Final = count(1)

    @property
    def address(self) -> str:
        """The node the broker attached us to."""
        address = self.link.remote_target.address
        assert isinstance(address, str)
        return address

    def send(self, message: Message | bytes | str | None, settled: bool = False) -> None:
        """Send and wait for the outcome; raises Refused unless it is accepted. Text is a message of that body."""
        delivery = self.start(message, settled)
        if settled:
            self.client.sync()
        else:
            self.wait(delivery)
            delivery.settle()

    def start(self, message: Message | bytes | str | None, settled: bool = False) -> Delivery:
        """Hand a message to Proton, and do not wait for its outcome."""
        self.client.wait(lambda: self.link.credit > 0 or self._is_closed(), "credit")
        if self._is_closed():
            raise self.client.refusal(self.link)
        delivery = self.link.delivery(f"tag-{next(self._tags)}")
        self.link.stream(encode(message))
        self.link.advance()
        if settled:
            delivery.settle()
        return delivery

    def wait(self, delivery: Delivery) -> int:
        """Wait for the outcome and return it; raises Refused if it is rejected or the link ends."""
        self.client.wait(lambda: bool(delivery.remote_state) or self._is_closed(), "an outcome")
        state = int(delivery.remote_state)
        if state == Delivery.REJECTED:
            condition = delivery.remote.condition
            raise Refused(condition.name if condition else None, condition.description if condition else None)
        if not state:
            raise self.client.refusal(self.link)
        return state

    def wait_closed(self) -> Refused:
        """Wait until the broker detaches the link, and say why it did."""
        self.client.wait(self._is_closed, "a detach")
        return self.client.refusal(self.link)

    def close(self) -> None:
        """End the link and its terminus."""
        self.client.close_link(self.link)

    def _is_closed(self) -> bool:
        return bool(self.link.state & Endpoint.REMOTE_CLOSED)


class _Connection(BlockingConnection):  # type: ignore[misc]
    """Remembers a detach instead of raising it out of whatever happens to be waited for."""

    def on_link_remote_close(self, event: Event) -> None:
        pass


class Client:
    """One connection. Use as a context manager."""

    def __init__(self, url: str, container_id: str | None = None, **options: Any) -> None:
        container = Container()
        if container_id is not None:
            container.container_id = container_id
        self.connection: Final = _Connection(url, timeout=TIMEOUT_S, container=container, **options)
        self._names: Final = count(1)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def container_id(self) -> str:
        """Ours."""
        return str(self.connection.container.container_id)

    def close(self) -> None:
        """Close the connection in good order."""
        self.connection.close()

    def abort(self) -> None:
        """Lose the connection: the socket is closed without a word on the protocol's level."""
        self.connection.closing = True
        selectable = self.connection.conn.transport._selectable
        selectable._delegate.close()
        self.connection.disconnected = True

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Work on the connection until `condition` holds; raises proton.Timeout naming `what`."""
        self.connection.wait(condition, timeout=TIMEOUT_S, msg=f"waiting for {what}")

    def sync(self) -> None:
        """Return once the broker has handled all we said so far: frames of a connection keep their order
        (AMQP 1.0 §2.2).
        """
        self.sender(None).close()

    def sender(
        self,
        address: str | None,
        capabilities: Sequence[str] = (),
        *,
        name: str | None = None,
        dynamic: bool = False,
        settled: bool = False,
        options: Iterable[LinkOption] = (),
        desired: Sequence[str] = (),
    ) -> Sender:
        """Attach a sending link; no address is the anonymous relay. Raises Refused."""
        events = _LinkEvents()
        setup = _Setup(capabilities=capabilities, dynamic=dynamic, settled=settled, desired=desired)
        link = self.connection.container.create_sender(
            self.connection.conn,
            address,
            name=name or f"sender-{next(self._names)}",
            handler=events,
            options=[setup, *options],
        )
        self._opened(link)
        return Sender(self, link, events)

    def coordinator(self) -> Sender:
        """Attach a controlling link for transactions (AMQP 1.0 §4.3)."""
        events = _LinkEvents()
        link = self.connection.container.create_sender(
            self.connection.conn,
            None,
            name=f"coordinator-{next(self._names)}",
            handler=events,
            options=[_ToCoordinator()],
        )
        self._opened(link)
        return Sender(self, link, events)

    def receiver(
        self,
        address: str | None,
        capabilities: Sequence[str] = (),
        *,
        name: str | None = None,
        dynamic: bool = False,
        settled: bool = False,
        durable: bool = False,
        copy: bool = False,
        selector: str | None = None,
        filters: dict[str, Described] | None = None,
        priority: int | None = None,
        options: Iterable[LinkOption] = (),
    ) -> Receiver:
        """Attach a receiving link without credit; no address asks for a terminus the broker knows by the link's name.

        Raises Refused.
        """
        events = _LinkEvents()
        filter_set = dict(filters or {})
        if selector is not None:
            filter_set["jms-selector"] = Described(SELECTOR_CODE, selector)
        setup = _Setup(
            capabilities=capabilities,
            dynamic=dynamic,
            settled=settled,
            durable=durable,
            copy=copy,
            filters=filter_set,
            priority=priority,
        )
        link = self.connection.container.create_receiver(
            self.connection.conn,
            address,
            name=name or f"receiver-{next(self._names)}",
            dynamic=dynamic,
            handler=events,
            options=[setup, *options],
        )
        self._opened(link)
        return Receiver(self, link, events)

    def unsubscribe(self, name: str, capabilities: Sequence[str] = ()) -> None:
        """Remove a durable subscription as JMS does: attach by name without a source, then close. Raises Refused."""
        self.receiver(None, capabilities, name=name).close()

    def send(self, address: str, *messages: Message | bytes | str, capabilities: Sequence[str] = ()) -> None:
        """Send over a link of its own."""
        sender = self.sender(address, capabilities)
        for message in messages:
            sender.send(message)
        sender.close()

    def receive(self, address: str, capabilities: Sequence[str] = ()) -> Received:
        """Take and accept one message over a link of its own."""
        receiver = self.receiver(address, capabilities)
        received = receiver.receive()
        received.accept()
        receiver.close()
        return received

    def bodies(self, address: str, capabilities: Sequence[str] = ()) -> list[Any]:
        """Take and accept all the node has now; return the bodies."""
        receiver = self.receiver(address, capabilities)
        bodies = receiver.bodies()
        receiver.close()
        return bodies

    def close_link(self, link: Link) -> None:
        """Detach with closed=true and wait for the answer."""
        link.close()
        self.wait(lambda: not link.state & Endpoint.REMOTE_ACTIVE, "a detach")

    def detach_link(self, link: Link) -> None:
        """Detach with closed=false and wait for the answer, a detach or an attach-and-close."""
        link.detach()
        self.sync()

    def refusal(self, link: Link) -> Refused:
        """Why the broker closed the link."""
        condition = link.remote_condition
        if condition is None:
            return Refused(None, "closed without an error")
        return Refused(condition.name, condition.description)

    def _opened(self, link: Link) -> None:
        """Wait for the attach; a null terminus announces a detach with the error (AMQP 1.0 §2.6.3)."""
        self.wait(lambda: not link.state & Endpoint.REMOTE_UNINIT, "an attach")
        remote = link.remote_source if link.is_receiver else link.remote_target
        if remote.type == Terminus.UNSPECIFIED:
            self.wait(lambda: bool(link.state & Endpoint.REMOTE_CLOSED), "the detach of a refused link")
            refusal = self.refusal(link)
            link.close()
            raise refusal


@frozen(kw_only=True)
class _Setup(LinkOption):  # type: ignore[misc]
    """Everything a test may want different about a link before it is attached."""

    capabilities: Sequence[str] = ()
    desired: Sequence[str] = ()
    dynamic: bool = False
    settled: bool = False
    durable: bool = False
    copy: bool = False
    filters: dict[str, Described] = field(factory=dict)
    priority: int | None = None

    def apply(self, link: Link) -> None:
        terminus = link.source if link.is_receiver else link.target
        if link.is_receiver and link.source.address is None and not self.dynamic:
            link.source.type = Terminus.UNSPECIFIED  # Proton's way to leave the source out
        if self.capabilities:
            terminus.capabilities.put_array(False, Data.SYMBOL)
            terminus.capabilities.enter()
            for capability in self.capabilities:
                terminus.capabilities.put_symbol(capability)
            terminus.capabilities.exit()
        if self.dynamic:
            terminus.dynamic = True
            terminus.address = None
        if self.durable:
            terminus.durability = Terminus.DELIVERIES
            terminus.expiry_policy = Terminus.EXPIRE_NEVER
        if self.copy:
            terminus.distribution_mode = Terminus.DIST_MODE_COPY
        if self.filters:
            terminus.filter.put_dict({symbol(key): value for key, value in self.filters.items()})
        if self.priority is not None:
            link.properties = {symbol("priority"): self.priority}
        link.snd_settle_mode = Link.SND_SETTLED if self.settled else Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_FIRST


class _ToCoordinator(LinkOption):  # type: ignore[misc]
    """Makes a sending link the control link of transactions."""

    def apply(self, link: Link) -> None:
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        link.snd_settle_mode = Link.SND_UNSETTLED


def plain(value: Any) -> Any:
    """`value` with Proton's memory views as bytes, at any depth, so that it compares."""
    if isinstance(value, memoryview):
        return bytes(value)
    if type(value) is list:
        return [plain(item) for item in value]
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def encode(message: Message | bytes | str | None) -> bytes:
    """The encoded form of what a test wants to send."""
    if isinstance(message, bytes):
        return message
    whole: Any = message if isinstance(message, Message) else Message(body=message)
    return bytes(whole.encode())


# Descriptor codes of the sections before the bare message: header, delivery and message annotations (AMQP 1.0 §3.2).
NOT_BARE: Final = (0x70, 0x71, 0x72)


def bare_message(data: bytes) -> bytes:
    """`data` without its header and annotations, byte for byte.

    Proton's decoder finds where each of those sections ends; sections are written here with a smallulong
    descriptor, which is what Proton, rhea, Qpid JMS and the brokers write.
    """
    while len(data) > 2 and data[0] == 0 and data[1] == 0x53 and data[2] in NOT_BARE:
        section = Data()
        data = data[section.decode(data) :]
    return data
