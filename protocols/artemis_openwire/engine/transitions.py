"""Which command may come when (openwire §11 and §12).

AWAITING_WIRE_FORMAT -> NEGOTIATED -> CONNECTING -> CONNECTED -> REMOVED -> CONNECTING
                                          |                                  all: CLOSED
                                          v
                                       REFUSED
"""

from typing import Final

from artemis_py.errors import ProtocolError

AWAITING_WIRE_FORMAT: Final = 0
NEGOTIATED: Final = 1
CONNECTING: Final = 2
"""The handler decides about a login; what arrives until then waits."""
CONNECTED: Final = 3
REMOVED: Final = 4
"""The client has ended its connection, and may begin another one on the same socket."""
REFUSED: Final = 5
"""The login failed. Nothing is read any more, and the socket is closed a little later."""
CLOSED: Final = 6

# Codes of commands.
NULL_COMMAND: Final = 0
WIRE_FORMAT_INFO: Final = 1
BROKER_INFO: Final = 2
CONNECTION_INFO: Final = 3
SESSION_INFO: Final = 4
CONSUMER_INFO: Final = 5
PRODUCER_INFO: Final = 6
TRANSACTION_INFO: Final = 7
DESTINATION_INFO: Final = 8
REMOVE_SUBSCRIPTION_INFO: Final = 9
KEEP_ALIVE_INFO: Final = 10
SHUTDOWN_INFO: Final = 11
REMOVE_INFO: Final = 12
CONTROL_COMMAND: Final = 14
FLUSH_COMMAND: Final = 15
CONSUMER_CONTROL: Final = 17
CONNECTION_CONTROL: Final = 18
MESSAGE_PULL: Final = 20
MESSAGE_ACK: Final = 22
RESPONSE: Final = 30
MESSAGE_DISPATCH_NOTIFICATION: Final = 90

HANDLED: Final = frozenset(
    (
        SESSION_INFO,
        CONSUMER_INFO,
        PRODUCER_INFO,
        TRANSACTION_INFO,
        DESTINATION_INFO,
        REMOVE_SUBSCRIPTION_INFO,
        REMOVE_INFO,
        CONSUMER_CONTROL,
        CONNECTION_CONTROL,
        MESSAGE_PULL,
    )
)
"""Commands that the handler of a client that has logged in gets as records."""

MESSAGES: Final = range(23, 30)

IGNORED: Final = frozenset((CONTROL_COMMAND, FLUSH_COMMAND, MESSAGE_DISPATCH_NOTIFICATION, RESPONSE))
"""Commands that mean nothing here; the client gets its answer.

The failover transport of the Java client replays its own notes of requests as if they were Responses.
"""

_OF_CONNECTION: Final = HANDLED | IGNORED | {MESSAGE_ACK} | set(MESSAGES)

# Whatever is absent is a protocol error and ends the connection: WireFormatInfo comes first and once, ConnectionInfo
# before anything that belongs to a connection. A client that reconnects may send ConnectionControl before it logs in,
# and one that has ended its connection may still remove what belonged to it.
TRANSITIONS: Final = {
    (AWAITING_WIRE_FORMAT, WIRE_FORMAT_INFO): NEGOTIATED,
    (NEGOTIATED, CONNECTION_INFO): CONNECTING,
    (NEGOTIATED, CONNECTION_CONTROL): NEGOTIATED,
    (NEGOTIATED, REMOVE_INFO): NEGOTIATED,
    (NEGOTIATED, KEEP_ALIVE_INFO): NEGOTIATED,
    (NEGOTIATED, SHUTDOWN_INFO): CLOSED,
    (CONNECTED, KEEP_ALIVE_INFO): CONNECTED,
    (CONNECTED, SHUTDOWN_INFO): CLOSED,
    **{(CONNECTED, code): CONNECTED for code in _OF_CONNECTION},
    (REMOVED, CONNECTION_INFO): CONNECTING,
    (REMOVED, KEEP_ALIVE_INFO): REMOVED,
    (REMOVED, SHUTDOWN_INFO): CLOSED,
    **{(REMOVED, code): REMOVED for code in _OF_CONNECTION},
}


def check_transition(state: int, code: int) -> None:
    """Look a command up. Raises ProtocolError if it may not come now."""
    if (state, code) in TRANSITIONS:
        return
    if code == BROKER_INFO:
        raise ProtocolError("a bridge from another broker, which this broker does not take")
    raise ProtocolError(f"a command of type {code} that is not allowed now")
