"""A notification, the result of sending it, and why it was not sent.

PushError
├── PushNotSentError              a retry may help; `retry_after` is what the provider asked for
│   ├── UnreachableError          no response: down, too slow, cut off, not trusted
│   ├── BusyError                 429
│   ├── BrokenError               5xx
│   └── NonsenseError             a response that is not in the provider's format
└── RefusedError                  a retry would be refused again
    ├── KeyRefusedError           401 or 403
    └── NotificationRefusedError  400 and every other status; `reasons` are the provider's

No message ever contains the REST API key, even if the provider repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PushNotification:
    """Texts by language code. Providers use `en` for languages without a text."""

    contents: Mapping[str, str]
    headings: Mapping[str, str]

    def __post_init__(self) -> None:
        if not any(text.strip() for text in self.contents.values()):
            raise ValueError("a notification needs a text in at least one language")


@dataclass(frozen=True, slots=True)
class PushResult:
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
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnreachableError(PushNotSentError):
    pass


class BusyError(PushNotSentError):
    pass


class BrokenError(PushNotSentError):
    pass


class NonsenseError(PushNotSentError):
    pass


class RefusedError(PushError):
    def __init__(self, message: str, *, status: int, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reasons = tuple(reasons)


class KeyRefusedError(RefusedError):
    pass


class NotificationRefusedError(RefusedError):
    pass
