"""Commands against a broker behind a proxy that stops to forward, and what they wait for."""

import select
import socket
import threading
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import pytest

from artemis_py.cli.client import Target
from artemis_py.cli.connection import Connection
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.cli.manage import Management, Request
from tests.interop.broker_process import BrokerProcess


class Proxy:
    """Forwards one connection to a broker, until `silence`: then both ends stay open and hear nothing."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._broker: Final = (parts.hostname, parts.port)
        self._server: Final = socket.create_server(("127.0.0.1", 0))
        self._is_silent: Final = threading.Event()
        self._is_over: Final = threading.Event()
        self.url: Final = f"amqp://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread: Final = threading.Thread(target=self._run)
        self._thread.start()

    def silence(self) -> None:
        """Forward nothing more."""
        self._is_silent.set()

    def close(self) -> None:
        """End the thread and both connections."""
        self._is_over.set()
        self._thread.join()
        self._server.close()

    def _run(self) -> None:
        self._server.settimeout(20)
        client, _ = self._server.accept()
        with client, socket.create_connection(self._broker) as broker:
            while not self._is_over.is_set():
                readable, _, _ = select.select([client, broker], [], [], 0.02)
                for each in readable:
                    data = each.recv(65536)
                    if not data:
                        return
                    if not self._is_silent.is_set():
                        (broker if each is client else client).sendall(data)


@pytest.fixture
def proxy(broker_process: BrokerProcess) -> Iterator[Proxy]:
    proxy = Proxy(broker_process.url)
    yield proxy
    proxy.close()


LIST: Final = Request("broker", "listAddresses", ("", 1, 1))


def test_a_request_without_an_answer_is_given_up(proxy: Proxy) -> None:
    """Not connected, exit code 3; the time begins with each request, not with the connection."""
    target = Target(url=proxy.url, user=None, password=None, timeout_s=1.0)
    connection = Connection(target)
    management = Management(connection, target)
    answer = management.call(LIST)
    proxy.silence()
    with pytest.raises(NotConnected, match=r"no answer to a management request in 1 s") as caught:
        management.call(LIST)
    connection.abort()

    assert isinstance(answer, str)
    assert caught.value.exit_code == 3


def test_a_close_without_an_answer_does_not_hang(proxy: Proxy) -> None:
    target = Target(url=proxy.url, user=None, password=None, timeout_s=0.2)
    with Connection(target):
        proxy.silence()


def test_operations_share_one_connection_and_the_first_refusal_is_told(proxy: Proxy) -> None:
    target = Target(url=proxy.url, user=None, password=None)
    with Connection(target) as connection:
        management = Management(connection, target)
        with pytest.raises(Failed):
            management.call(Request("queue.none", "removeAllMessages"))

        assert isinstance(management.call(LIST), str)
