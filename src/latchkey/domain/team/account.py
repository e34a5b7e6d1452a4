"""Who may do what in the dashboard: roles, what each is allowed, and what an e-mail address and a password must be."""

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
    # See everything in a project but secrets.
    READ = "read"
    # Give and take back access by hand.
    GRANT = "grant"
    # Change what is configured, and what customers have bought.
    MANAGE = "manage"
    # Decide who else may come in.
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

# A session ends when nobody used it for so long, and at the latest after so long.
IDLE_FOR: Ms = 12 * HOUR
LIVES_FOR: Ms = 14 * DAY
INVITATION_LASTS: Ms = 7 * DAY

SHORTEST_PASSWORD = 10
# Far beyond what anybody types; hashing a megabyte would be a way to keep us busy.
LONGEST_PASSWORD = 500
_EMAIL = re.compile(r"[^@\s\x00-\x1f<>\"',;:\\()\[\]]{1,64}@[^@\s\x00-\x1f<>\"',;:\\()\[\]]{1,190}")


def may(role: Role, permission: Permission) -> bool:
    return permission in ALLOWED[role]


def checked_email(text: str) -> str:
    """The address as it is kept: one person, one spelling."""
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
    """Whether a session that was begun and last used at these moments is over."""
    return now >= created_at + LIVES_FOR or now >= last_seen_at + IDLE_FOR
