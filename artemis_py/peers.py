"""Peer addresses: the address under which the connections of a peer are counted."""

from ipaddress import IPv6Address, ip_address, ip_network


def address_of(peer: str) -> str:
    """Return the address in `host:port`; for IPv6 its /64, because a peer with one address there has all of them."""
    host = peer.rpartition(":")[0] or peer
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(ip_network((address, 64), strict=False))
    return str(address)
