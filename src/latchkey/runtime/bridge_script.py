"""The bridge script with its parameters filled in, and the module for web content, as text."""

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from urllib.parse import urlsplit

_PORTS = {"https": 443, "http": 80}
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_COMMAND = re.compile(r"[a-z][a-z0-9+.-]*")


@dataclass(frozen=True, slots=True)
class BridgeNames:
    """The names of the bridge; several of each if old web content uses another name."""

    properties: tuple[str, ...] = ("bridge",)
    commands: Mapping[str, str] = field(default_factory=lambda: {"getpushplayerid": "pushplayerid"})

    def __post_init__(self) -> None:
        for name in (*self.properties, *self.commands.values()):
            if not _IDENTIFIER.fullmatch(name) or name == "__proto__":
                raise ValueError(f"{name!r} cannot be a global variable of a web page")
        for name in self.commands:
            if not _COMMAND.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a command: lower case letters, digits, + - and . only")


def bridge_script(player_id: str | None, origins: Iterable[str], names: BridgeNames | None = None) -> str:
    """JavaScript to run at document start. External values are only inserted as data."""
    allowed = sorted({origin_of(origin) for origin in origins})
    if not allowed:
        raise ValueError("the bridge needs at least one origin of the app's own")
    names = names or BridgeNames()
    options = {
        "playerId": player_id or None,
        "origins": allowed,
        "properties": names.properties,
        "commands": dict(names.commands),
    }
    # ASCII, so that no engine sees a line separator in it; no "<", so that it can be placed inside a page.
    data = json.dumps(options, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")
    return f"{_text('bridge.js').rstrip()}({data});\n"


def web_module() -> str:
    """The ES module for web content: `getPushPlayerId`, `registerDevice`."""
    return _text("push.js")


def is_this_machine(host: str) -> bool:
    """Whether the host of an address is the machine itself: localhost, or a loopback address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """The origin of an address as browsers write it. Plain http only for this machine itself."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").rstrip(".")
    if scheme not in _PORTS or not host or parts.username is not None:
        raise ValueError(f"{url!r} is not the address of a web app")
    if scheme == "http" and not is_this_machine(host):
        raise ValueError(f"{url!r}: only https:// addresses can have the bridge")
    if ":" in host:
        host = f"[{ipaddress.IPv6Address(host).compressed}]"
    elif not host.isascii():
        host = host.encode("idna").decode()
    port = f":{parts.port}" if parts.port not in {None, _PORTS[scheme]} else ""
    return f"{scheme}://{host}{port}"


def _text(name: str) -> str:
    return files("latchkey.runtime").joinpath(name).read_text(encoding="utf-8")
