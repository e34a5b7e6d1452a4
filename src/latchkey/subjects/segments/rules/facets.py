"""What customer lists filter and sort by: a few values of a customer, without anything that depends on the time.

Time passes without a write, so facets hold instants (until when something runs), and a list compares them with its own
now. `statuses` is that comparison. Storage has the same one in SQL; tests hold the two equal.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, LATEST, Ms
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.revenue import Payment, payments_of
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription
from latchkey.domain.purchases.summary import end_of

# How long after the end of access a store retries a failed payment at most. Apple's 60 days are the longest; not every
# store says when it gives up.
_LONGEST_RETRY = 60 * DAY


class CustomerStatus(StrEnum):
    """A customer can have several."""

    # A subscription runs, on trial, paid or in a grace period; or prepaid time does.
    ACTIVE = "active"
    TRIAL = "trial"
    # The paid time is over, and the store keeps access open.
    IN_GRACE_PERIOD = "in_grace_period"
    # A payment failed and the store can still retry it, with or without access meanwhile.
    BILLING_ISSUE = "billing_issue"
    # Something runs, and nothing of it will renew.
    CANCELLED = "cancelled"
    # Had a subscription; none runs now.
    EXPIRED = "expired"
    # Owns something that was bought once and does not end.
    ONE_TIME_PURCHASE = "one_time_purchase"
    NEVER_BOUGHT = "never_bought"
    # A promotional grant runs.
    GRANTED = "granted"


class Facets(Struct, frozen=True, kw_only=True):
    # Sandbox for customers who bought in the sandbox only. Money counts in this environment.
    environment: Environment
    test_clock_id: str | None
    first_seen_at: Ms
    last_seen_at: Ms
    country: str | None
    # When the last subscription or prepaid time ends; None if there never was any.
    runs_until: Ms | None
    # The same for subscriptions that will renew.
    renews_until: Ms | None
    # When the last trial ends or ended.
    trial_until: Ms | None
    # The grace period that ends last.
    grace_from: Ms | None
    grace_until: Ms | None
    # How long the store can still retry a failed payment.
    billing_issue_until: Ms | None
    # When the last grant ends; LATEST for one without an end.
    granted_until: Ms | None
    # Has something from a store.
    bought: bool
    # Owns a one-time purchase that does not end.
    owns: bool
    # Millionths of a US dollar: what was paid less what was given back, and what was given back. Payments without a
    # known rate are left out.
    spent_usd: int
    refunded_usd: int
    # Everything ever bought, sorted by id, and until when each gives or gave access; LATEST for ever.
    products: tuple[str, ...]
    product_untils: tuple[Ms, ...]
    stores: tuple[str, ...]


def facets_of(customer: Customer, last_seen_at: Ms, last_seen_country: str | None) -> Facets:
    bought = [purchase for purchase in customer.purchases if purchase.kind is PurchaseKind.ONE_TIME]
    timed = [purchase for purchase in bought if purchase.ends_at is not None]
    subscriptions = customer.subscriptions
    graces = [(one.access_ends_at, one.current.ends_at) for one in subscriptions if one.in_grace]
    grace_until, grace_from = max((grace for grace in graces if grace[0] > grace[1]), default=(None, None))
    everything: tuple[Subscription | Purchase, ...] = (*subscriptions, *bought)
    environments = {purchase.environment for purchase in everything}
    environment = Environment.SANDBOX if environments == {Environment.SANDBOX} else Environment.PRODUCTION
    unpaid = [one for one in subscriptions if one.status.billing_issue_at is not None and _goes_on(one)]
    paid = [payment for payment in payments(customer, environment) if payment.usd is not None]
    products = _products(subscriptions, bought)
    return Facets(
        environment=environment,
        test_clock_id=customer.test_clock_id,
        first_seen_at=customer.first_seen_at,
        last_seen_at=last_seen_at,
        country=last_seen_country or _country(customer),
        runs_until=_last(
            [
                *(end_of(subscription, period) for subscription in subscriptions for period in subscription.periods),
                *(purchase.access_ends_at for purchase in timed),
            ]
        ),
        renews_until=_last([subscription.access_ends_at for subscription in subscriptions if _goes_on(subscription)]),
        trial_until=_last([_trial_until(subscription) for subscription in subscriptions]),
        grace_from=grace_from,
        grace_until=grace_until,
        billing_issue_until=_last([subscription.access_ends_at + _LONGEST_RETRY for subscription in unpaid]),
        granted_until=_last([_until(one) for one in customer.purchases if one.kind is PurchaseKind.PROMOTIONAL]),
        bought=bool(everything),
        owns=any(purchase.access_ends_at is None for purchase in bought),
        spent_usd=sum(one.kept_usd or 0 for one in paid),
        refunded_usd=sum(one.returned_usd or 0 for one in paid),
        products=tuple(products),
        product_untils=tuple(products.values()),
        stores=tuple(sorted({purchase.store for purchase in everything})),
    )


def payments(customer: Customer, environment: Environment) -> Iterator[Payment]:
    """Every payment of the customer's own."""
    for purchase in customer.bought:
        if purchase.environment is environment:
            yield from payments_of(purchase)


def statuses(facets: Facets, now: Ms) -> frozenset[CustomerStatus]:
    """`now` is the customer's own time: that of its test clock, if it is on one."""
    runs = _after(facets.runs_until, now)
    held = {
        CustomerStatus.ACTIVE: runs,
        CustomerStatus.TRIAL: _after(facets.trial_until, now),
        CustomerStatus.IN_GRACE_PERIOD: _after(facets.grace_until, now) and not _after(facets.grace_from, now),
        CustomerStatus.BILLING_ISSUE: _after(facets.billing_issue_until, now),
        CustomerStatus.CANCELLED: runs and not _after(facets.renews_until, now),
        CustomerStatus.EXPIRED: facets.runs_until is not None and not runs,
        CustomerStatus.ONE_TIME_PURCHASE: facets.owns,
        CustomerStatus.NEVER_BOUGHT: not facets.bought,
        CustomerStatus.GRANTED: _after(facets.granted_until, now),
    }
    return frozenset(status for status, has in held.items() if has)


def _after(at: Ms | None, now: Ms) -> bool:
    return at is not None and at > now


def _last(instants: list[Ms | None]) -> Ms | None:
    return max((at for at in instants if at is not None), default=None)


def _until(purchase: Purchase) -> Ms:
    return LATEST if purchase.access_ends_at is None else purchase.access_ends_at


def _goes_on(subscription: Subscription) -> bool:
    """As `standing_of` decides: nothing renews after a refund."""
    return subscription.status.goes_on and subscription.current.refunded_at is None


def _trial_until(subscription: Subscription) -> Ms | None:
    """A trial runs as long as its period does, or until the paid period begins that was bought ahead of its end."""
    current = subscription.current
    if current.period_type is PeriodType.TRIAL:
        return current.access_ends_at
    trials = [period for period in subscription.periods[:-1] if period.period_type is PeriodType.TRIAL]
    return min(trials[-1].access_ends_at, current.starts_at) if trials else None


def _products(subscriptions: tuple[Subscription, ...], bought: list[Purchase]) -> dict[str, Ms]:
    found: dict[str, Ms] = {}
    for subscription in subscriptions:
        for period in subscription.periods:
            found[period.product_id] = max(found.get(period.product_id, 0), end_of(subscription, period))
    for purchase in bought:
        found[purchase.product_id] = max(found.get(purchase.product_id, 0), _until(purchase))
    return dict(sorted(found.items()))


def _country(customer: Customer) -> str | None:
    """Where the latest purchase was made, as its store says."""
    sold: list[Period | Purchase] = [
        *(period for subscription in customer.subscriptions for period in subscription.periods if period.country),
        *(purchase for purchase in customer.purchases if purchase.country),
    ]
    return max(sold, key=lambda one: one.purchased_at).country if sold else None


class ListCursor(Struct, frozen=True):
    """After which customer a page begins."""

    value: int
    key: int


class ListEntry(Struct, frozen=True):
    key: int
    facets: Facets
    # The customer's own time.
    now: Ms
    # None outside a list.
    place: ListCursor | None
    # None: the customer was deleted a moment ago.
    app_user_id: str | None
    # Only if it was asked for.
    customer: Customer | None
