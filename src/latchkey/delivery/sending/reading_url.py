"""Reads a URL as our rules and as the HTTP client do. Where they disagree, it is refused."""

from __future__ import annotations

from latchkey.domain.webhooks.address import NotAllowed, Target, literal, target
from latchkey.http_client import Url


def parsed(url: str) -> tuple[Target, Url]:
    """The target of a URL in both forms. If the client saw another host than ours, it would connect to another one than
    the checked one."""
    known = target(url)
    client_sees = Url(url)
    host = client_sees.host_str or ""
    same = host == known.host if known.literal is None else literal(host) == known.literal
    if not same or client_sees.port_or_known_default != known.port:
        raise NotAllowed(f"address not allowed: {url} can be read in two ways")
    return known, client_sees
