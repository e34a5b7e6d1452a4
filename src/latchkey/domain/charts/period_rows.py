"""What the charts keep of a purchase: one row for each of its periods, or one for a one-time purchase.

A row says what is known of its period alone. What follows from several rows (when access began and ended, who came
back, which payment was a customer's first) is computed when charts are drawn, by SQL.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from msgspec import Struct, json
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.period_amounts import given_back, money_of, monthly, own_length, sold_length
from latchkey.domain.customers.customer import Customer
from latchkey.domain.events.customer_event import Event, EventType
from latchkey.domain.instants import Duration, Ms, format_duration
from latchkey.domain.purchases.presented import offering_of
from latchkey.domain.purchases.purchase import Environment, Ownership, Purchase, PurchaseKind, usd_micros
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType, Subscription

ONE_TIME = "one_time"
# Shared by the family: somebody else paid, and is counted. It still says when the customer was first seen.
SHARED = "shared"

# It is no longer among the customer's purchases.
GONE = "gone"

# How the newest period of a subscription stands.
GOES_ON, FAILED, EXPIRED, CUT_SHORT, PAUSED = 1, 2, 4, 8, 16


class PeriodRow(Struct, frozen=True, omit_defaults=True):
    # The customer's key, or a negative number that stands for a new customer.
    who: int
    # Pseudonyms: whoever is erased leaves no store's id behind. Hexadecimal; and 0 for what has no periods.
    purchase: str
    period: int
    # Orders the periods of a purchase.
    place: int
    # ONE_TIME, SHARED, or the type of the period.
    type: str
    purchased_at: Ms
    starts_at: Ms
    product: str
    store: str
    sandbox: bool = False
    cause: str | None = None
    duration: str | None = None
    country: str | None = None
    offering: str | None = None
    ends_at: Ms | None = None
    # Of the newest period the end of a grace period too.
    access_ends_at: Ms | None = None
    refunded_at: Ms | None = None
    # None where the store does not say what was paid.
    currency: str | None = None
    micros: int = 0
    # None where no exchange rate is known.
    usd: int | None = None
    # What of it falls on a month. Of a period that cost nothing: the whole price of its product, which is due next.
    monthly_micros: int = 0
    monthly_usd: int | None = None
    tax: float | None = None
    commission: float | None = None
    # As `given_back` says.
    back: tuple[tuple[int, ...], ...] | None = None
    # Of the newest period only: how it stands, and since when.
    standing: int | None = None
    told_at: Ms | None = None
    offer_code: str | None = None


class FailedRenewal(Struct, frozen=True):
    """A renewal that failed, as the event says. The state of a subscription knows only of its newest period."""

    purchase: str
    period: int
    at: Ms
    grace_ends_at: Ms | None = None


def enrollments_of(customer: Customer) -> str | None:
    """The experiments that a customer is enrolled in, as the SQL in subjects/charts/storage/facts reads them."""
    found = [
        {"variant": f"{enrollment.experiment_id}={enrollment.variant_id}", "moment": enrollment.enrolled_at}
        for enrollment in customer.enrollments
    ]
    return json.encode(found).decode() if found else None


def attributes_of(customer: Customer, chosen: Sequence[str]) -> str | None:
    """Those that the project has chosen for charts."""
    known = customer.attributes
    found = sorted(f"{name}={known[name].value}".replace("\x1f", " ") for name in chosen if name in known)
    return "\x1f".join(found) or None


def failure(event: Event) -> FailedRenewal | None:
    """What a BILLING_ISSUE event says. All others say nothing here."""
    if event.type is not EventType.BILLING_ISSUE:
        return None
    assert event.transaction_id is not None, "it is about a period"
    return FailedRenewal(
        purchase_pseudonym(event.store or "", event.original_transaction_id or ""),
        period_pseudonym(event.transaction_id),
        event.at,
        event.grace_period_expires_at,
    )


def purchase_pseudonym(store: str, id: str) -> str:
    return blake2b(f"{store}\0{id}".encode(), digest_size=16).hexdigest()


def period_pseudonym(id: str) -> int:
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), signed=True)


def changed_rows(who: int, before: Customer | None, after: Customer, catalog: Catalog) -> Iterator[PeriodRow]:
    """The rows that a change has made, or made different. A row depends on its own period, on those before it and, if
    it is the newest, on the status; so rows of periods that are the same as before are the same too, but for the one
    before the first that is not."""
    known = {} if before is None else {(one.store, one.id): one for one in before.subscriptions}
    for subscription in after.subscriptions:
        old = known.get((subscription.store, subscription.id))
        if subscription is not old:
            yield from _changed(who, old, subscription, catalog)
    if before is None or before.purchases is not after.purchases:
        bought = {} if before is None else {(one.store, one.id): one for one in before.purchases}
        for purchase in after.purchases:
            # Grants and temporary access are no purchases.
            if purchase.kind is PurchaseKind.ONE_TIME and bought.get((purchase.store, purchase.id)) != purchase:
                yield _purchase_row(who, purchase, catalog)


def rows_of(who: int, customer: Customer, catalog: Catalog) -> Iterator[PeriodRow]:
    return changed_rows(who, None, customer, catalog)


def _changed(who: int, old: Subscription | None, new: Subscription, catalog: Catalog) -> Iterator[PeriodRow]:
    if old is None:
        yield from _subscription_rows(who, new, catalog, 0)
        return
    first = _first_different(old, new, catalog)
    known = {row.period: row for row in _subscription_rows(who, old, catalog, first)}
    for row in _subscription_rows(who, new, catalog, first):
        if known.pop(row.period, None) != row:
            yield row
    for row in known.values():
        yield replace(row, type=GONE)


def _first_different(old: Subscription, new: Subscription, catalog: Catalog) -> int:
    """The first period whose row may have changed."""
    if old.ownership is not new.ownership:
        return 0
    place = 0
    for one, other in zip(old.periods, new.periods, strict=False):
        if one is not other and one != other:
            break
        place += 1
    if place < len(new.periods) and _catalog_length(new.periods[place].product_id, catalog) is None:
        # The first standard period of a product that is not in the catalog tells the product's length.
        return 0
    # The row before it was the newest.
    return max(0, place - 1)


def _subscription_rows(who: int, subscription: Subscription, catalog: Catalog, first: int) -> Iterator[PeriodRow]:
    """Of the periods from the place `first` on."""
    periods = subscription.periods
    purchase = purchase_pseudonym(subscription.store, subscription.id)
    sandbox = subscription.environment is Environment.SANDBOX
    shared = subscription.ownership is not Ownership.PURCHASED
    presented = any(one.offering is not None for one in periods)
    last = len(periods) - 1
    for place in range(first, last + 1):
        period = periods[place]
        newest = place == last
        price, terms = period.price, period.terms
        length = _product_length(subscription, period.product_id, catalog)
        micros = price.micros if price.known else 0
        usd = usd_micros(price, terms)
        if micros:
            span = _length(period, None if newest else periods[place + 1], length)
            due, due_usd = monthly(micros, span), None if usd is None else monthly(usd, span)
        else:
            due, due_usd = _due(period, catalog)
        yield PeriodRow(
            who,
            purchase,
            period_pseudonym(period.id),
            place,
            SHARED if shared else period.period_type.value,
            period.purchased_at,
            period.starts_at,
            period.product_id,
            subscription.store,
            sandbox,
            period.cause.value,
            None if length is None else format_duration(length),
            period.country,
            offering_of(subscription, period) if presented else None,
            period.ends_at,
            subscription.access_ends_at if newest else period.access_ends_at,
            period.refunded_at,
            price.currency if price.known else None,
            micros,
            usd,
            due,
            due_usd,
            None if terms is None else terms.tax,
            None if terms is None else terms.commission,
            _back(period),
            _standing(subscription) if newest else None,
            subscription.status.as_of.at if newest else None,
            period.offer_code,
        )


def _standing(subscription: Subscription) -> int:
    status = subscription.status
    return (
        GOES_ON * status.goes_on
        | FAILED * (status.billing_issue_at is not None)
        | EXPIRED * (subscription.expired is not None)
        | CUT_SHORT * subscription.cut_short
        | PAUSED * (status.pause is not None)
    )


def _due(period: Period, catalog: Catalog) -> tuple[int, int | None]:
    """What is to be paid after a period that cost nothing, such as a trial."""
    product = catalog.find(period.product_id)
    if product is None or product.price.currency != period.price.currency:
        return 0, 0
    return product.price.micros, usd_micros(product.price, period.terms)


def _length(period: Period, following: Period | None, known: Duration | None) -> Duration:
    """The time that a price is for. An introductory price is for the time of its own period, any other price for the
    product's: extensions and early ends move a period's own. An introductory period that a product change has cut short
    has lost its own length, so the product's counts."""
    if period.period_type is PeriodType.INTRO:
        cut = following is not None and following.cause is Cause.CHANGE and following.purchased_at <= period.ends_at
        if not cut:
            known = None
    return own_length(period.ends_at - period.starts_at) if known is None else known


def _catalog_length(product_id: str, catalog: Catalog) -> Duration | None:
    product = catalog.find(product_id)
    return None if product is None else product.duration


def _product_length(subscription: Subscription, product_id: str, catalog: Catalog) -> Duration | None:
    """Of a product that is not in the catalog: the sold length that is closest to its first standard period."""
    length = _catalog_length(product_id, catalog)
    if length is None:
        for period in subscription.periods:
            if period.product_id == product_id and period.period_type in (PeriodType.NORMAL, PeriodType.PREPAID):
                return sold_length(period.ends_at - period.purchased_at)
    return length


def _purchase_row(who: int, purchase: Purchase, catalog: Catalog) -> PeriodRow:
    length = _catalog_length(purchase.product_id, catalog)
    price, terms = purchase.price, purchase.terms
    return PeriodRow(
        who,
        purchase_pseudonym(purchase.store, purchase.id),
        0,
        0,
        ONE_TIME if purchase.ownership is Ownership.PURCHASED else SHARED,
        purchase.purchased_at,
        purchase.purchased_at,
        purchase.product_id,
        purchase.store,
        purchase.environment is Environment.SANDBOX,
        duration=None if length is None else format_duration(length),
        country=purchase.country,
        offering=purchase.offering,
        refunded_at=purchase.refunded_at,
        currency=price.currency if price.known else None,
        micros=price.micros if price.known else 0,
        usd=usd_micros(price, terms),
        tax=None if terms is None else terms.tax,
        commission=None if terms is None else terms.commission,
        back=_back(purchase),
        offer_code=purchase.offer_code,
    )


def _back(bought: Period | Purchase) -> tuple[tuple[int, ...], ...] | None:
    if not (bought.money_back or bought.given_back or bought.parts_back):
        return None
    whole = money_of(bought.price.micros, bought.price, bought.terms)
    return tuple(given_back(bought, whole)) or None
