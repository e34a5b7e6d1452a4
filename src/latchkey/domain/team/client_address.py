"""The client's address, for the audit log and for limits."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network


@lru_cache(maxsize=4096)
def client_address(peer: str | None, forwarded_for: str | None, *, behind_proxy: bool) -> str:
    """The address of the connection; behind a proxy, the one that the nearest proxy appended to the list."""
    found = peer or ""
    if behind_proxy and forwarded_for:
        found = _without_port(forwarded_for.rpartition(",")[2].strip())
    try:
        return str(ip_address(found))
    except ValueError:
        return "unknown"


def _without_port(word: str) -> str:
    """Some proxies write the client's port too: 203.0.113.7:5555 or [2001:db8::1]:443."""
    if word.startswith("["):
        return word[1:].partition("]")[0]
    return word.partition(":")[0] if word.count(":") == 1 else word


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Who counts as one address for a limit: an IPv6 client chooses freely among the addresses of its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, 64), strict=False))
    return address


@lru_cache(maxsize=4096)
def roughly(address: str) -> str:
    """An address cut to its network, for a log: that of a phone belongs to a person."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return str(ip_network((parsed, 48 if isinstance(parsed, IPv6Address) else 24), strict=False))
