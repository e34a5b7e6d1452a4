"""Why a notification was not sent.

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

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latchkey.push.push_notification import PushResult


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
