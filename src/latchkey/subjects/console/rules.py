"""What a member may do from the console: what the pages allow them."""

from collections.abc import Collection

from latchkey.subjects.accounts.rules import Permission


def needed(method: str, route: str, action: str | None, grants: Collection[str]) -> Permission:
    """The permission that an operation needs. `action` is its name in the audit log, if it has one; `grants` are the
    actions that pages let support do. V1 is made for apps and has no pages."""
    if not route.startswith("/v2/"):
        return Permission.MANAGE
    if method == "GET":
        return Permission.READ
    return Permission.GRANT if action in grants else Permission.MANAGE


def scopes(permission: Permission, *, manages: bool) -> frozenset[str]:
    """Like those of a key. Some reads show more to a key that may write, so a member who only reads gets no more."""
    return frozenset({"read", "write"}) if manages or permission is not Permission.READ else frozenset({"read"})
