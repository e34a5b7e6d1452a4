"""What a page asks for, and what it learns, at each step of a checkout."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.stores.selling import HostedPage, PaymentForm, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a page asks for."""

    product_id: str
    app_user_id: str
    email: str | None = None
    locale: str | None = None
    # The lookup key of the offering that the page says it showed.
    offering: str | None = None
    # A change of a subscription that the customer has.
    changes_product: bool = False
    # A way to pay beside the checkout, such as a wallet's own sheet.
    flow: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    id: str
    page: HostedPage | PaymentForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a checkout stands."""

    standing: Standing
    expired: bool
    product_id: str
    # Once it was paid.
    transaction_id: str | None = None
    purchased_at: Ms | None = None
