"""When and from where a secret API key works: it may expire, and it may be bound to networks.

A public key has no such rules: it ships inside an app, so it must work on every phone, for as long as the app is
installed somewhere.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Invalid, Refusal

Network = IPv4Network | IPv6Network

MOST_NETWORKS = 50
# From this time on, pages and `latchkey doctor` warn of a key that is about to expire.
WARNED_BEFORE: Ms = 14 * DAY
# How long the old key works after it was replaced, if nothing else is chosen, and at most.
OVERLAP_DAYS = 7
LONGEST_OVERLAP_DAYS = 90
# A key that works longer than this has no need of an end.
LATEST: Ms = 100 * 366 * DAY
_MAPPED = IPv6Network("::ffff:0:0/96")


class KeyRules(Struct, frozen=True):
    """At least one of the two is set."""

    # The first instant at which the key no longer works. None: it does not expire.
    expires_at: Ms | None
    # As stored: in canonical form. Empty: it works from everywhere.
    networks: tuple[str, ...]

    def is_expired(self, now: Ms) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def admits(self, address: str) -> bool:
        return not self.networks or is_inside(address, self.networks)

    def allows(self, address: str, now: Ms) -> bool:
        return not self.is_expired(now) and self.admits(address)


def rules_of(expires_at: Ms | None, networks: Sequence[str] | None) -> KeyRules | None:
    """None: the key works always and from everywhere."""
    return KeyRules(expires_at, tuple(networks or ())) if expires_at is not None or networks else None


@lru_cache(maxsize=4096)
def is_inside(address: str, networks: tuple[str, ...]) -> bool:
    """Whether a client with this address is in one of the networks. An address that is not known is in none."""
    try:
        found = _unmapped(ip_address(address))
    except ValueError:
        return False
    return any(found in network for network in _parsed(networks))


@lru_cache(maxsize=1024)
def _parsed(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(network) for network in networks)


def checked_networks(words: Iterable[str]) -> list[str]:
    """Addresses and networks as somebody wrote them, in canonical form and each once. An empty word is refused:
    it comes from an empty variable, and leaving it out would make a key that works from everywhere."""
    found = list(dict.fromkeys(str(_network(word.strip())) for word in words))
    if len(found) > MOST_NETWORKS:
        raise Invalid(f"A key has at most {MOST_NETWORKS} networks.", param="allowed_networks")
    return found


def checked_expiry(expires_at: Ms | None, now: Ms) -> Ms | None:
    if expires_at is None:
        return None
    if expires_at <= now:
        raise Refusal("A key expires in the future. To end it now, revoke it.", param="expires_at")
    if expires_at > now + LATEST:
        raise Refusal(
            "That is more than 100 years away. Leave it out, and the key does not expire.", param="expires_at"
        )
    return expires_at


def beyond(holder: KeyRules | None, expires_at: Ms | None, networks: Sequence[str]) -> Refusal | None:
    """Why a key with these rules cannot make, or become, one with such an expiry and such networks. A key cannot give
    what it does not have; otherwise whoever stole it could free it of its rules. None: it can."""
    if holder is None:
        return None
    if holder.expires_at is not None and (expires_at is None or expires_at > holder.expires_at):
        return Refusal("This key expires, so it cannot make a key that works longer.", param="expires_at")
    if holder.networks and not (networks and all(_covers(holder.networks, network) for network in networks)):
        return Refusal("This key is bound to networks, so it cannot make a key for others.", param="allowed_networks")
    return None


def replaced_expiry(created_at: Ms, expires_at: Ms | None, now: Ms) -> Ms | None:
    """When the successor of a key expires: after as long a time as its predecessor was given."""
    return None if expires_at is None else now + max(expires_at - created_at, DAY)


def _covers(networks: Sequence[str], one: str) -> bool:
    first, last = (wanted := ip_network(one)).network_address, wanted.broadcast_address
    return any(first in network and last in network for network in _parsed(tuple(networks)))


def _network(word: str) -> Network:
    try:
        if "%" in word:
            raise ValueError
        found = ip_network(word, strict=False)
    except ValueError:
        raise Invalid(
            f"{word[:60]!r} is not an address or a network such as 203.0.113.7 or 10.0.0.0/8.", param="allowed_networks"
        ) from None
    if "/" in word and ip_address(word.partition("/")[0]) != found.network_address:
        raise Refusal(f"{word[:60]!r} is not the start of a network. Did you mean {found}?", param="allowed_networks")
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        start = found.network_address.ipv4_mapped
        assert start is not None
        return IPv4Network((start, found.prefixlen - 96))
    return found


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """A server that listens on IPv6 sees IPv4 clients as ::ffff:203.0.113.7."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped if mapped is not None else address
