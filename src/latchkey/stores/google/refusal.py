"""What a refusal of the Android Publisher API means: nothing of this form, no right to ask, or too many questions."""

import re

import msgspec

from latchkey.stores.errors import ActionRefused, CredentialsRefused, NoAnswer, StoreDown, StoreError
from latchkey.stores.http import StoreResponse

_WORD = re.compile(r"[A-Za-z_]{1,60}")
_QUOTA = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded", "RESOURCE_EXHAUSTED"}
)
_UNKNOWN_APP = frozenset({"applicationNotFound", "packageNotFound", "androidPackageNotFound"})


class Gone(StoreError):
    """Google had this purchase or order, and no longer tells of it."""


class UnknownPurchase(StoreError):
    """Google is certain that there is no such purchase or order."""


class _Error(msgspec.Struct):
    reason: str = ""


class _Detail(msgspec.Struct):
    status: str = ""
    errors: list[_Error] = []


class _Body(msgspec.Struct):
    error: _Detail


def reason_word(text: str) -> str:
    """A reason that may be shown: one word, no text of a stranger."""
    return text if _WORD.fullmatch(text) else ""


def refusal(answer: StoreResponse) -> StoreError:
    """What an answer that is not 200 means. Only an error in Google's own format counts as Google's."""
    said, status = _said(answer), answer.status
    if status == 401:
        return CredentialsRefused("Google refuses the access token of the service account (401).")
    if said is None:
        return StoreDown(f"Google answered {status} in a form that the Android Publisher API does not use.")
    words, reason = _words(said), _reason(said)
    if words & _QUOTA:
        return NoAnswer(f"Google's quota is used up ({reason}).")
    if status == 403:
        return CredentialsRefused(f"Google refuses the service account: it lacks a permission ({reason}).")
    if status == 404 and words & _UNKNOWN_APP:
        return CredentialsRefused("Google knows no app with this package_name.")
    if status == 410:
        return Gone("Google no longer tells of this purchase.")
    if status == 404 or (status == 400 and words & {"invalid", "badRequest", "INVALID_ARGUMENT"}):
        return UnknownPurchase("Google knows no such purchase.")
    return StoreDown(f"Google answered {status} ({reason}).")


def refusal_of_action(answer: StoreResponse) -> StoreError:
    """The same for something that Google was asked to do: whatever Google refuses in its own form was not done."""
    refused, said = refusal(answer), _said(answer)
    if isinstance(refused, CredentialsRefused) or said is None or _words(said) & _QUOTA:
        return refused
    if isinstance(refused, Gone):
        return ActionRefused("Google no longer keeps this purchase: it ended more than 60 days ago.")
    return ActionRefused(f"Google does not do this for the purchase as it stands ({_reason(said) or answer.status}).")


def _said(answer: StoreResponse) -> _Detail | None:
    try:
        return msgspec.json.decode(answer.body, type=_Body).error
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _words(said: _Detail) -> set[str]:
    return {said.status, *(one.reason for one in said.errors)} - {""}


def _reason(said: _Detail) -> str:
    return next((word for one in said.errors if (word := reason_word(one.reason))), reason_word(said.status))
