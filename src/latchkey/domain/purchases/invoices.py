"""The invoices that stores have issued to a customer, each with the period that it is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from latchkey.domain.purchases.subscription import Invoice, Period, Subscription


@dataclass(frozen=True, slots=True)
class Issued:
    invoice: Invoice
    store: str
    # What ran when it was issued.
    period: Period


def issued(subscriptions: Iterable[Subscription]) -> list[Issued]:
    """By id."""
    found = [Issued(invoice, one.store, _period_of(one, invoice)) for one in subscriptions for invoice in one.invoices]
    return sorted(found, key=lambda one: one.invoice.id)


def _period_of(subscription: Subscription, invoice: Invoice) -> Period:
    begun = [period for period in subscription.periods if period.purchased_at <= invoice.issued_at]
    return begun[-1] if begun else subscription.periods[0]
