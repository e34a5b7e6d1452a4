"""The actions of the test store. Each takes the known state and returns a snapshot, or refuses with a reason."""

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import temporary_grant
from latchkey.domain.formats import instant
from latchkey.domain.instants import DAY, LATEST, Duration, Ms, add
from latchkey.domain.purchases.lifecycle import end_reason
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Ownership, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.subscription import Cause, Invoice, Pause, PeriodType, Status, Subscription
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store.billing import STORE, due_at, first_period, next_moment, next_period, renewed


def owned(customer: Customer) -> list[Subscription | Purchase]:
    """What the customer has bought in the test store: one-time purchases, then subscriptions, each the oldest first."""
    purchases = (one for one in customer.purchases if one.store == STORE and one.kind is PurchaseKind.ONE_TIME)
    subscriptions = (one for one in customer.subscriptions if one.store == STORE)
    in_order = sorted(purchases, key=lambda one: one.order), sorted(subscriptions, key=lambda one: one.current.order)
    return [*in_order[0], *in_order[1]]


def product_of(bought: Subscription | Purchase) -> str:
    return bought.product_id if isinstance(bought, Purchase) else bought.current.product_id


def find(customer: Customer, product_id: str | None) -> Subscription | Purchase:
    """The customer's newest purchase of this product in the test store."""
    found = [one for one in owned(customer) if product_id in (None, product_of(one))]
    if not found:
        what = f"has not bought {product_id!r}" if product_id else "has bought nothing"
        raise Refusal(f"{customer.app_user_id!r} {what} in the test store.", param="product_id")
    return found[-1]


def buy(
    customer: Customer,
    product: Product,
    now: Ms,
    *,
    id: str,
    environment: Environment,
    trial: bool = False,
    ownership: Ownership = Ownership.PURCHASED,
    app_id: str | None = None,
) -> Subscription | Purchase:
    _fits_clock(customer, environment)
    if trial and product.trial is None:
        raise Refusal(f"{product.id!r} has no trial on offer.", param="trial")
    if product.kind is ProductKind.SUBSCRIPTION:
        _not_subscribed(customer, product, now, trial)
    elif product.grants and product.credits is None:
        _not_owned(customer, product, now)
    return sell(product, now, id=id, environment=environment, trial=trial, ownership=ownership, app_id=app_id)


def sell(
    product: Product,
    now: Ms,
    *,
    id: str,
    environment: Environment,
    trial: bool = False,
    ownership: Ownership = Ownership.PURCHASED,
    app_id: str | None = None,
) -> Subscription | Purchase:
    """A new purchase at the catalog's price, whatever else the buyer owns: an app may send several receipts for one
    product."""
    if product.kind is ProductKind.SUBSCRIPTION:
        _has_duration(product, "product_id")
        return Subscription(
            store=STORE,
            id=id,
            environment=environment,
            app_id=app_id,
            ownership=ownership,
            periods=(period := first_period(id, product, now, trial=trial),),
            status=Status(as_of=period.as_of),
        )
    return Purchase(
        kind=PurchaseKind.ONE_TIME,
        store=STORE,
        id=id,
        product_id=product.id,
        environment=environment,
        app_id=app_id,
        ownership=ownership,
        purchased_at=now,
        ends_at=add(now, product.duration) if product.duration else None,
        price=product.price,
    )


def sold_in(bought: Subscription | Purchase, country: str) -> Subscription | Purchase:
    """The same purchase, made in a country."""
    if isinstance(bought, Purchase):
        return replace(bought, country=country)
    return replace(bought, periods=tuple(replace(period, country=country) for period in bought.periods))


def renew(subscription: Subscription, catalog: Catalog, now: Ms) -> Subscription:
    status = subscription.status
    _not_refunded(subscription)
    if status.billing_issue_at is not None:
        raise Refusal("The last payment failed; use recover_billing.", param="action")
    if status.pause is not None:
        raise Refusal("The subscription is paused; use resume.", param="action")
    if status.ended is not None or (not status.auto_renew and subscription.access_ends_at <= now):
        raise Refusal("The subscription has ended; make a new purchase.", param="action")
    if not status.auto_renew:
        raise Refusal("Renewal is off, so there is nothing to renew; use uncancel first.", param="action")
    return renewed(subscription, catalog, now, follows=max(now, subscription.current.ends_at))


def cancel(subscription: Subscription, now: Ms, reason: Reason = Reason.UNSUBSCRIBE) -> Subscription:
    _running(subscription, now)
    if not subscription.status.auto_renew:
        raise Refusal("Renewal is off already.", param="action")
    return _status(
        subscription, now, auto_renew=False, renewal_off_at=now, renewal_off_reason=reason, next_product_id=None
    )


def uncancel(subscription: Subscription, now: Ms) -> Subscription:
    _running(subscription, now)
    if subscription.status.auto_renew:
        raise Refusal("Renewal is on already.", param="action")
    return _status(subscription, now, auto_renew=True, renewal_off_at=None, renewal_off_reason=None)


def fail_billing(subscription: Subscription, now: Ms, grace_days: int = 0) -> Subscription:
    _running(subscription, now)
    _renews(subscription)
    paid_until = max(now, subscription.current.ends_at)
    grace = paid_until + grace_days * DAY if grace_days else None
    return _status(subscription, now, billing_issue_at=now, grace_ends_at=grace)


def recover_billing(subscription: Subscription, catalog: Catalog, now: Ms) -> Subscription:
    if subscription.status.billing_issue_at is None:
        raise Refusal("No payment has failed, so there is nothing to recover.", param="action")
    _not_refunded(subscription)
    if subscription.status.ended is not None:
        raise Refusal("The subscription has ended; make a new purchase.", param="action")
    if not subscription.status.auto_renew:
        raise Refusal("Renewal is off, so no payment is made; use uncancel, or make a new purchase.", param="action")
    # Within the paid time or the grace period there is no gap; after it the new period begins with the payment.
    follows = subscription.current.ends_at if subscription.access_ends_at > now else now
    recovered = renewed(subscription, catalog, now, follows=follows)
    if recovered.current.ends_at > now:
        return recovered
    # The grace period is longer than the product's own: the period without a gap would be over already.
    return renewed(subscription, catalog, now, follows=now)


def expire(subscription: Subscription, now: Ms, reason: Reason | None = None) -> Subscription:
    _running(subscription, now)
    status = subscription.status
    derived = Reason.BILLING_ERROR if status.billing_issue_at is not None else status.renewal_off_reason
    # In a grace period access lasts until now, although only the time before the grace period was paid.
    grace = now if subscription.in_grace and now > subscription.current.ends_at else None
    ended = _ends(subscription, min(now, subscription.current.ends_at), now)
    return _status(ended, now, ended=reason or derived or Reason.UNSUBSCRIBE, grace_ends_at=grace, pause=None)


def refund(bought: Subscription | Purchase, now: Ms) -> Subscription | Purchase:
    if isinstance(bought, Purchase):
        if bought.refunded_at is not None:
            raise Refusal("The purchase is refunded already.", param="action")
        return replace(bought, money_back=(*bought.money_back, _fact(bought.money_back, now)))
    _not_refunded(bought)
    if bought.current.price.micros == 0:
        raise Refusal("The current period was free; there is nothing to refund.", param="action")
    return _money_back(bought, now)


def refund_earlier(subscription: Subscription, period_id: str, now: Ms) -> Subscription:
    """Gives the money of a period back that is over. Access does not change."""
    found = next((period for period in subscription.periods if period.id == period_id), None)
    if found is None or found is subscription.current:
        raise Refusal("A refund of the current period ends access: refund the subscription.", param="transaction_id")
    if found.refunded_at is not None:
        raise Refusal("The transaction is refunded already.", param="transaction_id")
    if found.price.micros == 0:
        raise Refusal("The transaction cost nothing; there is nothing to refund.", param="transaction_id")
    refunded = replace(found, money_back=(*found.money_back, _fact(found.money_back, now)))
    periods = tuple(refunded if period is found else period for period in subscription.periods)
    return replace(subscription, periods=periods)


def reverse_refund(bought: Subscription | Purchase, now: Ms) -> Subscription | Purchase:
    refunded_at = bought.refunded_at if isinstance(bought, Purchase) else bought.current.refunded_at
    if refunded_at is None:
        raise Refusal("Nothing was refunded, so there is nothing to reverse.", param="action")
    if isinstance(bought, Purchase):
        return replace(bought, money_back=(*bought.money_back, _fact(bought.money_back, now)))
    restored = _money_back(bought, now)
    due = due_at(restored)
    # What fell due while it was refunded did not happen, and nothing makes up for it.
    return restored if due is None or due > now else _status(restored, now, ended=end_reason(restored), pause=None)


def _has_duration(product: Product, param: str) -> Duration:
    if product.duration is None:
        raise Refusal(f"{product.id!r} has no duration, so the test store cannot sell it. Set one first.", param=param)
    return product.duration


def change_product(subscription: Subscription, new: Product, now: Ms, *, at_renewal: bool) -> Subscription:
    _running(subscription, now)
    current, status = subscription.current, subscription.status
    if new.kind is not ProductKind.SUBSCRIPTION:
        raise Refusal(f"{new.id!r} is not a subscription.", param="new_product_id")
    duration = _has_duration(new, "new_product_id")
    if at_renewal:
        _renews(subscription)
        if new.id == (status.next_product_id or current.product_id):
            raise Refusal(f"The next period is {new.id!r} already.", param="new_product_id")
        return _status(subscription, now, next_product_id=new.id if new.id != current.product_id else None)
    if new.id == current.product_id:
        raise Refusal(f"The subscription is {new.id!r} already.", param="new_product_id")
    # In a grace period access lasts until now, although only the time before the grace period was paid.
    ended = _ends(subscription, min(now, current.ends_at), now)
    moment = next_moment(ended, now)
    period = next_period(subscription, Cause.CHANGE, new.id, new.price, now, add(now, duration), moment)
    return replace(ended, periods=(*ended.periods, period), status=Status(as_of=moment))


def pause(subscription: Subscription, now: Ms, resumes_at: Ms) -> Subscription:
    _running(subscription, now)
    _renews(subscription)
    if resumes_at <= subscription.current.ends_at:
        raise Refusal(
            f"A pause begins when the current period ends ({instant(subscription.current.ends_at, seconds=True)}); "
            "resume_at_ms must be later.",
            param="resume_at_ms",
        )
    return _status(subscription, now, pause=Pause(now, resumes_at))


def resume(subscription: Subscription, catalog: Catalog, now: Ms) -> Subscription:
    if subscription.status.pause is None:
        raise Refusal("The subscription is not paused.", param="action")
    _not_refunded(subscription)
    if not subscription.status.auto_renew:
        raise Refusal("Renewal is off: nothing to resume; use uncancel, or make a new purchase.", param="action")
    if subscription.current.ends_at > now:
        return _status(subscription, now, pause=None)
    return renewed(subscription, catalog, now, follows=now)


def extend(subscription: Subscription, now: Ms, *, until: Ms) -> Subscription:
    _running(subscription, now)
    if until <= subscription.current.ends_at:
        end = instant(subscription.current.ends_at, seconds=True)
        raise Refusal(f"The subscription already runs until {end}; an extension ends later.", param="expiry_time_ms")
    if until > LATEST:
        raise Refusal("The subscription cannot run beyond the year 2199.", param="expiry_time_ms")
    return _ends(subscription, until, now)


def issue_invoice(subscription: Subscription, now: Ms) -> Subscription:
    number = len(subscription.invoices) + 1
    invoice = Invoice(f"{subscription.id}.invoice.{number}", now, subscription.current.price)
    return replace(subscription, invoices=(*subscription.invoices, invoice))


def store_outage(
    customer: Customer, product: Product, now: Ms, *, id: str, environment: Environment, app_id: str | None = None
) -> Purchase:
    """The store cannot be reached to check a purchase: a temporary grant gives access until it answers."""
    _fits_clock(customer, environment)
    if not product.grants:
        raise Refusal(f"{product.id!r} grants no entitlement: nothing to grant temporarily.", param="product_id")
    waiting = (
        purchase for purchase in customer.purchases if purchase.kind is PurchaseKind.TEMPORARY and _runs(purchase, now)
    )
    if any(purchase.product_id == product.id for purchase in waiting):
        raise Refusal(f"A temporary grant of {product.id!r} is running already.", param="product_id")
    return temporary_grant(product, now, store=STORE, id=id, environment=environment, app_id=app_id)


def _fits_clock(customer: Customer, environment: Environment) -> None:
    if customer.test_clock_id is not None and environment is Environment.PRODUCTION:
        raise Refusal("A customer on a test clock can only make SANDBOX purchases.", param="environment")


def _status(subscription: Subscription, now: Ms, **changes: object) -> Subscription:
    moment = next_moment(subscription, now)
    return replace(subscription, status=replace(subscription.status, as_of=moment, **changes))


def _ends(subscription: Subscription, ends_at: Ms, now: Ms) -> Subscription:
    period = replace(subscription.current, ends_at=ends_at, as_of=next_moment(subscription, now))
    changed = replace(subscription, periods=(*subscription.periods[:-1], period))
    return _status(changed, now)


def _fact(known: tuple[MoneyBack, ...], now: Ms) -> MoneyBack:
    return MoneyBack(now, number=len(known), reversal=len(known) % 2 == 1)


def _money_back(subscription: Subscription, now: Ms) -> Subscription:
    current = subscription.current
    period = replace(current, money_back=(*current.money_back, _fact(current.money_back, now)))
    return replace(subscription, periods=(*subscription.periods[:-1], period))


def _running(subscription: Subscription, now: Ms) -> None:
    _not_refunded(subscription)
    if subscription.access_ends_at <= now:
        raise Refusal(
            f"The subscription ended at {instant(subscription.access_ends_at, seconds=True)}.", param="action"
        )


def _not_refunded(subscription: Subscription) -> None:
    if subscription.current.refunded_at is not None:
        raise Refusal("The current period was refunded.", param="action")


def _renews(subscription: Subscription) -> None:
    status = subscription.status
    if status.ended is not None:
        raise Refusal("The subscription will not renew: its next product was deleted.", param="action")
    if not status.auto_renew:
        raise Refusal("Renewal is off; use uncancel first.", param="action")
    if status.billing_issue_at is not None:
        raise Refusal("The last payment failed; use recover_billing first.", param="action")
    if status.pause is not None:
        raise Refusal("A pause is scheduled; use resume first.", param="action")


def _not_subscribed(customer: Customer, product: Product, now: Ms, trial: bool) -> None:
    for subscription in customer.subscriptions:
        if subscription.current.product_id == product.id and subscription.access_ends_at > now:
            raise Refusal(f"{customer.app_user_id!r} is subscribed to {product.id!r} already.", param="product_id")
        if trial and any(
            p.product_id == product.id and p.period_type is PeriodType.TRIAL for p in subscription.periods
        ):
            raise Refusal(f"{customer.app_user_id!r} has used the trial of {product.id!r} already.", param="trial")


def _not_owned(customer: Customer, product: Product, now: Ms) -> None:
    for purchase in customer.purchases:
        if purchase.product_id == product.id and purchase.kind is PurchaseKind.ONE_TIME and _runs(purchase, now):
            raise Refusal(f"{customer.app_user_id!r} owns {product.id!r} already.", param="product_id")


def _runs(purchase: Purchase, now: Ms) -> bool:
    return purchase.access_ends_at is None or purchase.access_ends_at > now
