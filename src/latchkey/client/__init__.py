"""The V1 and V2 client that an app's server uses."""

from latchkey.client.client import Client
from latchkey.client.errors import (
    ApiError,
    BadAnswer,
    ClientError,
    NotFound,
    RateLimited,
    Unreachable,
    Untrusted,
    UnusableId,
)
from latchkey.client.transport import Patience

__all__ = [
    "ApiError",
    "BadAnswer",
    "Client",
    "ClientError",
    "NotFound",
    "Patience",
    "RateLimited",
    "Unreachable",
    "Untrusted",
    "UnusableId",
]
