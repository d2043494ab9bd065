"""What an accepted socket tells of its peer, and of what it has not taken yet."""

import asyncio
import sys
from fcntl import ioctl
from ipaddress import ip_address
from termios import TIOCOUTQ


def unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Bytes that the system holds until the peer's system has them; 1 if it does not tell."""
    sock = transport.get_extra_info("socket")
    try:
        # SIOCOUTQ of Linux has the number of TIOCOUTQ.
        return int.from_bytes(ioctl(sock.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, AttributeError, ValueError):
        return 1


def peer_text(transport: asyncio.BaseTransport) -> str:
    """`host:port`, with IPv6 addresses in brackets."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return "unknown"
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer is on this machine. An IPv4 address that came in over IPv6 counts as what it is."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return False
    address = ip_address(name[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (address if mapped is None else mapped).is_loopback
