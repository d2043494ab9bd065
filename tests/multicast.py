"""Whether multicast works on the loopback interface: containers may have no network at all."""

import socket
import struct
from typing import Final

import pytest

LOOPBACK: Final = "127.0.0.1"
GROUP: Final = "224.0.0.251"
WAIT_S: Final = 2.0


def has_multicast() -> bool:
    """Tell whether a datagram to a group of this machine comes back."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        try:
            receiver.bind(("", 0))
            membership = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton(LOOPBACK))
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            receiver.settimeout(WAIT_S)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
            sender.sendto(b"there", (GROUP, receiver.getsockname()[1]))
            return receiver.recv(16) == b"there"
        except OSError:
            return False


def need_multicast() -> None:
    """Skip the test if there is no multicast, or no zeroconf."""
    pytest.importorskip("zeroconf")
    if not has_multicast():
        pytest.skip("no multicast on the loopback interface")
