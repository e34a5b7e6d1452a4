"""Limits on wrong passwords. No account is locked: after some failures each next attempt has to wait longer.

Failures are counted by where they come from. A browser that signed in before is a known device, and only its own
failures slow it down. So nobody else can keep the owner of an account out of it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms


@dataclass(frozen=True, slots=True)
class Pace:
    # This many failures have no effect. After them an attempt waits for `first`, and twice as long after each failure.
    free: int
    first: Ms
    longest: Ms
    # How long a failure counts.
    counted_for: Ms


# A known device of the account.
DEVICE = Pace(free=10, first=1 * SECOND, longest=1 * MINUTE, counted_for=1 * HOUR)
# One account from one address, without a known device.
PAIR = Pace(free=10, first=4 * SECOND, longest=15 * MINUTE, counted_for=1 * DAY)
# One account from all unknown devices together, against attackers with many addresses: about 750 guesses a day.
ACCOUNT = Pace(free=30, first=1 * SECOND, longest=2 * MINUTE, counted_for=1 * DAY)
# One address with any account. Many people may share it.
ADDRESS = Pace(free=50, first=4 * SECOND, longest=15 * MINUTE, counted_for=1 * HOUR)

# Codes of the second factor. They have six digits and three of them are right at any time, so the limits are lower:
# about 100 guesses a day for one account, whose password the guesser must know, and 300 with a known device.
CODE = Pace(free=10, first=4 * SECOND, longest=15 * MINUTE, counted_for=1 * DAY)
CODE_ON_DEVICE = Pace(free=10, first=1 * SECOND, longest=5 * MINUTE, counted_for=1 * DAY)

LONGEST_COUNTED: Ms = max(pace.counted_for for pace in (DEVICE, PAIR, ACCOUNT, ADDRESS, CODE, CODE_ON_DEVICE))


@dataclass(frozen=True, slots=True)
class Limit:
    """Failures are counted under `subject`, and slow down every attempt with the same one."""

    subject: str
    pace: Pace
    # Whether a correct password clears the failures. Failures of an account or an address may be somebody else's.
    cleared: bool


def limits(email: str, address: str, account_id: str | None, device: str | None) -> tuple[Limit, ...]:
    """The limits that apply to an attempt."""
    if account_id is not None and device is not None:
        return (Limit(f"device {account_id} {device}", DEVICE, cleared=True),)
    network = network_of(address)
    return (
        Limit(f"account {email}", ACCOUNT, cleared=False),
        Limit(f"account {email} from {network}", PAIR, cleared=True),
        Limit(f"address {network}", ADDRESS, cleared=False),
    )


def code_limits(account_id: str, address: str, device: str | None) -> tuple[Limit, ...]:
    """The limits that apply to a code. A correct one clears no failures of others: they may be those of somebody who
    knows the password."""
    if device is not None:
        return (Limit(f"code {account_id} on {device}", CODE_ON_DEVICE, cleared=True),)
    return (
        Limit(f"code {account_id}", CODE, cleared=False),
        Limit(f"address {network_of(address)}", ADDRESS, cleared=False),
    )


def wait(pace: Pace, failures: int, last_at: Ms | None, now: Ms) -> Ms:
    """How long the next attempt has to wait; 0 if it may be made now."""
    if last_at is None or failures < pace.free:
        return 0
    delay = min(pace.first << min(failures - pace.free, 30), pace.longest)
    return max(last_at + delay - now, 0)


def network_of(address: str) -> str:
    """The address; for IPv6 its /64, because one client usually has all addresses of it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
