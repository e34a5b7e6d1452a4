"""A customer: ids, purchases, grants, balances, attributes, enrollments and the sequence of its events."""

import re
from collections.abc import Mapping
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.purchases.lifecycle import due_at, observe, tick
from latchkey.domain.purchases.purchase import Purchase, observe_purchase, purchase_due_at, tick_purchase
from latchkey.domain.purchases.subscription import Subscription


class Attribute(Struct, frozen=True):
    value: str
    updated_at: Ms


class Enrollment(Struct, frozen=True):
    experiment_id: str
    name: str
    variant_id: str
    enrolled_at: Ms


class Transfer(Struct, frozen=True):
    """Purchases came from another customer."""

    id: str
    at: Ms
    transferred_from: tuple[str, ...]


class Joined(Struct, frozen=True):
    """Another customer was merged into this one, or this one took another id."""

    id: str
    at: Ms
    # The current ids of the merged customers, the absorbed one first; a single id if there was no other customer.
    ids: tuple[str, ...]


class CurrencyTransaction(Struct, frozen=True):
    """A credit (positive) or debit (negative) of virtual currency. A customer never has the same `id` twice."""

    id: str
    code: str
    amount: int
    at: Ms
    product_id: str | None = None


class Customer(Struct, frozen=True, kw_only=True):
    project_id: str
    app_user_id: str
    original_app_user_id: str
    first_seen_at: Ms
    # All ids of this customer in the order they were first seen, including the two above.
    aliases: tuple[str, ...]
    # Identifies this record. A customer who is erased and created again has the same ids but another record.
    record: str = ""
    test_clock_id: str | None = None
    sequence: int = 0
    subscriptions: tuple[Subscription, ...] = ()
    purchases: tuple[Purchase, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    balances: Mapping[str, int] = field(default_factory=dict)
    enrollments: tuple[Enrollment, ...] = ()
    # The version of the app that its user had first, as the store signed it.
    original_application_version: str | None = None
    transfers: tuple[Transfer, ...] = ()
    # Currency transactions of the current change. Storage writes them to their own table; they are never loaded again.
    currency_transactions: tuple[CurrencyTransaction, ...] = ()
    # Merges of the current change. Only the event keeps them.
    joined: tuple[Joined, ...] = ()

    @property
    def bought(self) -> tuple[Subscription | Purchase, ...]:
        return *self.subscriptions, *self.purchases

    def subscription(self, store: str, id: str) -> Subscription | None:
        return next((one for one in self.subscriptions if one.id == id and one.store == store), None)

    def purchase(self, store: str, id: str) -> Purchase | None:
        return next((one for one in self.purchases if one.id == id and one.store == store), None)


def newcomer(
    project_id: str, app_user_id: str, now: Ms, test_clock_id: str | None = None, *, record: str = ""
) -> Customer:
    return Customer(
        project_id=project_id,
        app_user_id=app_user_id,
        original_app_user_id=app_user_id,
        first_seen_at=now,
        aliases=(app_user_id,),
        record=record,
        test_clock_id=test_clock_id,
    )


def with_subscription(customer: Customer, seen: Subscription) -> Customer:
    """The customer after a store reported one of its subscriptions."""
    before = customer.subscription(seen.store, seen.id)
    after = observe(before, seen)
    if after == before:
        return customer
    others = tuple(subscription for subscription in customer.subscriptions if subscription is not before)
    return replace(customer, subscriptions=tuple(sorted((*others, after), key=lambda one: one.order)))


def with_purchase(customer: Customer, seen: Purchase) -> Customer:
    """The customer after a store, or an operator, reported a one-time purchase or grant."""
    before = customer.purchase(seen.store, seen.id)
    return put_purchase(customer, observe_purchase(before, seen))


def put_purchase(customer: Customer, purchase: Purchase) -> Customer:
    before = customer.purchase(purchase.store, purchase.id)
    if purchase == before:
        return customer
    others = tuple(one for one in customer.purchases if one is not before)
    return replace(customer, purchases=tuple(sorted((*others, purchase), key=lambda one: one.order)))


def let_time_pass(customer: Customer, now: Ms) -> Customer:
    """The customer with every end of access up to `now` marked."""
    subscriptions = tuple(tick(subscription, now) for subscription in customer.subscriptions)
    purchases = tuple(tick_purchase(purchase, now) for purchase in customer.purchases)
    if subscriptions == customer.subscriptions and purchases == customer.purchases:
        return customer
    return replace(customer, subscriptions=subscriptions, purchases=purchases)


def next_due_at(customer: Customer) -> Ms | None:
    """When this customer next changes just because time passes."""
    dues = [due_at(subscription) for subscription in customer.subscriptions] + [
        purchase_due_at(purchase) for purchase in customer.purchases
    ]
    return min((due for due in dues if due is not None), default=None)


def own_now(customer: Customer, clock: Ms) -> Ms:
    """The current time of a customer on a test clock. A store whose clock is ahead may have told of a refund: then it
    is that moment already, because nothing else is told when it comes."""
    facts = [
        fact.at
        for subscription in customer.subscriptions
        for period in subscription.periods
        for fact in period.money_back
    ]
    return max(clock, *facts, *(fact.at for purchase in customer.purchases for fact in purchase.money_back), 0)


def told_until(customer: Customer) -> Ms:
    """The latest moment of what events have told about the customer's purchases."""
    moments = [0]
    for subscription in customer.subscriptions:
        status, pause = subscription.status, subscription.status.pause
        moments += [status.as_of.at, status.renewal_off_at or 0, pause.asked_at if pause is not None else 0]
        moments += [invoice.issued_at for invoice in subscription.invoices]
        moments += [subscription.expired.at if subscription.expired is not None else 0]
        for period in subscription.periods:
            moments += [period.purchased_at, *(fact.at for fact in period.money_back)]
    for purchase in customer.purchases:
        moments += [purchase.purchased_at, *(fact.at for fact in purchase.money_back)]
        moments += [purchase.expired.at if purchase.expired is not None else 0]
    return max(moments)


MAX_NAME = 40
MAX_VALUE = 500
MAX_COUNT = 100
# How far the clock of a phone may be ahead of ours.
CLOCK_SKEW: Ms = 5 * MINUTE

_NAME = re.compile(r"\$?[A-Za-z0-9_][A-Za-z0-9_.\- ]*")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def problem_with_attribute(name: str, value: str | None) -> str | None:
    """Why this attribute cannot be stored, worded for the caller; None if it can."""
    if len(name) > MAX_NAME:
        return f"The name has {len(name)} characters; at most {MAX_NAME} are allowed."
    if _NAME.fullmatch(name) is None:
        return "A name is made of letters, digits, '_', '-', '.' and spaces; a leading '$' marks a reserved one."
    if value is not None and len(value) > MAX_VALUE:
        return f"The value has {len(value)} characters; at most {MAX_VALUE} are allowed."
    if name == "$email" and value and _EMAIL.fullmatch(value) is None:
        return "The value of $email is not an e-mail address."
    return None


def not_later_than(now: Ms, changes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """A timestamp more than `CLOCK_SKEW` ahead is replaced by `now`. Otherwise a phone with a wrong clock, or anybody
    with an app's public key, could set a value that no later change replaces."""
    latest = now + CLOCK_SKEW
    return {name: one if one.updated_at <= latest else replace(one, updated_at=now) for name, one in changes.items()}


def with_attributes(customer: Customer, changes: Mapping[str, Attribute]) -> Customer:
    """A deleted attribute stays as an empty value, so that an older one arriving late cannot bring it back."""
    known = dict(customer.attributes)
    for name, attribute in changes.items():
        before = known.get(name)
        if before is None or attribute.updated_at > before.updated_at:
            known[name] = attribute
    known = _without_oldest_markers(known)
    return customer if known == customer.attributes else replace(customer, attributes=known)


def with_shown_attributes(customer: Customer, shown: Mapping[str, Attribute]) -> Customer:
    """With those that an app sends: new ones are left out where all are more than the limit, and than before."""
    known = visible(customer)
    new = {name: attribute for name, attribute in shown.items() if attribute.value and name not in known}
    changed = with_attributes(customer, {name: one for name, one in shown.items() if name not in new})
    if not new:
        return changed
    room = max(MAX_COUNT, len(known)) - len(visible(changed))
    return with_attributes(changed, dict(islice(new.items(), room)))


def set_now(customer: Customer, values: Mapping[str, str | None], now: Ms) -> Customer:
    """An operator sets these values; null deletes. They win over what is stored, whatever a phone's clock said."""
    known = customer.attributes
    dated = {
        name: Attribute(value or "", max(now, known[name].updated_at + 1) if name in known else now)
        for name, value in values.items()
        if value or name in known
    }
    return with_attributes(customer, dated)


def _without_oldest_markers(known: dict[str, Attribute]) -> dict[str, Attribute]:
    """Markers of deleted attributes only serve late arrivals, so their number is limited."""
    markers = sorted((one.updated_at, name) for name, one in known.items() if not one.value)
    forgotten = {name for _, name in markers[:-MAX_COUNT]}
    return {name: one for name, one in known.items() if name not in forgotten} if forgotten else known


def visible(customer: Customer) -> dict[str, Attribute]:
    noted = customer.attributes
    return {name: attribute for name, attribute in sorted(noted.items()) if attribute.value} if noted else {}


# A struct, because creating a frozen dataclass takes ten times as long, and every read creates one.
class LastSeen(Struct, frozen=True, gc=False):
    at: Ms
    platform: str | None = None
    platform_version: str | None = None
    app_version: str | None = None
    country: str | None = None


def merged_visits(earlier: LastSeen, later: LastSeen) -> LastSeen:
    """Fields that the later visit leaves out keep their value, except the version of another platform."""
    same = later.platform is None or later.platform == earlier.platform
    return LastSeen(
        max(earlier.at, later.at),
        later.platform or earlier.platform,
        later.platform_version or (earlier.platform_version if same else None),
        later.app_version or earlier.app_version,
        later.country or earlier.country,
    )
