"""Which app user ids are acceptable, and which are anonymous."""

import re

MAX_LENGTH = 100

# Ids that only a bug produces: accepting one would merge unrelated users into one customer. And "$deleted": it
# stands for erased customers.
_WORDS = "no_user null none nil (null) NaN \\0 unidentified undefined unknown anonymous guest -1 0 [] {}"
BLOCKED = frozenset({*_WORDS.split(), "[object Object]", "$deleted", "\0", ""})
# Clients resolve these as path segments, however they are encoded: such a customer could never be read.
DIRECTIONS = frozenset({".", ".."})
_FORBIDDEN = re.compile("[\x00-\x1f\x7f/\ud800-\udfff]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ANONYMOUS = re.compile(r"\$RCAnonymousID:[0-9a-f]{32}")


def is_anonymous(app_user_id: str) -> bool:
    return _ANONYMOUS.fullmatch(app_user_id) is not None


def same_account(one: str, other: str) -> bool:
    """Whether both are the same UUID. Apple returns the account token of an app in lower case, Swift writes UUIDs in
    upper case."""
    return one.lower() == other.lower() and _UUID.fullmatch(one) is not None


def spellings(account_token: str) -> tuple[str, ...]:
    """The app user ids that an account token may stand for, the likeliest first."""
    if _UUID.fullmatch(account_token) is None:
        return (account_token,)
    return account_token, account_token.lower(), account_token.upper()


def is_digest(account_token: str) -> bool:
    """Whether an account token looks like the SHA-256 of an app user id, which the Android SDK sends to Google Play."""
    return _DIGEST.fullmatch(account_token) is not None


def problem_with(app_user_id: str) -> str | None:
    """Why this is not a valid app user id, worded for the caller; None if it is."""
    if not app_user_id or app_user_id.isspace():
        return "The app user id is empty."
    if len(app_user_id) > MAX_LENGTH:
        return f"The app user id has {len(app_user_id)} characters; at most {MAX_LENGTH} are allowed."
    if (found := _FORBIDDEN.search(app_user_id)) is not None:
        if found[0] == "/":
            return "An app user id cannot contain '/'."
        if found[0] >= "\ud800":
            return "An app user id cannot contain half of a character (a lone surrogate)."
        return "An app user id cannot contain control characters."
    if app_user_id in DIRECTIONS:
        return f"{app_user_id!r} is not accepted as an app user id: in a URL it is a direction, not a name."
    if app_user_id in BLOCKED:
        return (
            f"{app_user_id!r} is not accepted as an app user id: it is what a client sends by mistake when it has none."
        )
    return None
