"""Dashboard accounts: roles and permissions, addresses and passwords, sign-in, second factor, OpenID."""

import hmac
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.refusal import Invalid, Refusal


class Account(Struct, frozen=True):
    id: str
    email: str
    name: str
    has_password: bool
    openid: str | None
    created_at: Ms
    # Whether a code is asked for after the password.
    has_second_factor: bool = False
    # Whether it may see what concerns the whole deployment.
    is_operator: bool = False

    @property
    def shown(self) -> str:
        return self.name or self.email


class Role(StrEnum):
    OWNER = "owner"
    DEVELOPER = "developer"
    SUPPORT = "support"
    VIEWER = "viewer"


class Permission(StrEnum):
    # See everything in a project except secrets.
    READ = "read"
    # Grant access by hand, and revoke it.
    GRANT = "grant"
    # Change the configuration and customers' purchases.
    MANAGE = "manage"
    # Manage the team.
    OWN = "own"


ALLOWED: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.SUPPORT: frozenset({Permission.READ, Permission.GRANT}),
    Role.DEVELOPER: frozenset({Permission.READ, Permission.GRANT, Permission.MANAGE}),
    Role.OWNER: frozenset(Permission),
}
EXPLAINED: dict[Role, str] = {
    Role.OWNER: "Everything, the team included.",
    Role.DEVELOPER: "Everything but the team.",
    Role.SUPPORT: "Reads everything, and grants access to customers and takes it back.",
    Role.VIEWER: "Reads everything, changes nothing.",
}

# A session ends after this long without use, and after this long in any case.
IDLE_FOR: Ms = 12 * HOUR
LIVES_FOR: Ms = 14 * DAY
INVITATION_LASTS: Ms = 7 * DAY

SHORTEST_PASSWORD = 10
# Far longer than any real password. Without a limit, hashing megabytes would be a denial of service.
LONGEST_PASSWORD = 500
# An encoded word of RFC 2047 begins with =? and may stand for a line break.
_EMAIL = re.compile(r"(?!.*=\?)[^@\s\x00-\x1f<>\"',;:\\()\[\]]{1,64}@[^@\s\x00-\x1f<>\"',;:\\()\[\]]{1,190}")


def may(role: Role, permission: Permission) -> bool:
    return permission in ALLOWED[role]


def checked_email(text: str) -> str:
    """The address in lower case, so that one person has one spelling."""
    email = text.strip().lower()
    if not _EMAIL.fullmatch(email):
        raise Invalid("That is not an e-mail address.", param="email")
    return email


def checked_password(text: str) -> str:
    if len(text) < SHORTEST_PASSWORD:
        raise Invalid(f"A password has at least {SHORTEST_PASSWORD} characters.", param="password")
    if len(text) > LONGEST_PASSWORD:
        raise Invalid(f"A password has at most {LONGEST_PASSWORD} characters.", param="password")
    return text


def checked_role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise Invalid(f"A role is one of {', '.join(Role)}.", param="role") from None


def is_over(created_at: Ms, last_seen_at: Ms, now: Ms) -> bool:
    """Whether a session with these timestamps has ended."""
    return now >= created_at + LIVES_FOR or now >= last_seen_at + IDLE_FOR


class Member(Struct, frozen=True):
    account: Account
    role: Role
    since: Ms
    last_seen_at: Ms | None


class Pace(Struct, frozen=True):
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


class Limit(Struct, frozen=True):
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


# How far the provider's clock and ours may be apart.
SKEW: Ms = 1 * MINUTE
# From the redirect to the provider until the return.
LASTS: Ms = 10 * MINUTE


class NotBelieved(Refusal):
    """The provider's response does not match our request, or cannot be trusted."""


class NotKnown(Refusal):
    """The provider knows the user, but we have no account for them, or the e-mail address is not verified."""


class Identity(Struct, frozen=True):
    issuer: str
    subject: str
    # None if the provider did not verify it.
    email: str | None

    @property
    def key(self) -> str:
        """How an account stores it."""
        return f"{self.issuer} {self.subject}"


def identity_of(claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, now: Ms) -> Identity:
    """The identity in the claims of a verified token."""
    if claims.get("iss") != issuer:
        raise NotBelieved("The token was issued by somebody else.")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences:
        raise NotBelieved("The token was issued for another application.")
    # A token for several applications must name the one that requested it.
    if claims.get("azp", None if len(audiences) > 1 else client_id) != client_id:
        raise NotBelieved("The token was issued for another application.")
    if _instant(claims, "exp") + SKEW <= now:
        raise NotBelieved("The token has expired.")
    if max(_instant(claims, "iat"), _instant(claims, "nbf", 0)) - SKEW > now:
        raise NotBelieved("The token is from the future. Is the clock of this machine right?")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
        raise NotBelieved("The token belongs to another sign-in.")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= 255:
        raise NotBelieved("The token names nobody.")
    email, verified = claims.get("email"), claims.get("email_verified")
    # Some providers send "true" as text.
    vouched = verified is True or verified == "true"
    return Identity(issuer, subject, email if vouched and isinstance(email, str) else None)


def _instant(claims: Mapping[str, Any], name: str, default: int | None = None) -> Ms:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        raise NotBelieved("The token does not say from when to when it holds.")
    return int(value * 1000)


# What every authenticator app can do: SHA-1, six digits, 30 seconds. Not all can do more.
DIGITS = 6
STEP: Ms = 30 * SECOND
# A clock that is wrong by one step still works.
DRIFT = 1
SECRET_BYTES = 20
RECOVERY_CODES = 10
# 16 letters of 32: 80 bits, so a fast hash of a code cannot be reversed.
RECOVERY_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
RECOVERY_LENGTH = 16
# How long somebody may take to enter the code after the password.
HALF_LASTS: Ms = 10 * MINUTE
ISSUER = "Latchkey"

_DIGITS = re.compile(rf"[0-9]{{{DIGITS}}}")
_RECOVERY = re.compile(rf"[{RECOVERY_LETTERS}]{{{RECOVERY_LENGTH}}}")


def steps_at(now: Ms) -> tuple[int, ...]:
    """The time steps whose codes count now."""
    step = now // STEP
    return tuple(range(max(step - DRIFT, 0), step + DRIFT + 1))


def as_code(text: str) -> str | None:
    """The digits of a code as somebody typed it, perhaps with spaces; None if it is none."""
    plain = re.sub(r"[\s-]", "", text[:100])
    return plain if _DIGITS.fullmatch(plain) else None


def as_recovery_code(text: str) -> str | None:
    """A recovery code as somebody typed it, without dashes and in lower case; None if it is none."""
    plain = re.sub(r"[\s-]", "", text[:100]).lower()
    return plain if _RECOVERY.fullmatch(plain) else None


def shown_recovery_code(code: str) -> str:
    return "-".join(code[start : start + 4] for start in range(0, len(code), 4))


def shown_secret(secret: str) -> str:
    return " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))


def app_address(secret: str, email: str) -> str:
    """What the QR code says, for authenticator apps. `secret` is in base32."""
    label = f"{ISSUER}:{email}"
    return f"otpauth://totp/{quote(label, safe='')}?{urlencode({'secret': secret, 'issuer': ISSUER})}"


@lru_cache(maxsize=4096)
def client_address(peer: str | None, forwarded_for: str | None, *, behind_proxy: bool) -> str:
    """The address of the connection; behind a proxy, the one that the nearest proxy appended to the list."""
    found = peer or ""
    if behind_proxy and forwarded_for:
        found = _without_port(forwarded_for.rpartition(",")[2].strip())
    try:
        return str(ip_address(found))
    except ValueError:
        return "unknown"


def _without_port(word: str) -> str:
    """Some proxies write the client's port too: 203.0.113.7:5555 or [2001:db8::1]:443."""
    if word.startswith("["):
        return word[1:].partition("]")[0]
    return word.partition(":")[0] if word.count(":") == 1 else word


def network_of(address: str) -> str:
    """Who counts as one address for a limit: an IPv6 client chooses freely among the addresses of its /64."""
    return _network(address, 32, 64).removesuffix("/32")


def roughly(address: str) -> str:
    """An address cut to its network, for a log: that of a phone belongs to a person."""
    return _network(address, 24, 48)


@lru_cache(maxsize=8192)
def _network(address: str, length: int, length_of_ipv6: int) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        parsed, length = (parsed.ipv4_mapped, length) if parsed.ipv4_mapped else (parsed, length_of_ipv6)
    return str(ip_network((parsed, length), strict=False))


class Membership(Struct, frozen=True):
    """A project that an account belongs to."""

    project_id: str
    name: str
    role: Role
