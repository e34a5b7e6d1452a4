"""A notification, the result of sending it, and why it was not sent.

PushError
├── PushNotSentError              a retry may help: no response, a 5xx, or one that is not in the provider's format;
│   │                             `retry_after` is what the provider asked for
│   └── BusyError                 429
└── RefusedError                  refused until somebody acts: the key with 401 or 403, or what is at the push API URL
    │                             is not the provider (a redirect, 404, every other status)
    └── NotificationRefusedError  for good: 400, 413 and 422; `reasons` are the provider's

No message ever contains the REST API key, even if the provider repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec


class PushNotification(msgspec.Struct, frozen=True):
    """Texts by language code. Providers use `en` for languages without a text."""

    contents: Mapping[str, str]
    headings: Mapping[str, str]

    def __post_init__(self) -> None:
        if not any(text.strip() for text in self.contents.values()):
            raise ValueError("a notification needs a text in at least one language")


class PushResult(msgspec.Struct, frozen=True):
    """What the provider accepted. One notification may take several calls, because a call takes 2,000 ids.

    `invalid_player_ids` do not exist and can be deleted. `unsubscribed_player_ids` were in a call that reached nobody:
    they may exist with notifications turned off, so they are worth another attempt later.
    """

    notification_ids: tuple[str, ...] = ()
    invalid_player_ids: tuple[str, ...] = ()
    unsubscribed_player_ids: tuple[str, ...] = ()

    @property
    def anybody(self) -> bool:
        return bool(self.notification_ids)

    @classmethod
    def combined(cls, parts: Iterable[PushResult]) -> PushResult:
        parts = tuple(parts)
        return cls(
            tuple(id for part in parts for id in part.notification_ids),
            tuple(id for part in parts for id in part.invalid_player_ids),
            tuple(id for part in parts for id in part.unsubscribed_player_ids),
        )


class PushError(Exception):
    """The notification did not reach everybody. `so_far` is what was accepted before."""

    so_far: PushResult | None = None


class PushNotSentError(PushError):
    # Seconds, if the provider said how long to wait.
    retry_after: float | None = None


class BusyError(PushNotSentError):
    pass


class RefusedError(PushError):
    def __init__(self, message: str, *, status: int, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reasons = tuple(reasons)


class NotificationRefusedError(RefusedError):
    pass


# The provider's error if none of the ids can be reached; with a status of 200, or 400 in older versions.
_NOBODY = "not subscribed"
_INVALID = ("invalid_player_ids", "invalid_subscription_ids")
_REASONS = 5
_REASON_LENGTH = 200


def interpret(status: int, body: bytes, asked: Sequence[str]) -> PushResult | PushError:
    if status == 429:
        return BusyError("The push provider is busy (429).")
    if status >= 500 or status == 408:
        return PushNotSentError(f"The push provider failed ({status}).")
    response = _decoded(body)
    errors = response.get("errors") if isinstance(response, dict) else None
    if 200 <= status < 300 or status == 400:
        sent = _sent(response, errors, asked)
        if sent is not None:
            return sent
    if 200 <= status < 300:
        return PushNotSentError(f"The push provider answered {status} with something that is not its protocol.")
    reasons = tuple(_words(errors))[:_REASONS]
    shown = f": {'; '.join(reasons)}" if reasons else "."
    if status in {401, 403}:
        return RefusedError(f"The push provider refused the REST API key ({status}){shown}", status=status)
    if status in {400, 413, 422}:
        return NotificationRefusedError(
            f"The push provider refused the notification ({status}){shown}", status=status, reasons=reasons
        )
    return RefusedError(f"The push provider answered {status}; is the push API URL right?", status=status)


def _sent(response: Any, errors: Any, asked: Sequence[str]) -> PushResult | None:
    if not isinstance(response, dict):
        return None
    notification_id = response.get("id")
    named = set(_invalid(errors))
    # Only requested ids: a response must not be able to remove other devices.
    invalid = tuple(id for id in asked if id in named)
    if isinstance(notification_id, str) and notification_id:
        return PushResult((notification_id,), invalid)
    if invalid or any(_NOBODY in words for words in _words(errors)):
        return PushResult((), invalid, tuple(id for id in asked if id not in named))
    return None


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None


def _invalid(errors: Any) -> Iterator[str]:
    """Unknown ids are in an object; in mixed responses that object is inside the list."""
    for part in errors if isinstance(errors, list) else [errors]:
        if isinstance(part, dict):
            for name in _INVALID:
                found = part.get(name)
                if isinstance(found, list):
                    yield from (id for id in found if isinstance(id, str))


def _words(errors: Any) -> Iterator[str]:
    for part in errors if isinstance(errors, list) else [errors]:
        if isinstance(part, str):
            yield "".join(sign if sign.isprintable() else " " for sign in part[:_REASON_LENGTH])


class RetryPolicy(msgspec.Struct, frozen=True):
    """All times in seconds. `deadline` covers one call with all its retries."""

    tries: int = 5
    timeout: float = 10.0
    first_wait: float = 0.5
    longest_wait: float = 15.0
    # The usual wait for a 429 that does not say how long.
    rate_limit_wait: float = 60.0
    deadline: float = 120.0

    def wait(self, *, tried: int, spent: float, chance: float, asked: float | None = None) -> float | None:
        """How long to wait after the `tried`-th failure; None to give up.

        `chance` from 0 to 1 is jitter for callers that failed at the same time: half of the wait is fixed.
        `asked` is what the provider wants; a shorter wait would only fail again.
        """
        if tried >= self.tries:
            return None
        wait = min(self.first_wait * 2 ** (tried - 1), self.longest_wait) * (0.5 + chance / 2)
        if asked is not None:
            wait = max(wait, asked)
        return wait if spent + wait < self.deadline else None
