"""TLS between a socket's transport and its driver, without I/O of its own.

asyncio has such a layer, but it hides a connection until its handshake is over, keeps a buffer of 256 KiB for each,
and its `start_tls` needs a task and loses the first bytes under uvloop. Here the driver sees the connection from the
first moment, so the one login deadline covers the handshake, and an idle connection needs only OpenSSL's memory.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Final, Protocol, cast

# As much as one read of the socket returns; a TLS record is at most 16 KiB.
READ_BYTES: Final = 256 * 1024


class Encrypted(Protocol):
    """The driver of an encrypted connection: an `asyncio.Protocol` that is also told about the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of an accepted socket; the handshake begins."""

    def handshake_progressed(self) -> None:
        """Note that the peer sent a valid part of the handshake."""

    def handshake_done(self) -> None:
        """Begin the conversation: the handshake is complete."""

    def tls_failed(self, error: ssl.SSLError) -> None:
        """End the connection: the peer broke the TLS protocol, or does not speak it."""

    def data_received(self, data: bytes) -> None:
        """Process decrypted bytes."""

    def eof_received(self) -> bool | None:
        """Process the end of the peer's stream; return True to keep the transport open."""

    def pause_writing(self) -> None:
        """Stop writing: the socket's buffer is full."""

    def resume_writing(self) -> None:
        """Write again: the socket's buffer has room."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection: the socket is gone."""


class TlsLayer(asyncio.Protocol):
    """The TLS layer as the socket's transport sees it: its asyncio protocol."""

    __slots__ = ("_driver", "_incoming", "_is_done", "_is_over", "_outgoing", "_tls", "_transport")

    def __init__(self, driver: Encrypted, context: ssl.SSLContext) -> None:
        self._driver = driver
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport | None = None
        self._is_done = False
        """Whether the handshake is complete."""
        self._is_over = False
        """Whether one side has ended the encrypted stream; what arrives after that is ignored."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the driver a transport that encrypts."""
        self._transport = cast(asyncio.Transport, transport)
        self._driver.connection_made(TlsTransport(self, self._transport, self._tls))

    def data_received(self, data: bytes) -> None:
        """Decrypt the peer's records, split at any byte, and feed the driver."""
        if self._is_over:
            return
        self._incoming.write(data)
        try:
            if not self._is_done:
                self._tls.do_handshake()
                self._is_done = True
                self._send()
                self._driver.handshake_done()
            while not self._is_over:
                plain = self._tls.read(READ_BYTES)
                if not plain:
                    self._end()
                    return
                self._driver.data_received(plain)
        except (ssl.SSLWantReadError, ssl.SSLSyscallError):
            if not self._is_done and self._outgoing.pending:
                self._driver.handshake_progressed()
            self._send()  # parts of a handshake, or nothing
        except ssl.SSLZeroReturnError:
            self._end()
        except ssl.SSLError as error:
            self._is_over = True
            self._send()  # the alert that tells the peer what is wrong
            self._driver.tls_failed(error)

    def eof_received(self) -> bool | None:
        """Tell the driver that the socket has ended, unless the encrypted stream ended before."""
        if not self._is_over:
            self._is_over = True
            return self._driver.eof_received()
        return False

    def pause_writing(self) -> None:
        """Pass the call on: the full buffer is the socket's."""
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        """Pass the call on."""
        self._driver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the call on; later input is ignored."""
        self._is_over = True
        self._driver.connection_lost(exc)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt `data` and send it."""
        if data and self._is_done:
            self._tls.write(data)
            self._send()

    def end_stream(self) -> None:
        """Tell the peer that no more bytes follow (close_notify), if the handshake is complete."""
        self._is_over = True
        if self._is_done:
            with suppress(ssl.SSLError):  # it asks for the peer's close_notify, which is not awaited here
                self._tls.unwrap()
            self._send()

    def _end(self) -> None:
        """End this side after the peer ended its stream: send the answers, then close."""
        self._is_over = True
        if self._driver.eof_received():
            return  # the driver closes the transport when it has processed its input
        assert self._transport is not None
        self.end_stream()
        self._transport.close()

    def _send(self) -> None:
        data = self._outgoing.read()
        if data and self._transport is not None:
            self._transport.write(data)


class TlsTransport(asyncio.Transport):
    """The transport as the driver sees it: it takes plain bytes; everything else is the socket's."""

    __slots__ = ("_layer", "_socket", "_tls")

    def __init__(self, layer: TlsLayer, transport: asyncio.Transport, tls: ssl.SSLObject) -> None:
        super().__init__()
        self._layer = layer
        self._socket = transport
        self._tls = tls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the TLS object for `ssl_object`; ask the socket's transport for all other names."""
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt `data` and send it."""
        self._layer.write(data)

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes that the socket has not accepted."""
        return self._socket.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        """Tell whether this direction can be closed alone: as the socket says."""
        return self._socket.can_write_eof()

    def write_eof(self) -> None:
        """End the TLS stream and this direction of the socket."""
        self._layer.end_stream()
        self._socket.write_eof()

    def close(self) -> None:
        """Send what is buffered, then close."""
        self._layer.end_stream()
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._socket.abort()

    def pause_reading(self) -> None:
        """Leave received bytes in the socket."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of the socket's buffer."""
        self._socket.set_write_buffer_limits(high, low)
