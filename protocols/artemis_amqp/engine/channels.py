"""The sessions of one connection, and their channels on either side (AMQP 1.0 §2.5)."""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import Begin
from artemis_amqp.engine.session import AmqpSession

if TYPE_CHECKING:
    from artemis_amqp.engine.connection import AmqpConnection


class Channels:
    """The sessions of one connection."""

    def __init__(self, connection: "AmqpConnection", channel_max: int) -> None:
        self._connection: AmqpConnection = connection
        self._channel_max: int = channel_max
        self.peer_channel_max: int = 0
        """Largest channel that the peer accepts; known with its open."""
        self.by_peer: dict[int, AmqpSession] = {}
        """Sessions by the peer's channel."""
        self.own: dict[int, AmqpSession] = {}
        """Sessions by our channel."""
        self._freed: list[int] = []
        """Channels of ours below `len(own) + len(_freed)` that are not in use; a heap."""

    def receive_begin(self, begin: Begin, channel: int) -> None:
        """Process a begin: of a new session, or the peer's answer to ours."""
        if channel > self._channel_max:
            self._connection.fail(errors.FRAMING_ERROR, f"channel {channel} is above channel-max {self._channel_max}")
            return
        if channel in self.by_peer:
            self._connection.fail(errors.ILLEGAL_STATE, f"channel {channel} has a session already")
            return
        if begin.remote_channel is not None:
            session = self.own.get(begin.remote_channel)
            if session is None or session.peer_channel >= 0:
                self._connection.fail(
                    errors.FRAMING_ERROR, f"a begin for our channel {begin.remote_channel}, which asks for none"
                )
                return
            session.peer_channel = channel
            self.by_peer[channel] = session
            session.receive_begin(begin)
        else:
            if self._free_channel() > self.peer_channel_max:
                self._connection.fail(
                    errors.RESOURCE_LIMIT_EXCEEDED, "the peer's channel-max leaves no channel for a session"
                )
                return
            session = self._new_session()
            session.peer_channel = channel
            self.by_peer[channel] = session
            session.receive_begin(begin)
            session.write(
                Begin(
                    remote_channel=channel,
                    next_outgoing_id=session.next_outgoing_id,
                    incoming_window=session.incoming_window,
                    outgoing_window=0x7FFFFFFF,
                    handle_max=session.handle_max,
                )
            )
        self._connection.handler.on_begin(session, begin)

    def begin(self) -> AmqpSession:
        """Begin a session; `on_begin` of the handler is called with the peer's answer."""
        session = self._new_session()
        session.write(
            Begin(
                next_outgoing_id=0,
                incoming_window=session.incoming_window,
                outgoing_window=0x7FFFFFFF,
                handle_max=session.handle_max,
            )
        )
        return session

    def _free_channel(self) -> int:
        return self._freed[0] if self._freed else len(self.own)

    def _new_session(self) -> AmqpSession:
        session = AmqpSession(self._connection, self._free_channel())
        if self._freed:
            heappop(self._freed)
        self.own[session.channel] = session
        return session

    def drop(self, session: AmqpSession) -> None:
        """Free the channels of a session that both sides ended."""
        self.by_peer.pop(session.peer_channel, None)
        if self.own.pop(session.channel, None) is not None:
            heappush(self._freed, session.channel)
