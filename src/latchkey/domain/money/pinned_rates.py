"""Rates that come with Latchkey, for payments in a currency of which the operator gave no rate for the day.

`reference_rates.csv` has one rate of each currency of ISO 4217, all of one day. They are estimates: an amount in USD
that is a few percent off is better for a receiver than none. The operator's rates win.
"""

from importlib.resources import files
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate, Rates, date_of, day_of, read_rates
from latchkey.domain.money.fees import NO_FEES, Fees
from latchkey.domain.purchases.purchase import USD, Environment, Purchase, PurchaseKind, Rate, Terms
from latchkey.domain.purchases.subscription import Invoice, Period, Subscription

_FILE = files("latchkey.domain.money").joinpath("reference_rates.csv")
REFERENCE = {rate.currency: rate for _, rate in read_rates(_FILE.read_text(), day_of("2100-01-01"))}
REFERENCE_DATE = date_of(REFERENCE["EUR"].day)


def rate_on(rates: Rates, currency: str, day: int) -> DayRate | None:
    """The operator's rate for this day, else the reference rate. None for a currency that nobody knows."""
    return rates.on(currency, day) or REFERENCE.get(currency)


def is_estimate(price: Price, rate: Rate | None) -> bool:
    """Whether a payment with this rate had none of the operator's."""
    if not price.micros or not price.known or price.currency == USD:
        return False
    reference = REFERENCE.get(price.currency)
    return rate is None or (reference is not None and rate == Rate(reference.usd, date_of(reference.day)))


class Tariff(Struct, frozen=True):
    """What gives every new payment its terms: the exchange rate, the tax and the commission, as they are known now."""

    fees: Fees = NO_FEES
    rates: Rates = NO_RATES

    def terms(
        self, price: Price, store: str, country: str | None, at: Ms, *, subscription: bool, first_year: bool = True
    ) -> Terms:
        day = at // DAY
        tax = self.fees.tax(store, country, day)
        commission = self.fees.commission(
            store, country, day, subscription=subscription, first_year=first_year, tax=tax
        )
        return Terms(self._rate(price, day), tax, commission)

    def _rate(self, price: Price, day: int) -> Rate | None:
        if price.currency == USD or not price.micros:
            return None
        found = rate_on(self.rates, price.currency, day)
        return None if found is None else Rate(found.usd, date_of(found.day))


NO_TARIFF = Tariff()

# A year of paid service; whoever comes back within these days goes on counting.
_YEAR: Ms = 365 * DAY
_LAPSE: Ms = 60 * DAY


class MissingRate(NamedTuple):
    """The amount in USD of a payment in production is an estimate: no rate was given for this currency and day."""

    currency: str
    day: int


class Pinned(NamedTuple):
    customer: Customer
    missing: frozenset[MissingRate] = frozenset()


def pinned(customer: Customer, tariff: Tariff) -> Pinned:
    """The customer with terms for all payments whose price is known."""
    subscriptions, purchases = customer.subscriptions, customer.purchases
    missing: set[MissingRate] = set()
    if any(map(_waits, subscriptions)):
        subscriptions = tuple(_subscription(subscription, tariff, missing) for subscription in subscriptions)
    if any(map(_purchase_waits, purchases)):
        purchases = tuple(_purchase(purchase, tariff, missing) for purchase in purchases)
    if subscriptions is customer.subscriptions and purchases is customer.purchases:
        return Pinned(customer)
    return Pinned(replace(customer, subscriptions=subscriptions, purchases=purchases), frozenset(missing))


def _waits(subscription: Subscription) -> bool:
    return any(period.terms is None and period.price.known for period in subscription.periods) or any(
        invoice.terms is None and invoice.total.known for invoice in subscription.invoices
    )


def _purchase_waits(purchase: Purchase) -> bool:
    return purchase.terms is None and purchase.kind is PurchaseKind.ONE_TIME and purchase.price.known


def _subscription(subscription: Subscription, tariff: Tariff, missing: set[MissingRate]) -> Subscription:
    if not _waits(subscription):
        return subscription

    def of(one: Period) -> Period:
        if one.terms is not None or not one.price.known:
            return one
        terms = tariff.terms(
            one.price,
            subscription.store,
            one.country,
            one.purchased_at,
            subscription=True,
            first_year=in_first_year(subscription, one),
        )
        _note(missing, one.price, terms, one.purchased_at, subscription.environment)
        return replace(one, terms=terms)

    def of_invoice(one: Invoice) -> Invoice:
        if one.terms is not None or not one.total.known:
            return one
        country = subscription.current.country
        terms = tariff.terms(one.total, subscription.store, country, one.issued_at, subscription=True)
        return replace(one, terms=terms)

    return replace(
        subscription,
        periods=tuple(map(of, subscription.periods)),
        invoices=tuple(map(of_invoice, subscription.invoices)),
    )


def _purchase(purchase: Purchase, tariff: Tariff, missing: set[MissingRate]) -> Purchase:
    if not _purchase_waits(purchase):
        return purchase
    terms = tariff.terms(purchase.price, purchase.store, purchase.country, purchase.purchased_at, subscription=False)
    _note(missing, purchase.price, terms, purchase.purchased_at, purchase.environment)
    return replace(purchase, terms=terms)


def _note(missing: set[MissingRate], price: Price, terms: Terms, at: Ms, environment: Environment) -> None:
    if environment is Environment.PRODUCTION and is_estimate(price, terms.rate):
        missing.add(MissingRate(price.currency, at // DAY))


def in_first_year(subscription: Subscription, period: Period) -> bool:
    """Whether the subscriber had less than a year of paid service before this period. A lapse of more than 60 days
    starts the year anew."""
    served: Ms = 0
    ended: Ms | None = None
    for one in subscription.periods:
        if one.order >= period.order:
            break
        if not one.price.micros or one.refunded_at is not None:
            continue
        if ended is not None and one.starts_at - ended > _LAPSE:
            served = 0
        served += max(0, one.ends_at - one.starts_at)
        ended = one.ends_at
    if ended is not None and period.starts_at - ended > _LAPSE:
        return True
    return served < _YEAR
