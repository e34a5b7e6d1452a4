"""The sockets, bound by the supervisor, one for each process that answers requests.

SO_REUSEPORT lets the kernel distribute connections evenly over those that listen. The first listens at once:
connections wait there for its process. The others listen when their processes accept (`server.py`). SO_REUSEPORT would
also let a second Latchkey share the port unnoticed, so a first socket without it checks whether the port is free.
"""

import contextlib
import errno
import socket
import time
from typing import Any

from latchkey.settings import BACKLOG


class CannotListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def bind(host: str, port: int, count: int, *, patience: float = 5.0) -> list[socket.socket]:
    """`count` sockets on one port, of which the first listens. Waits for a port that the last run has just released."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return _bind(host, port, count)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            raise CannotListenError(_explained(error, host, port)) from error


def bind_wished(host: str, wishes: list[int]) -> socket.socket:
    """On the first free port of these; if none is free, on any. All but the last were ours before, and clients expect
    us there: a process of ours that was just killed may still hold one."""
    for place, port in enumerate(wishes, 1):
        if 0 < port < 65_536:
            with contextlib.suppress(CannotListenError):
                return bind(host, port, 1, patience=0.5 if place == len(wishes) else 5.0)[0]
    return bind(host, 0, 1)[0]


def bind_metrics(host: str, port: int) -> socket.socket | None:
    try:
        return bind(host, port, 1)[0] if port else None
    except CannotListenError as error:
        said = str(error).partition(". Choose")[0]
        raise CannotListenError(
            f"{said}. Choose another with LATCHKEY_METRICS_PORT and LATCHKEY_METRICS_HOST."
        ) from error


def _bind(host: str, port: int, count: int) -> list[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if port:
        _socket(family, (host, port), shared=False).close()
    sockets: list[socket.socket] = []
    try:
        sockets.append(_socket(family, (host, port)))
        # At once: only a listening socket makes the check of a second Latchkey fail.
        sockets[0].listen(BACKLOG)
        sockets += (beside(sockets[0]) for _ in range(count - 1))
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def beside(one: socket.socket) -> socket.socket:
    """Another on the same port, which does not listen yet."""
    return _socket(socket.AddressFamily(one.family), one.getsockname())


def _socket(family: socket.AddressFamily, address: tuple[Any, ...], *, shared: bool = True) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of the last run in TIME_WAIT must not block the port.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        made.setblocking(False)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _explained(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program. Choose another with --port (0 picks a free one)."
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"This user may not listen on port {port}. Choose one from 1024 up with --port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"This machine has no address {host}. Choose one of its own with --host."
    return f"Cannot listen on {host} port {port}: {error.strerror or error}."


class NotReadyError(Exception):
    """The service did not start: its processes ended, or do not report that they are ready. Their log says why."""


class ConsumerFailedError(Exception):
    """A command of the consumer failed; the message says why."""
