"""A way to a broker that can lose what the broker answers, and then break; or that cuts it into small pieces."""

import socket
import threading
from typing import Final


class Proxy:
    """Passes octets on between one client at a time and a broker."""

    def __init__(self, port: int, piece_bytes: int = 65536) -> None:
        self._broker_port: Final = port
        self._piece_bytes: Final = piece_bytes
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        self._client: socket.socket | None = None
        self._is_mute = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """What the client connects to."""
        return f"amqp://127.0.0.1:{self.port}"

    def mute(self) -> None:
        """From now on the client hears nothing of the broker, which hears the client."""
        self._is_mute.set()

    def cut(self) -> None:
        """Break the connection; the next one is as good as new."""
        broken = self._client
        assert broken is not None
        broken.shutdown(socket.SHUT_RDWR)
        self._is_mute.clear()

    def close(self) -> None:
        """Take no more clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._broker_port))
            self._client = client
            for way in ((client, broker, threading.Event()), (broker, client, self._is_mute)):
                threading.Thread(target=_pass_on, args=(*way, self._piece_bytes), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, mute: threading.Event, piece_bytes: int) -> None:
    with source:
        try:
            target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while octets := source.recv(piece_bytes):
                if not mute.is_set():
                    target.sendall(octets)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # The other way, or `cut`, has ended it.
