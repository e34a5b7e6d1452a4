"""Resolves host names in threads, and checks every address before anything connects to it. Puts the client's errors
into words that a person can act on."""

import asyncio
import ipaddress
import socket
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

from latchkey.domain.outgoing_address import Address, Network, NotAllowed, Target, literal, refusal, target
from latchkey.http_client import HttpConnectTimeoutError, HttpTimeoutError, Url, causes_of

# getaddrinfo returns no time to live, so a result is cached for this long.
_KEPT_SECONDS = 30.0
_THREADS = 32
_REMEMBERED = 10_000

Lookup = Callable[[str, int], Sequence[str]]


class NameNotFound(Exception):
    """The host name has no address."""


def system_lookup(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Resolver:
    def __init__(self, allowed: Sequence[Network] = (), lookup: Lookup = system_lookup) -> None:
        self._allowed = allowed
        self._lookup = lookup
        # One lookup at a time per name: a name server that never responds occupies one thread, not one per delivery.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")
        self._known: dict[tuple[str, int], tuple[float, Sequence[Address]]] = {}
        self._asking: dict[tuple[str, int], asyncio.Future[Sequence[Address]]] = {}

    def known(self, target: Target) -> Sequence[Address] | None:
        """The target's addresses, if they are cached."""
        known = self._known.get((target.host, target.port))
        if known is not None and time.monotonic() - known[0] < _KEPT_SECONDS:
            return known[1]
        return None

    async def addresses(self, target: Target) -> Sequence[Address]:
        """The target's addresses. Raises NotAllowed if any of them is not allowed, and NameNotFound."""
        if target.literal is not None:
            return self._checked(target.host, [target.literal])
        key = target.host, target.port
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._ask(*key))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        # Shielded: a delivery that times out must not cancel the lookup for the others.
        return await asyncio.shield(asking)

    def forget(self, target: Target) -> None:
        """Look the name up again next time: after a failure to connect it may have another address."""
        self._known.pop((target.host, target.port), None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, host: str, port: int) -> Sequence[Address]:
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host, port)
        except (OSError, UnicodeError) as error:
            raise NameNotFound(f"name not found: {host}") from error
        addresses = self._checked(host, [ipaddress.ip_address(one) for one in found])
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[host, port] = time.monotonic(), addresses
        return addresses

    def _checked(self, host: str, found: Sequence[Address]) -> Sequence[Address]:
        if not found:
            raise NameNotFound(f"name not found: {host}")
        for address in found:
            if why := refusal(address, self._allowed):
                raise NotAllowed(f"address not allowed: {host} is {address} ({why})")
        return found


_FAILURES = tomllib.loads((files(__package__) / "failures.toml").read_text(encoding="utf-8"))
_NOT_CONNECTED = ("tcp connect error", "Connection refused", "Network is unreachable", "No route to host")


def in_words(error: Exception, took_ms: int, timeout_ms: int) -> str:
    if isinstance(error, TimeoutError | HttpTimeoutError):
        if isinstance(error, HttpConnectTimeoutError) and took_ms < timeout_ms * 0.9:
            return f"could not connect within {_seconds(took_ms)}"
        return f"timed out after {_seconds(timeout_ms)}"
    causes = causes_of(error)
    for words, signs in _FAILURES.items():
        if any(sign in cause for cause in causes for sign in signs):
            return words
    return f"request failed: {causes[-1]}" if causes else f"request failed: {type(error).__name__}"


def never_connected(error: Exception) -> bool:
    """Whether nothing was sent, so that another address of the same host may be tried in the same attempt."""
    return any(sign in cause for cause in causes_of(error) for sign in _NOT_CONNECTED)


def of_status(status: int, location: str | None) -> str:
    if 300 <= status < 400:
        return f"redirect ({status}) to {location or 'nowhere'}: redirects are not followed"
    return f"answered {status} instead of 200"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def parsed(url: str) -> tuple[Target, Url]:
    """The target of a URL as our rules and as the HTTP client read it. Where they disagree, it is refused: the client
    would connect to another host than the checked one."""
    known = target(url)
    client_sees = Url(url)
    host = client_sees.host_str or ""
    same = host == known.host if known.literal is None else literal(host) == known.literal
    if not same or client_sees.port_or_known_default != known.port:
        raise NotAllowed(f"address not allowed: {url} can be read in two ways")
    return known, client_sees
