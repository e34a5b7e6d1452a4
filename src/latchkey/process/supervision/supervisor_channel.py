"""Between the supervisor and a child: its orders as one line of JSON, and the child's end of their socket pair."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from io import BufferedReader
from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from latchkey.settings import File, Settings

_PATHS = tuple(name for name, kind in get_type_hints(Settings, include_extras=True).items() if kind == File)


class ChildOrders(msgspec.Struct, frozen=True):
    """Sent through the socket, so that secrets are not in arguments or the environment."""

    settings: dict[str, Any]
    roles: tuple[str, ...]
    listening: int | None
    # For the metrics: which process this is, the names of all of them, what they have in common, and their socket.
    process: str = ""
    processes: tuple[str, ...] = ()
    family: str = ""
    metrics: int | None = None


def encode(orders: ChildOrders) -> bytes:
    return msgspec.json.encode(orders) + b"\n"


def decode(line: bytes) -> ChildOrders:
    return msgspec.json.decode(line, type=ChildOrders)


def settings_to_wire(settings: Settings) -> dict[str, Any]:
    values = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    values["webhook_allow_networks"] = [str(network) for network in settings.webhook_allow_networks]
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def settings_from_wire(values: dict[str, Any]) -> Settings:
    paths = {name: values[name] for name in _PATHS}
    return Settings(
        **{
            **values,
            **{name: Path(value) if value else None for name, value in paths.items()},
            "secret_key": msgspec.convert(values["secret_key"], bytes),
            "roles": tuple(values["roles"]),
            "store_allow_hosts": tuple(values["store_allow_hosts"]),
            "export_allow_hosts": tuple(values["export_allow_hosts"]),
            "store_emulators": tuple(values["store_emulators"]),
            "webhook_allow_networks": tuple(ip_network(network) for network in values["webhook_allow_networks"]),
        }
    )


EVERY_SECONDS = 1.0


def die_with(supervisor: socket.socket) -> None:
    """Ends this process when the supervisor is gone. A thread notices even if the event loop is busy."""
    supervisor.recv(1)
    os._exit(70)


def hear_and_die_with(supervisor: BufferedReader, heard: Callable[[bytes], None]) -> None:
    """The same, for a process that is told news: one line each."""
    try:
        for line in supervisor:
            heard(line)
    finally:
        os._exit(70)


async def live(supervisor: socket.socket) -> None:
    """Says every second that this event loop turns. A supervisor that does not listen is no reason to wait."""
    while True:
        with contextlib.suppress(OSError):
            supervisor.send(b".", socket.MSG_DONTWAIT)
        await asyncio.sleep(EVERY_SECONDS)
