"""Where peers come from: the address that their connections are counted under."""

from ipaddress import IPv6Address, ip_address, ip_network


def address_of(peer: str) -> str:
    """The address in `host:port`, without the port; of IPv6 the /64, because a peer with one address there has all."""
    host = peer.rpartition(":")[0] or peer
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(ip_network((address, 64), strict=False))
    return str(address)
