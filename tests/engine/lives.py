"""Customer histories that together use every field and variant of a stored state: causes of all events, and more."""

from collections.abc import Callable

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Former, Product, ProductKind
from latchkey.domain.customers.customer import Attribute, CurrencyTransaction, with_attributes
from latchkey.domain.customers.enrollment import Experiment, Variant, enroll
from latchkey.domain.customers.promotion import grant, revoke
from latchkey.domain.customers.virtual_currency import move
from latchkey.domain.instants import DAY, HOUR, Duration
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, Ownership, Purchase, Rate, Reason, Terms
from latchkey.domain.purchases.subscription import Cause, Invoice, Moment, Period, PeriodType, Status, Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain import shop
from tests.domain.book import Book
from tests.domain.shop import COINS, NOON, PRO_LIFETIME, PRO_MONTHLY, PRO_PASS, PRO_YEARLY, TEAM_MONTHLY, someone
from tests.domain.test_event_types import ROWS, Row

# Detached from "team" on the fifth day.
OLD_PLAN = Product(
    id="old_plan", kind=ProductKind.SUBSCRIPTION, price=Price(1_990_000, "EUR"), duration=Duration(months=1)
)
CATALOG = Catalog(
    {**shop.CATALOG.products, OLD_PLAN.id: OLD_PLAN},
    shop.CATALOG.entitlements,
    {None: {OLD_PLAN.id: (Former("team", NOON + 5 * DAY),)}},
)
EXPERIMENT = Experiment("paywall", "Paywall", (Variant("a", 1), Variant("b", 1)))
SANDBOX = Environment.SANDBOX


def book(app_user_id: str = "ann", test_clock_id: str | None = None) -> Book:
    return Book(someone(app_user_id, test_clock_id=test_clock_id), CATALOG)


def buys(product: Product, id: str = "sub", *, of: Book | None = None, trial: bool = False, days: int = 0) -> Book:
    """Somebody buys this in an app, and then `days` pass."""
    buyer = of or book()
    buyer.take_in(actions.sell(product, buyer.now, id=id, environment=SANDBOX, trial=trial, app_id="app_ios"))
    buyer.pass_time(buyer.now + days * DAY)
    return buyer


def off_for_every_reason() -> Book:
    """One subscription for each reason to turn renewal off; each is still running."""
    life = book()
    for reason in Reason:
        sold = actions.sell(PRO_MONTHLY, life.now, id=f"off {reason.value}", environment=SANDBOX)
        assert isinstance(sold, Subscription)
        life.take_in(sold)
        life.pass_time(life.now + HOUR)
        life.take_in(actions.cancel(sold, life.now, reason))
    return life


def ended_for_every_reason() -> Book:
    life = book()
    for reason in Reason:
        sold = actions.sell(PRO_MONTHLY, life.now, id=f"ended {reason.value}", environment=SANDBOX)
        assert isinstance(sold, Subscription)
        life.take_in(sold)
        life.pass_time(life.now + DAY)
        life.take_in(actions.expire(sold, life.now, reason))
    return life


def one_time_refunds() -> Book:
    life = buys(COINS, "coins", of=buys(PRO_LIFETIME, "lifetime"), days=1)
    life.change(move(life.customer, CurrencyTransaction("spent", "COIN", -30, life.now)))
    for one in life.customer.purchases:
        life.take_in(actions.refund(one, life.now))
    life.pass_time(life.now + DAY)
    again = life.customer.purchase("test_store", "coins")
    assert again is not None
    life.take_in(actions.reverse_refund(again, life.now))
    return life


def told_by_a_store() -> Book:
    """One-time purchases: the store says of one when it told of it, of the other not."""
    life = buys(PRO_PASS, "pass")
    sold = actions.sell(PRO_LIFETIME, life.now, id="lifetime", environment=SANDBOX, app_id="app_ios")
    assert isinstance(sold, Purchase)
    life.take_in(replace(sold, told_at=life.now))
    life.pass_time(life.now + DAY)
    return life


def grants() -> Book:
    life = buys(PRO_MONTHLY)
    life.change(grant(life.customer, "team", NOON + 5 * DAY, life.now, duration="three_day"))
    life.change(grant(life.customer, "pro", None, life.now))
    life.change(grant(life.customer, "team", NOON + 90 * DAY, life.now))
    life.pass_time(NOON + 10 * DAY)
    return life


def grants_revoked() -> Book:
    life = grants()
    life.change(revoke(life.customer, "pro", life.now))
    life.pass_time(life.now + HOUR)
    return life


def store_out_of_reach() -> Book:
    """Three temporary grants: one that ended by itself, one settled by the purchase, one running."""
    life = book()
    for id, product in (("ended", PRO_YEARLY), ("settled", PRO_MONTHLY), ("running", TEAM_MONTHLY)):
        life.take_in(actions.store_outage(life.customer, product, life.now, id=id, environment=SANDBOX))
        if id == "settled":
            buys(product, "the purchase", of=life)
        life.pass_time(life.now + (25 * HOUR if id == "ended" else HOUR))
    return life


def noted() -> Book:
    life = buys(COINS, "coins", of=buys(PRO_MONTHLY))
    notes = {"$email": Attribute("ann@example.com", NOON), "color": Attribute("blü", NOON), "gone": Attribute("x", 1)}
    life.change(with_attributes(life.customer, notes))
    life.change(with_attributes(life.customer, {"gone": Attribute("", NOON)}))
    life.change(move(life.customer, CurrencyTransaction("spent", "COIN", -30, life.now)))
    life.change(enroll(life.customer, EXPERIMENT, life.now))
    return life


def on_a_test_clock() -> Book:
    return buys(PRO_YEARLY, of=book(test_clock_id="clock_1"), days=100)


def detached_product() -> Book:
    return buys(OLD_PLAN, days=10)


def from_another_store() -> Book:
    """Periods of every type, as a store's adapter would report them."""
    life = book()
    for number, type in enumerate(PeriodType):
        begin = NOON + number * 40 * DAY
        period = Period(
            id=f"{type.value}.1",
            number=1,
            cause=Cause.TRIAL if type is PeriodType.TRIAL else Cause.PURCHASE,
            product_id="pro_monthly",
            period_type=type,
            purchased_at=begin,
            ends_at=begin + 30 * DAY,
            as_of=Moment(begin, 1),
            price=Price(0 if type is PeriodType.TRIAL else 7_990_000, "EUR"),
        )
        told = Subscription(
            store="app_store",
            id=type.value,
            environment=Environment.PRODUCTION,
            periods=(period,),
            status=Status(as_of=Moment(begin, 1), auto_renew=False, renewal_off_at=begin),
            ownership=Ownership.FAMILY_SHARED if type is PeriodType.INTRO else Ownership.PURCHASED,
        )
        life.take_in(told, begin)
    one_time = actions.sell(PRO_LIFETIME, life.now, id="bought", environment=Environment.PRODUCTION, app_id="app_ios")
    life.take_in(replace(one_time, store="app_store"))
    return life


def paid_abroad() -> Book:
    """Payments with all, some and none of their terms, and partial refunds."""
    life = book()
    rate = Rate("1.0834", "2025-12-31")
    known: tuple[Terms | None, ...] = (Terms(rate, 0.19, 0.15), Terms(), None)
    for number, terms in enumerate(known, start=1):
        begin, country = NOON + number * 40 * DAY, "DE" if terms is not None else None
        period = Period(
            id=f"in_{number}",
            number=1,
            cause=Cause.PURCHASE,
            product_id="pro_monthly",
            period_type=PeriodType.NORMAL,
            purchased_at=begin,
            ends_at=begin + 30 * DAY,
            as_of=Moment(begin),
            price=Price(7_990_000, "EUR"),
            given_back=1_000_000,
            country=country,
            terms=terms,
        )
        told = Subscription(
            store="stripe",
            id=f"sub_{number}",
            environment=Environment.PRODUCTION,
            periods=(period,),
            status=Status(as_of=Moment(begin)),
            invoices=(Invoice(f"in_{number}", begin, Price(7_990_000, "EUR"), terms),),
        )
        life.take_in(told, begin)
        sold = actions.sell(
            PRO_LIFETIME, life.now, id=f"pi_{number}", environment=Environment.PRODUCTION, app_id="app_ios"
        )
        assert isinstance(sold, Purchase)
        life.take_in(replace(sold, store="stripe", given_back=500_000, country=country, terms=terms))
    return life


def bought_from_an_offering() -> Book:
    """A subscription and a one-time purchase with the offering that the app told, and another without one."""
    life = book()
    for id, offering in (("shown", "default"), ("unknown", None)):
        sub = actions.sell(PRO_MONTHLY, life.now, id=id, environment=Environment.SANDBOX)
        assert isinstance(sub, Subscription)
        life.take_in(replace(sub, periods=(replace(sub.current, offering=offering),)))
        once = actions.sell(PRO_LIFETIME, life.now, id=f"{id} once", environment=Environment.SANDBOX)
        assert isinstance(once, Purchase)
        life.take_in(replace(once, offering=offering))
    return life


def given_back_in_parts() -> Book:
    """Parts of the price of a subscription and of a one-time purchase went back, each on a day of its own."""
    life = book()
    sub = actions.sell(PRO_MONTHLY, life.now, id="sub", environment=Environment.PRODUCTION)
    assert isinstance(sub, Subscription)
    once = actions.sell(PRO_LIFETIME, life.now, id="once", environment=Environment.PRODUCTION)
    assert isinstance(once, Purchase)
    for day, micros in ((1, 1_000_000), (2, 3_000_000)):
        told_at = life.now + day * DAY
        period = replace(sub.current, given_back=micros, as_of=Moment(told_at))
        life.take_in(replace(sub, store="stripe", periods=(period,)), told_at)
        life.take_in(replace(once, store="stripe", given_back=micros, told_at=told_at), told_at)
    return life


def caused(row: Row) -> Callable[[], Book]:
    def life() -> Book:
        lived = book()
        row.cause(lived)
        return lived

    life.__name__ = row.cause.__name__
    return life


LIVES: tuple[Callable[[], Book], ...] = (
    *map(caused, ROWS),
    off_for_every_reason, ended_for_every_reason, one_time_refunds, told_by_a_store, grants, grants_revoked,
    store_out_of_reach, noted, on_a_test_clock, detached_product, from_another_store, paid_abroad,
    bought_from_an_offering, given_back_in_parts,
)  # fmt: skip
