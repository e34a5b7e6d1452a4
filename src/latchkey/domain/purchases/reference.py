"""The ids by which V2 names a subscription or a purchase, and the store ids by which either can be found.

A V2 id is made of the store and the store's own id, so it needs no table: it stays the same for as long as the purchase
exists, whoever owns it. Callers must not take it apart.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Invoice, Period, Subscription
from latchkey.domain.stores.store import STORES

# `subscription`: a store's subscription, a prepaid plan, or a promotional grant. `purchase`: a one-time purchase.
Kind = Literal["subscription", "purchase"]

# Stores with prepaid plans.
PREPAID = frozenset(store.name for store in STORES.values() if store.prepaid_plans)

_PREFIXES: dict[Kind, str] = {"subscription": "sub_", "purchase": "purch_"}


def kind_of(bought: Subscription | Purchase) -> Kind | None:
    """None for a temporary grant: it stands in for a purchase that is not known yet, and has no V2 id."""
    if isinstance(bought, Subscription) or bought.kind is PurchaseKind.PROMOTIONAL or is_prepaid(bought):
        return "subscription"
    return "purchase" if bought.kind is PurchaseKind.ONE_TIME else None


def is_prepaid(purchase: Purchase) -> bool:
    """A prepaid plan does not renew, but is a subscription to its store, and to apps."""
    return purchase.kind is PurchaseKind.ONE_TIME and purchase.store in PREPAID and ":" in purchase.product_id


def v2_id(bought: Subscription | Purchase) -> str:
    kind = kind_of(bought)
    assert kind is not None, "a temporary grant has no id"
    return written(kind, bought.store, bought.id)


def written(kind: Kind, store: str, id: str) -> str:
    """`id` is the store's, or that of a grant."""
    return _PREFIXES[kind] + urlsafe_b64encode(f"{store}:{id}".encode()).rstrip(b"=").decode()


def parsed(text: str, kind: Kind) -> tuple[str, str] | None:
    """The store, and the id there. None if no purchase of the kind can have this id: only one spelling names it."""
    prefix = _PREFIXES[kind]
    if not text.startswith(prefix) or not text.isascii():
        return None
    packed = text[len(prefix) :]
    try:
        store, colon, id = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode().partition(":")
    except (Error, UnicodeDecodeError):
        return None
    # NUL: no id has it, and a database cannot look for it.
    usable = bool(colon and store and id) and "\0" not in store + id
    return (store, id) if usable and written(kind, store, id) == text else None


def possible_purchases(transaction_id: str) -> list[str]:
    """The ids of purchases that may contain this transaction. Some stores derive the id of a later period from the
    first one: they append one or two dots and a number."""
    shorter = transaction_id.rpartition(".")[0].rstrip(".")
    return [transaction_id, shorter] if shorter else [transaction_id]


def underivable_transactions(subscription: Subscription) -> frozenset[str]:
    """The ids of periods from which the id of their subscription cannot be derived. Storage indexes these."""
    return frozenset(
        period.id for period in subscription.periods if subscription.id not in possible_purchases(period.id)
    )


def has_transaction(bought: Subscription | Purchase, transaction_id: str) -> bool:
    """Whether this is its id in the store, or the id of one of its periods, past or present."""
    if bought.id == transaction_id:
        return True
    return isinstance(bought, Subscription) and any(period.id == transaction_id for period in bought.periods)


class Issued(Struct, frozen=True):
    invoice: Invoice
    store: str
    # What ran when it was issued.
    period: Period


def issued(subscriptions: Iterable[Subscription]) -> list[Issued]:
    """The invoices of a customer, by id."""
    found = [
        Issued(invoice, subscription.store, _period_of(subscription, invoice))
        for subscription in subscriptions
        for invoice in subscription.invoices
    ]
    return sorted(found, key=lambda one: one.invoice.id)


def _period_of(subscription: Subscription, invoice: Invoice) -> Period:
    begun = [period for period in subscription.periods if period.purchased_at <= invoice.issued_at]
    return begun[-1] if begun else subscription.periods[0]
