"""The V1 and V2 client that an app's server uses.

The names in `__all__` are public, and keep working until a release whose notes say otherwise. Everything else in this
package is private and may change in any release.
"""

from latchkey.client.client import Client
from latchkey.client.client_errors import (
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
from latchkey.wire.event import Event
from latchkey.wire.v1 import SubscriberResponse
from latchkey.wire.v2 import ActiveEntitlement, Attribute, Customer, Page

__all__ = [
    "ActiveEntitlement",
    "ApiError",
    "Attribute",
    "BadAnswer",
    "Client",
    "ClientError",
    "Customer",
    "Event",
    "NotFound",
    "Page",
    "Patience",
    "RateLimited",
    "SubscriberResponse",
    "Unreachable",
    "Untrusted",
    "UnusableId",
]
