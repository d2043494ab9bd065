"""The calls that the engine makes, in wire order, from within `receive_data` and `work`: what a conversation means."""

from mypy_extensions import mypyc_attr

from artemis_openwire.engine.ack_fields import AckFields
from artemis_openwire.engine.commands import BaseCommand, ConnectionInfo
from artemis_openwire.engine.message_fields import MessageFields
from artemis_openwire.engine.negotiation import Agreement
from artemis_py.core.messages.large_body import LargeBody
from artemis_py.errors import Refusal


@mypyc_attr(allow_interpreted_subclasses=True)
class OpenWireHandler:
    """One client, as the engine knows it. A call may raise ProtocolError: the engine ends the connection for it."""

    def wake(self) -> None:
        """Note that there is output now, where there was none."""
        raise NotImplementedError

    def on_negotiated(self, agreement: Agreement) -> None:
        """Note what was agreed on. Our offer and BrokerInfo are in the output already."""
        raise NotImplementedError

    def on_connection_info(self, info: ConnectionInfo) -> None:
        """Decide about a login, now or later, with `accept` or `refuse`. What comes behind it waits until then.

        Called again on the same socket after the client has removed its connection.
        """
        raise NotImplementedError

    def on_command(self, command: BaseCommand, answer_id: int) -> None:
        """Act on a command of a client that has logged in, and answer it once, now or later.

        The answer is `respond`, `respond_with` or `fail` with `answer_id`; whether the client wants to hear of success
        need not be asked. The command is one of SessionInfo, ConsumerInfo, ProducerInfo, TransactionInfo,
        DestinationInfo, RemoveSubscriptionInfo, RemoveInfo, ConsumerControl, ConnectionControl and MessagePull.
        RemoveInfo of a ConnectionId ends everything of this client, and no further command of it is handed over.
        """
        raise NotImplementedError

    def on_step(self, key: bytes, step: int, answer_id: int) -> None:
        """Take a step of a local transaction, one of those in `step_fields`: `on_command` without the record.

        `key` is what messages and acknowledgements name the transaction by (`transaction_key`).
        """
        raise NotImplementedError

    def on_message(self, message: MessageFields) -> None:
        """Take a message and answer it once with `message.answer_id`, when it is as durable as it asks to be.

        `message` is valid during the call; `body` and `header(...)` may be kept.
        """
        raise NotImplementedError

    def create_large(self, durable: bool) -> LargeBody:
        """Return a new body for the content of a message that begins to arrive. Raises Refusal."""
        raise NotImplementedError

    def on_large_message(self, message: MessageFields, body: LargeBody | None, refusal: Refusal | None) -> None:
        """Take a message as `on_message` does. `body` has its content, which `message` shows as of no octets.

        With `refusal` the content could not be kept, and the message must be refused. The engine lets go of the body.
        """
        raise NotImplementedError

    def on_ack(self, ack: AckFields) -> None:
        """Act on an acknowledgement and answer it once with `ack.answer_id`. `ack` is valid during the call."""
        raise NotImplementedError

    def on_shutdown(self) -> None:
        """Note that the client said goodbye; the engine is closed."""
        raise NotImplementedError

    def on_failed(self, text: str) -> None:
        """Note that the client broke the protocol or fell silent. The engine has said so, and calls nothing more."""
        raise NotImplementedError

    def on_writable(self) -> None:
        """Continue with deliveries: output was taken, and there is room again."""
        raise NotImplementedError
