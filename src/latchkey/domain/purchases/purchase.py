"""One-time access: a one-time purchase, a promotional grant, or a temporary grant while a store cannot be reached; and
the terms of a payment: exchange rate, tax and commission, as known when it was first seen."""

from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.instants import HOUR, Ms
from latchkey.domain.money.amounts import Price

USD = "USD"


class Rate(Struct, frozen=True):
    """USD for one unit of the payment's currency."""

    # A decimal number as text, because a binary fraction could not be repeated exactly.
    usd: str
    # The day that the rate is of, as YYYY-MM-DD. It may be a few days before the payment: not every day has rates.
    day: str


class Terms(Struct, frozen=True):
    # None for a payment in USD, and where no rate was known.
    rate: Rate | None = None
    # Shares of the price from 0 to 1. None where nothing is known.
    tax: float | None = None
    commission: float | None = None


def usd_micros(price: Price, terms: Terms | None) -> int | None:
    """The payment in millionths of a US dollar. None where the price or the rate is not known."""
    return part_in_usd(price.micros, price, terms)


def part_in_usd(micros: int, price: Price, terms: Terms | None) -> int | None:
    """The same for a part of the payment, such as a partial refund."""
    if not price.known:
        return None
    if price.currency == USD or not micros:
        return micros
    if terms is None or terms.rate is None:
        return None
    return int((micros * Decimal(terms.rate.usd)).to_integral_value(ROUND_HALF_EVEN))


# How long a temporary grant may last while a store cannot be reached.
TEMPORARY_ACCESS: Ms = 24 * HOUR


class Environment(StrEnum):
    PRODUCTION = "PRODUCTION"
    SANDBOX = "SANDBOX"


class Ownership(StrEnum):
    PURCHASED = "PURCHASED"
    FAMILY_SHARED = "FAMILY_SHARED"


class Reason(StrEnum):
    """Why a renewal was turned off, or why access ended."""

    UNSUBSCRIBE = "UNSUBSCRIBE"
    BILLING_ERROR = "BILLING_ERROR"
    DEVELOPER_INITIATED = "DEVELOPER_INITIATED"
    PRICE_INCREASE = "PRICE_INCREASE"
    CUSTOMER_SUPPORT = "CUSTOMER_SUPPORT"
    SUBSCRIPTION_PAUSED = "SUBSCRIPTION_PAUSED"
    UNKNOWN = "UNKNOWN"


class MoneyBack(Struct, frozen=True, order=True):
    """A refund, or the reversal of one. They only accumulate; the latest one counts."""

    at: Ms
    # Orders several within one millisecond.
    number: int = 0
    reversal: bool = False


def refunded_at(facts: tuple[MoneyBack, ...]) -> Ms | None:
    """When the purchase was refunded, unless that was reversed. `facts` are sorted by time."""
    return facts[-1].at if facts and not facts[-1].reversal else None


def merge_facts(one: tuple[MoneyBack, ...], other: tuple[MoneyBack, ...]) -> tuple[MoneyBack, ...]:
    return tuple(sorted({*one, *other})) if one != other else one


class PartBack(Struct, frozen=True, order=True):
    """How much of a price had been given back in part by then: millionths, all parts together."""

    at: Ms
    micros: int


def merge_parts(*told: PartBack) -> tuple[PartBack, ...]:
    """The first moment at which each amount was given back. More reports, in any order and any number of times, give
    the same result."""
    found: list[PartBack] = []
    for back in sorted(told, key=lambda one: (one.at, -one.micros)):
        if back.micros > (found[-1].micros if found else 0):
            found.append(back)
    return tuple(found)


def same_offering(one: str | None, other: str | None) -> str | None:
    """Stores do not tell the offering, and their silence takes nothing away. If two apps say different things of one
    transaction, the order in which they did must not matter."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class Expired(Struct, frozen=True):
    """Access ended, and the event was emitted."""

    transaction_id: str
    at: Ms
    reason: Reason


class PurchaseKind(StrEnum):
    ONE_TIME = "one_time"
    PROMOTIONAL = "promotional"
    TEMPORARY = "temporary"


class Purchase(Struct, frozen=True, kw_only=True):
    kind: PurchaseKind
    store: str
    id: str
    product_id: str
    environment: Environment
    purchased_at: Ms
    price: Price
    app_id: str | None = None
    ends_at: Ms | None = None
    # A promotional grant names its entitlement itself; for others the catalog does.
    entitlement_id: str | None = None
    ownership: Ownership = Ownership.PURCHASED
    money_back: tuple[MoneyBack, ...] = ()
    # Millionths of the price that were given back in part. The purchase stays; a full refund is in `money_back`.
    given_back: int = 0
    # Where it was sold, as the store says: ISO 3166, two letters.
    country: str | None = None
    terms: Terms | None = None
    revoked_at: Ms | None = None
    # It ends without an event where another purchase takes its place: a temporary grant when the real purchase arrives,
    # prepaid time when more is bought.
    resolved_at: Ms | None = None
    # Virtual currency credited for this purchase and not debited since. Latchkey keeps this, not the store.
    credited: int = 0
    # In which currency. None: not settled yet, or imported.
    credited_code: str | None = None
    # What is credited when it is paid: what a refund has debited, until that is reversed.
    credit_owed: int = 0
    expired: Expired | None = None
    # When the store last told of it. None where there is no store, or it does not say.
    told_at: Ms | None = None
    # The lookup key of the offering it was bought from, as the app says; see `presented`.
    offering: str | None = None
    # The offer code that the customer redeemed, as the store names it.
    offer_code: str | None = None
    # When parts of the price were given back: `given_back` is the amount now, these are the amounts since when.
    parts_back: tuple[PartBack, ...] = ()

    @property
    def order(self) -> tuple[Ms, str, str]:
        """Includes the store, because an id is only unique within its store."""
        return self.purchased_at, self.id, self.store

    @property
    def refunded_at(self) -> Ms | None:
        return refunded_at(self.money_back)

    @property
    def parts_told(self) -> tuple[PartBack, ...]:
        """The partial refunds, each since when it is known."""
        if not self.given_back:
            return self.parts_back
        at = max(self.told_at or 0, self.purchased_at)
        return merge_parts(*self.parts_back, PartBack(at, self.given_back))

    @property
    def access_ends_at(self) -> Ms | None:
        ends = [at for at in (self.ends_at, self.refunded_at, self.revoked_at, self.resolved_at) if at is not None]
        return min(ends, default=None)


def observe_purchase(before: Purchase | None, seen: Purchase) -> Purchase:
    """Merge a store's report of a one-time purchase: refunds accumulate, and the newest report says whether it is
    revoked, or goes on in another purchase, and how much was given back in part. A price, country,
    offering or offer code that was not known is added. Nothing else changes."""
    parts = seen.parts_told if before is None else merge_parts(*before.parts_told, *seen.parts_told)
    if before is None:
        return seen if parts == seen.parts_back else replace(seen, parts_back=parts)
    merged = merge_facts(before.money_back, seen.money_back)
    told_at = before.told_at if seen.told_at is None else max(seen.told_at, before.told_at or 0)
    newer = seen.told_at is not None and seen.told_at > (before.told_at or 0)
    revoked_at = seen.revoked_at if newer else before.revoked_at
    resolved_at = seen.resolved_at if newer else before.resolved_at
    given_back = seen.given_back if newer else before.given_back
    country = before.country if before.country is not None else seen.country
    price = before.price if before.price.known else seen.price
    offering = same_offering(before.offering, seen.offering)
    learned = country != before.country or price != before.price or offering != before.offering
    offer_code = before.offer_code if before.offer_code is not None else seen.offer_code
    learned = learned or parts != before.parts_back or offer_code != before.offer_code
    if merged == before.money_back and told_at == before.told_at and not learned:
        return before
    ended_by = (before.money_back, before.revoked_at, before.resolved_at)
    unchanged = (merged, revoked_at, resolved_at) == ended_by
    return replace(
        before,
        price=price,
        money_back=merged,
        given_back=given_back,
        parts_back=parts,
        country=country,
        revoked_at=revoked_at,
        resolved_at=resolved_at,
        expired=before.expired if unchanged else None,
        told_at=told_at,
        offering=offering,
        offer_code=offer_code,
    )


def tick_purchase(purchase: Purchase, now: Ms) -> Purchase:
    """Mark the end of access after it passed or was revoked. If a refund ended access, there is no
    expiration event."""
    due = purchase_due_at(purchase)
    if due is None or due > now:
        return purchase
    reason = Reason.DEVELOPER_INITIATED if purchase.revoked_at is not None else Reason.UNKNOWN
    return replace(purchase, expired=Expired(purchase.id, due, reason))


def purchase_due_at(purchase: Purchase) -> Ms | None:
    """When `tick_purchase` will next change this purchase, if it ever will."""
    if purchase.expired is not None or purchase.resolved_at is not None:
        return None
    refunded = purchase.refunded_at
    if refunded is not None and (purchase.ends_at is None or refunded < purchase.ends_at):
        return None
    return purchase.access_ends_at
