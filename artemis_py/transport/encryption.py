"""TLS between a socket's transport and its driver, without I/O of its own.

asyncio has such a layer, but it hides a connection until its handshake is over, keeps a buffer of 256 KiB for each,
and its `start_tls` needs a task and loses the first bytes under uvloop. Here the driver sees the connection from the
first moment, so that the handshake is part of the one login deadline, and an idle connection holds what OpenSSL holds.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Final, Protocol, cast

# As much as one read of the socket brings; a TLS record is at most 16 KiB.
READ_BYTES: Final = 256 * 1024


class Encrypted(Protocol):
    """The driver of an encrypted connection: a `asyncio.Protocol` that is also told about the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there, the handshake begins."""

    def handshake_progressed(self) -> None:
        """The peer sent a part of the handshake that was understood."""

    def handshake_done(self) -> None:
        """What is received from now on is plain."""

    def tls_failed(self, error: ssl.SSLError) -> None:
        """The peer does not speak TLS as it should; the transport is to be aborted."""

    def data_received(self, data: bytes) -> None:
        """Plain bytes."""

    def eof_received(self) -> bool | None:
        """The peer says no more."""

    def pause_writing(self) -> None:
        """The socket's buffer is full."""

    def resume_writing(self) -> None:
        """The socket's buffer has room."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""


class TlsLayer(asyncio.Protocol):
    """The protocol of the socket's transport."""

    __slots__ = ("_driver", "_incoming", "_is_done", "_is_over", "_outgoing", "_tls", "_transport")

    def __init__(self, driver: Encrypted, context: ssl.SSLContext) -> None:
        self._driver = driver
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport | None = None
        self._is_done = False
        """The handshake is over."""
        self._is_over = False
        """One side ended the encrypted stream: what comes now is for nobody."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket was accepted."""
        self._transport = cast(asyncio.Transport, transport)
        self._driver.connection_made(TlsTransport(self, self._transport, self._tls))

    def data_received(self, data: bytes) -> None:
        """Records of the peer's, cut anywhere."""
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
        """The socket's end, after the stream's end or instead of it."""
        if not self._is_over:
            self._is_over = True
            return self._driver.eof_received()
        return False

    def pause_writing(self) -> None:
        """Passed on: the buffer that is full is the socket's."""
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        """Passed on."""
        self._driver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Passed on."""
        self._is_over = True
        self._driver.connection_lost(exc)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if data and self._is_done:
            self._tls.write(data)
            self._send()

    def end_stream(self) -> None:
        """Tell the peer that no more bytes come (close_notify), if there is a stream to end."""
        self._is_over = True
        if self._is_done:
            with suppress(ssl.SSLError):  # it wants the peer's own end, which nobody waits for here
                self._tls.unwrap()
            self._send()

    def _end(self) -> None:
        """The peer ended its stream: answers go out, then ours ends too."""
        self._is_over = True
        if self._driver.eof_received():
            return  # it closes when it has done what it received
        assert self._transport is not None
        self.end_stream()
        self._transport.close()

    def _send(self) -> None:
        data = self._outgoing.read()
        if data and self._transport is not None:
            self._transport.write(data)


class TlsTransport(asyncio.Transport):
    """The transport as the driver sees it: plain bytes in, everything else is the socket's."""

    __slots__ = ("_layer", "_socket", "_tls")

    def __init__(self, layer: TlsLayer, transport: asyncio.Transport, tls: ssl.SSLObject) -> None:
        super().__init__()
        self._layer = layer
        self._socket = transport
        self._tls = tls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`ssl_object` is ours, the rest is known to the socket's transport."""
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, encrypted."""
        self._layer.write(data)

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that the socket has not taken."""
        return self._socket.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        """A TLS stream has an end, and so has the socket's."""
        return self._socket.can_write_eof()

    def write_eof(self) -> None:
        """No more bytes from this side."""
        self._layer.end_stream()
        self._socket.write_eof()

    def close(self) -> None:
        """Send what there is, then close."""
        self._layer.end_stream()
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._socket.abort()

    def pause_reading(self) -> None:
        """Leave what comes in the socket."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Of the socket's buffer."""
        self._socket.set_write_buffer_limits(high, low)
