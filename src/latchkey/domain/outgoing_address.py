"""Where a webhook may point: https, and only to addresses of the public Internet.

The checks apply to addresses, never to names: a name is resolved first, and every address it resolves to is checked.
"""

import ipaddress
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from urllib.parse import urlsplit

from msgspec import Struct

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NETWORKS = tomllib.loads((files(__package__) / "refused_networks.toml").read_text(encoding="utf-8"))
_REFUSED: Sequence[tuple[Network, str]] = [(ipaddress.ip_network(one), why) for one, why in _NETWORKS.items()]
# The only range of IPv6 assigned to the public Internet. A list of refused ranges would allow every block that is
# assigned later, and unknown ways to embed an IPv4 address.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


class NotAllowed(ValueError):
    """The webhook's URL cannot be used; the message says why."""


class Target(Struct, frozen=True):
    """Host and port of a URL. `literal` is set if the URL has an address instead of a host name."""

    host: str
    port: int
    literal: Address | None


def target(url: str) -> Target:
    """Host and port of a webhook's URL; NotAllowed says what is wrong with it."""
    if not url.isascii() or not url.isprintable() or any(letter in url for letter in ' \\"<>^`{|}'):
        raise NotAllowed("The URL has characters that must be percent-encoded (host names in their xn-- form).")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise NotAllowed("This is not a URL.") from None
    if parts.scheme.lower() != "https":
        raise NotAllowed("The URL must begin with https://.")
    if parts.username is not None or parts.password is not None:
        raise NotAllowed("The URL must not hold a user name or password; use the Authorization header.")
    if not parts.hostname or port == 0:
        raise NotAllowed("The URL names no host.")
    if "%" in parts.netloc:
        raise NotAllowed("The host must be written plainly, without percent signs.")
    host = parts.hostname
    return Target(host, 443 if port is None else port, literal(host))


def literal(host: str) -> Address | None:
    """The host as an address, in any notation that browsers and resolvers accept (0x7f.1, 2130706433, ::1)."""
    host = host.removeprefix("[").removesuffix("]")
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host)
        except ValueError:
            raise NotAllowed(f"{host} is not an IPv6 address.") from None
    labels = host.removesuffix(".").split(".")
    if not labels[-1] or not _looks_like_a_number(labels[-1]):
        return None
    try:
        return _v4(labels)
    except ValueError:
        raise NotAllowed(f"{host} is neither a name nor an address.") from None


def refusal(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """Why this address must not be contacted; None if it may."""
    # With a zone (fe80::1%eth0) two spellings of one address would be unequal.
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        address = ipaddress.IPv6Address(int(address))
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    judged = inner if inner is not None else address
    if any(one in network for network in allowed for one in {address, judged}):
        return None
    for network, why in _REFUSED:
        if judged in network:
            return why
    if isinstance(judged, ipaddress.IPv6Address) and judged not in _GLOBAL_UNICAST:
        return "not global unicast"
    return None


def _looks_like_a_number(label: str) -> bool:
    if label.isdigit():
        return True
    return label[:2].lower() == "0x" and all(letter in "0123456789abcdefABCDEF" for letter in label[2:])


def _v4(labels: Sequence[str]) -> ipaddress.IPv4Address:
    if len(labels) > 4:
        raise ValueError("too many parts")
    numbers = [_number(label) for label in labels]
    *firsts, last = numbers
    if any(number > 255 for number in firsts) or last >= 256 ** (4 - len(firsts)):
        raise ValueError("out of range")
    return ipaddress.IPv4Address(sum(number << (8 * (3 - place)) for place, number in enumerate(firsts)) + last)


def _number(label: str) -> int:
    if label[:2].lower() == "0x":
        return int(label[2:] or "0", 16)
    if len(label) > 1 and label[0] == "0":
        return int(label, 8)
    return int(label)
