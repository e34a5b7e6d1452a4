"""Notices a machine that is gone without closing its connections: no power, or a cut cable. By default the kernel waits
15 minutes for the answer to a statement, and two hours on a connection that waits for notifications."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

# A connection on which nothing came for 5 s is tried every 2 s; after 3 tries without an answer it is closed.
_IDLE, _EVERY, _TRIES = 5, 2, 3
# Data that the other side did not confirm for so long closes the connection.
_UNCONFIRMED_MS = 10_000

_OPTIONS = (
    # macOS has another name for the first.
    ("TCP_KEEPIDLE", _IDLE),
    ("TCP_KEEPALIVE", _IDLE),
    ("TCP_KEEPINTVL", _EVERY),
    ("TCP_KEEPCNT", _TRIES),
    ("TCP_USER_TIMEOUT", _UNCONFIRMED_MS),
)


def notice_lost_machines(connection: Any) -> None:
    """For a connection over TCP. The driver has no option for it."""
    transport = getattr(connection, "_transport", None)
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS:
            if hasattr(socket, name):
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
