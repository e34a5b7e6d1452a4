"""What can go wrong when the service is asked.

ClientError
├── Unreachable      no answer: connection, timeout
│   └── Untrusted    the service's certificate is signed by nobody we trust, or is for another name
├── BadAnswer        an answer that is not what the API promises
├── UnusableId       an id that no URL can carry
└── ApiError         any status but 2xx; `status` is the code
    ├── NotFound     404
    └── RateLimited  429; `retry_after` is how many seconds to wait
"""

from __future__ import annotations


class ClientError(Exception):
    """The service could not be asked, or did not answer as it should."""

    # None when there was no answer at all.
    status: int | None = None


class Unreachable(ClientError):
    """The service did not answer."""


class Untrusted(Unreachable):
    """The certificate at the service's address cannot be trusted, so nothing was sent to it."""


class BadAnswer(ClientError):
    """The service answered with something that is not the promised shape."""


class UnusableId(ClientError):
    """The id is one that URLs give another meaning (`.` and `..`), so it cannot be asked for."""


class ApiError(ClientError):
    """The service answered with an error."""

    status: int

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{status}: {message}" if message else str(status))
        self.status = status
        self.message = message
        # Seconds, where the service said how long to wait.
        self.retry_after = retry_after


class NotFound(ApiError):
    """The service does not know it."""


class RateLimited(ApiError):
    """Too many requests with this key."""
