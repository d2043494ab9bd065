"""Facts about an accepted socket: its peer, and the bytes that the peer has not received yet."""

import asyncio
import sys
from fcntl import ioctl
from ipaddress import ip_address
from termios import TIOCOUTQ


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
