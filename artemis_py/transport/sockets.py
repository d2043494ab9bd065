"""Sockets: their buffers, their peer, and the bytes that the peer has not received yet."""

import asyncio
import socket
import sys
from fcntl import ioctl
from ipaddress import ip_address
from termios import TIOCOUTQ
from typing import Final

LARGEST_BUFFER: Final = 2**31 - 1
"""Largest size that fits into the option of a socket."""


def set_buffers(listener: socket.socket, send_size: int, receive_size: int) -> None:
    """Set the sizes of the buffers that a listening socket passes on to its connections; -1 leaves one as it is."""
    for option, size in ((socket.SO_SNDBUF, send_size), (socket.SO_RCVBUF, receive_size)):
        if size >= 0:
            listener.setsockopt(socket.SOL_SOCKET, option, min(size, LARGEST_BUFFER))


def unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Return how many sent bytes the peer's system has not acknowledged; 1 if that is not known."""
    sock = transport.get_extra_info("socket")
    try:
        # On Linux, SIOCOUTQ has the same number as TIOCOUTQ.
        return int.from_bytes(ioctl(sock.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, AttributeError, ValueError):
        return 1


def peer_text(transport: asyncio.BaseTransport) -> str:
    """Return the peer as `host:port`, with IPv6 addresses in brackets."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return "unknown"
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(transport: asyncio.BaseTransport) -> bool:
    """Tell whether the peer is on this machine. An IPv4-mapped IPv6 address counts as its IPv4 address."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return False
    address = ip_address(name[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (address if mapped is None else mapped).is_loopback
