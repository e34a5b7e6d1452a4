"""A child's end of the line to its supervisor."""

from __future__ import annotations

import os
import socket


def die_with(supervisor: socket.socket) -> None:
    """Nobody is left to look after us once the supervisor is killed. A thread notices even when the loop is busy."""
    supervisor.recv(1)
    os._exit(70)
