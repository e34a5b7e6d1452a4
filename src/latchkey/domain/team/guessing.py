"""How fast passwords may be guessed. Nobody is locked out: after some wrong ones, each next try has to wait longer.

Whose failures count depends on where they come from. A browser that signed in before is a known device, and only its
own failures slow it down. So nobody else can keep the owner of an account out of it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms


@dataclass(frozen=True, slots=True)
class Pace:
    # So many wrong passwords cost nothing. Then a try has to wait for `first`, and twice as long after each failure.
    free: int
    first: Ms
    longest: Ms
    # Failures count for so long.
    counted_for: Ms


# A known device of the account.
DEVICE = Pace(free=10, first=1 * SECOND, longest=1 * MINUTE, counted_for=1 * HOUR)
# One account from one address, without a known device.
PAIR = Pace(free=10, first=4 * SECOND, longest=15 * MINUTE, counted_for=1 * DAY)
# One account from all unknown devices together, for whoever has many addresses: about 750 guesses a day.
ACCOUNT = Pace(free=30, first=1 * SECOND, longest=2 * MINUTE, counted_for=1 * DAY)
# One address with any account. Many people may share it.
ADDRESS = Pace(free=50, first=4 * SECOND, longest=15 * MINUTE, counted_for=1 * HOUR)

LONGEST_COUNTED: Ms = max(pace.counted_for for pace in (DEVICE, PAIR, ACCOUNT, ADDRESS))


@dataclass(frozen=True, slots=True)
class Limit:
    """Failures are counted under `subject`, and slow down whoever comes with the same one."""

    subject: str
    pace: Pace
    # Whether a right password clears the failures. Those of an account and of an address are other people's, too.
    cleared: bool


def limits(email: str, address: str, account_id: str | None, device: str | None) -> tuple[Limit, ...]:
    """What a try is held against."""
    if account_id is not None and device is not None:
        return (Limit(f"device {account_id} {device}", DEVICE, cleared=True),)
    network = network_of(address)
    return (
        Limit(f"account {email}", ACCOUNT, cleared=False),
        Limit(f"account {email} from {network}", PAIR, cleared=True),
        Limit(f"address {network}", ADDRESS, cleared=False),
    )


def wait(pace: Pace, failures: int, last_at: Ms | None, now: Ms) -> Ms:
    """How long the next try has to wait; 0 when it may be made."""
    if last_at is None or failures < pace.free:
        return 0
    delay = min(pace.first << min(failures - pace.free, 30), pace.longest)
    return max(last_at + delay - now, 0)


def network_of(address: str) -> str:
    """The address; of IPv6 the /64, because whoever has one of its addresses has all of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
