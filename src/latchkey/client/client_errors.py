"""The errors of the client.

ClientError
├── Unreachable      no response: connection, timeout
│   └── Untrusted    the service's certificate has an unknown issuer, or is for another name
├── BadAnswer        a response that does not match the API's schema
├── UnusableId       an id that cannot be part of a URL
└── ApiError         any status except 2xx; `status` is the code
    ├── NotFound     404 of the service itself; a proxy's is a plain ApiError
    └── RateLimited  429; `retry_after` is how many seconds to wait
"""


class ClientError(Exception):
    """The service could not be asked, or did not respond as it should."""

    # None if there was no response.
    status: int | None = None


class Unreachable(ClientError):
    """The service did not respond."""


class Untrusted(Unreachable):
    """The certificate of the service cannot be trusted, so nothing was sent to it."""


class BadAnswer(ClientError):
    """The response does not match the API's schema."""


class UnusableId(ClientError):
    """The id has a special meaning in URLs (`.` and `..`), so it cannot be requested."""


class ApiError(ClientError):
    """The service responded with an error."""

    status: int

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{status}: {message}" if message else str(status))
        self.status = status
        # The service's own; empty if something between gave the response.
        self.message = message
        # Seconds, if the service said how long to wait.
        self.retry_after = retry_after


class NotFound(ApiError):
    """The requested object does not exist."""


class RateLimited(ApiError):
    """Too many requests with this key."""
