"""The address of the database. It may name several hosts: `postgresql://user:password@db1:5432,db2:5432/latchkey`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlencode, urlsplit

from msgspec import Struct

_NOT_A_URL = "(an address that is not a URL)"
# What `target_session_attrs` may say where several hosts are named: Latchkey writes.
_WRITING = frozenset({"read-write", "primary"})


@dataclass(frozen=True, slots=True)
class Host:
    # For logs and messages: "db1:5432", or the folder of a socket.
    name: str
    # The whole address with this host alone. It may have a password.
    url: str = field(repr=False)


class DatabaseAddress(Struct, frozen=True):
    hosts: tuple[Host, ...]
    # Without a password.
    shown: str
    # A standby will not do: said by `target_session_attrs`, or because several hosts are named.
    wants_primary: bool = False

    @property
    def is_cluster(self) -> bool:
        return len(self.hosts) > 1


def parse(url: str) -> DatabaseAddress:
    """ValueError says what is wrong with the address, and quotes nothing of it: a password may be anywhere in it."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    except ValueError:
        raise ValueError("it is not a URL") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("it must begin with postgresql://")
    auth, at, listed = parts.netloc.partition("@") if "@" in parts.netloc else ("", "", parts.netloc)
    if "@" in listed or "@" in parts.path or parts.fragment:
        raise ValueError("characters of the password such as @, / and # must be percent-encoded (%40, %2F, %23)")
    hosts = tuple(_in_netloc(parts, auth + at, listed) if listed else _in_query(parts, query))
    chosen = first(query, "target_session_attrs")
    if len(hosts) > 1 and chosen is not None and chosen not in _WRITING:
        raise ValueError("with several hosts, target_session_attrs must be read-write, or be left out")
    user = f"{auth.partition(':')[0]}@" if auth else ""
    shown = f"{parts.scheme}://{user}{','.join(host.name for host in hosts)}{parts.path}"
    return DatabaseAddress(hosts, shown, wants_primary=len(hosts) > 1 or chosen in _WRITING)


def without_password(url: str) -> str:
    """The address without a password, for display."""
    try:
        return parse(url).shown
    except ValueError:
        return _NOT_A_URL


def first(query: Mapping[str, list[str]], name: str) -> str | None:
    values = query.get(name)
    return values[0] if values else None


def _in_netloc(parts: SplitResult, auth: str, listed: str) -> Iterator[Host]:
    for one in listed.split(","):
        # An IPv6 address is in brackets; a socket's folder is percent-encoded and has no port.
        name, port = unquote(one), one.rpartition("]")[2].partition(":")[2]
        if not name or name.startswith(":"):
            raise ValueError("a host in the list is empty")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError("a port must be a number from 1 to 65535")
        yield Host(name, _url(parts, auth + one, parts.query))


def _in_query(parts: SplitResult, query: Mapping[str, list[str]]) -> Iterator[Host]:
    """`?host=db1,db2&port=5432,5433`, as for sockets. One port is good for all hosts."""
    hosts = (first(query, "host") or "").split(",")
    ports = (first(query, "port") or "").split(",")
    if len(ports) not in (1, len(hosts)):
        raise ValueError("name one port for all hosts, or one for each")
    if len(hosts) == 1:
        yield Host(_joined(hosts[0] or "localhost", ports[0]), _url(parts, parts.netloc, parts.query))
        return
    for number, host in enumerate(hosts):
        if not host:
            raise ValueError("a host in the list is empty")
        port = ports[number % len(ports)]
        own = {name: values[-1] for name, values in query.items()} | {"host": host}
        if port:
            own["port"] = port
        yield Host(_joined(host, port), _url(parts, parts.netloc, urlencode(own)))


def _joined(host: str, port: str) -> str:
    return f"{host}:{port}" if port else host


def _url(parts: SplitResult, netloc: str, query: str) -> str:
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"
