"""Dashboard accounts: roles and their permissions, and the rules for e-mail addresses and passwords."""

from __future__ import annotations

import re
from enum import StrEnum

from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.refusal import Invalid


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
_EMAIL = re.compile(r"[^@\s\x00-\x1f<>\"',;:\\()\[\]]{1,64}@[^@\s\x00-\x1f<>\"',;:\\()\[\]]{1,190}")


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
