"""What a page asks for, and what it learns, at each step of a checkout; how often it may ask, and why it is
refused."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import CodedRefusal
from latchkey.engine.rate_limits import RecentCounts
from latchkey.stores.selling import CheckoutState
from latchkey.subjects.checkout.storage import Checkout


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutRequest:
    """With the names that the web SDK has for what its page sends."""

    product_id: str
    app_user_id: str
    email: str | None = None
    locale: str | None = None
    # The lookup key of the offering that the page says it showed; the page may send anything.
    presented_offering_identifier: Any = None
    # A change of a subscription that the customer has.
    product_change: Any = None
    # A way to pay beside the checkout, such as a wallet's own sheet.
    purchase_flow: str | None = None


@dataclass(frozen=True, slots=True)
class CheckoutProgress:
    checkout: Checkout
    state: CheckoutState
    expired: bool = False


# Somebody who changes their mind a few times.
PER_USER = 20
# Many buyers share an address behind a carrier's or an office's gateway.
PER_ADDRESS = 120
# The SDK asks once a second how a payment stands.
STATUS_PER_MINUTE = 90


class CheckoutLimit:
    def __init__(self) -> None:
        self._counts = RecentCounts()

    def takes(self, project_id: str, user: str, address: str, now: Ms) -> bool:
        """Count a request of this user, or of this checkout. False: one of the two limits is used up in this minute."""
        who = (address, project_id, user)
        return self._counts.within(now, (who, PER_USER), (address, PER_ADDRESS))

    def asks(self, id_hash: bytes, now: Ms) -> bool:
        """Count a question how a checkout stands. False: the provider was asked often enough in this minute."""
        return self._counts.count(id_hash, now) <= STATUS_PER_MINUTE


class CheckoutProblem(IntEnum):
    """Why a checkout does not go on, by the codes that the web SDK knows. Where nothing else is said, it takes the
    purchase for an invalid one."""

    # An operator has to act: the app or the product is not set up for it. The log says what is wrong.
    CANNOT_SELL = 7000
    INVALID_EMAIL = 7012
    HAS_ALREADY = 7772
    NOT_FOR_SALE = 7814
    # This app has no such checkout, or it has expired.
    NO_SUCH_CHECKOUT = 7877
    # The checkout cannot be paid in this way, or not any more.
    CANNOT_COMPLETE = 7878
    # The shortcut that the page asked for is not there; the SDK then uses the ordinary checkout.
    NOT_IN_THIS_WAY = 8172


class CheckoutRefusal(CodedRefusal):
    """By a `CheckoutProblem`."""
