"""The client's address, for the audit log and for the limits on wrong passwords."""

from __future__ import annotations

from ipaddress import ip_address


def client_address(peer: str | None, forwarded_for: str | None, *, behind_proxy: bool) -> str:
    """The address of the connection; behind a proxy, the one that the nearest proxy appended to the list."""
    found = peer or ""
    if behind_proxy and forwarded_for:
        found = forwarded_for.rpartition(",")[2].strip()
    try:
        return str(ip_address(found))
    except ValueError:
        return "unknown"
