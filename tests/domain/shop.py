"""A small catalog, a few instants and a customer, for the tests of the rules."""

from datetime import UTC, datetime

from latchkey.domain.catalog import Catalog, Credit, Product, ProductKind
from latchkey.domain.customers.customer import Customer, newcomer, with_purchase, with_subscription
from latchkey.domain.instants import DAY, Duration, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate
from latchkey.domain.money.pinned_rates import Tariff
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions

PROJECT = "proj"


def at(text: str) -> Ms:
    """The instant of a date such as 2026-01-31, or of a date and time, in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOON = at("2026-01-15T12:00")

PRO_MONTHLY = Product(
    id="pro_monthly",
    kind=ProductKind.SUBSCRIPTION,
    price=Price(9_990_000, "USD"),
    duration=Duration(months=1),
    trial=Duration(days=7),
    grants=("pro",),
)
PRO_YEARLY = Product(
    id="pro_yearly",
    kind=ProductKind.SUBSCRIPTION,
    price=Price(79_990_000, "USD"),
    duration=Duration(months=12),
    grants=("pro",),
)
TEAM_MONTHLY = Product(
    id="team_monthly",
    kind=ProductKind.SUBSCRIPTION,
    price=Price(29_990_000, "USD"),
    duration=Duration(months=1),
    grants=("pro", "team"),
)
PRO_LIFETIME = Product(id="pro_lifetime", kind=ProductKind.ONE_TIME, price=Price(199_000_000, "USD"), grants=("pro",))
PRO_PASS = Product(
    id="pro_pass",
    kind=ProductKind.ONE_TIME,
    price=Price(4_990_000, "EUR"),
    duration=Duration(days=10),
    grants=("pro",),
)
COINS = Product(id="coins_100", kind=ProductKind.ONE_TIME, price=Price(1_990_000, "USD"), credits=Credit("COIN", 100))

CATALOG = Catalog(
    {one.id: one for one in (PRO_MONTHLY, PRO_YEARLY, TEAM_MONTHLY, PRO_LIFETIME, PRO_PASS, COINS)},
    frozenset({"pro", "team"}),
    tariff=Tariff(rates=NO_RATES.plus([DayRate("EUR", NOON // DAY, "1.1")])),
)


def someone(
    app_user_id: str = "ann", now: Ms = NOON, test_clock_id: str | None = None, *, record: str | None = None
) -> Customer:
    """A new customer. After an erasure, a new one differs only in the record."""
    named = record if record is not None else f"record of {app_user_id}"
    return newcomer(PROJECT, app_user_id, now, test_clock_id, record=named)


def subscribed(product: Product = PRO_MONTHLY, now: Ms = NOON, *, id: str = "sub", trial: bool = False) -> Subscription:
    """A subscription in the test store, just bought."""
    bought = actions.buy(someone(), product, now, id=id, environment=Environment.SANDBOX, trial=trial)
    assert isinstance(bought, Subscription)
    return bought


def bought(product: Product = PRO_LIFETIME, now: Ms = NOON, *, id: str = "one") -> Purchase:
    """A one-time purchase in the test store."""
    made = actions.buy(someone(), product, now, id=id, environment=Environment.SANDBOX)
    assert isinstance(made, Purchase)
    return made


def owner_of(*things: Subscription | Purchase) -> Customer:
    customer = someone()
    for thing in things:
        if isinstance(thing, Subscription):
            customer = with_subscription(customer, thing)
        else:
            customer = with_purchase(customer, thing)
    return customer
