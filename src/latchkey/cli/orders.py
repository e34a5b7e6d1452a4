"""The message from the supervisor to a child, as one line of JSON."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from latchkey.settings import File, Settings

_PATHS = tuple(name for name, kind in get_type_hints(Settings, include_extras=True).items() if kind == File)


class Orders(msgspec.Struct, frozen=True):
    """Sent through the socket, so that secrets are not in arguments or the environment."""

    settings: dict[str, Any]
    roles: tuple[str, ...]
    listening: int | None
    # For the metrics: which process this is, the names of all of them, what they have in common, and their socket.
    process: str = ""
    processes: tuple[str, ...] = ()
    family: str = ""
    metrics: int | None = None


def encode(orders: Orders) -> bytes:
    return msgspec.json.encode(orders) + b"\n"


def decode(line: bytes) -> Orders:
    return msgspec.json.decode(line, type=Orders)


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
