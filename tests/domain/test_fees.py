"""Tax and commission: the stores' public terms, programs, and a project's own percentages."""

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY
from latchkey.domain.money.amounts import UNKNOWN, Price
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate, day_of
from latchkey.domain.money.fees import NO_FEES, Enrolment, Fees, Percentages, Program, takehome
from latchkey.domain.money.pinned_rates import (
    NO_TARIFF,
    REFERENCE,
    REFERENCE_DATE,
    MissingRate,
    Tariff,
    in_first_year,
    pinned,
)
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Rate, Terms
from latchkey.domain.purchases.subscription import Invoice, Period, Subscription
from tests.domain.shop import NOON, PRO_PASS, bought, someone, subscribed

TODAY = day_of("2026-01-15")
SMALL = Fees((Enrolment("app_store", Program.SMALL_BUSINESS, TODAY - 10, TODAY + 10),))


@pytest.mark.parametrize(
    ("store", "subscription", "first_year", "share"),
    [
        ("app_store", True, True, 0.3),
        ("app_store", True, False, 0.15),
        ("app_store", False, True, 0.3),
        ("mac_app_store", True, False, 0.15),
        ("play_store", True, True, 0.15),
        ("play_store", False, True, 0.3),
        ("amazon", True, False, 0.3),
        ("galaxy", True, True, 0.3),
        ("test_store", True, True, 0.0),
        ("stripe", True, True, None),
        ("paddle", False, True, None),
        ("a bank transfer", True, True, None),
    ],
)
def test_the_stores_public_terms(store: str, subscription: bool, first_year: bool, share: float | None) -> None:
    assert NO_FEES.commission(store, None, TODAY, subscription=subscription, first_year=first_year) == share


@pytest.mark.parametrize(("day", "share"), [(-11, 0.3), (-10, 0.15), (10, 0.15), (11, 0.3)])
def test_the_small_business_program_counts_from_its_first_day_to_its_last(day: int, share: float) -> None:
    assert SMALL.commission("app_store", "DE", TODAY + day, subscription=True) == share
    assert SMALL.commission("play_store", "DE", TODAY + day, subscription=False) == 0.3


def test_a_projects_own_percentages_win_and_the_most_specific_of_them() -> None:
    fees = Fees(
        SMALL.enrolments,
        (
            Percentages(TODAY, commission_rate=0.5, tax_rate=0.1),
            Percentages(TODAY, country="DE", tax_rate=0.19),
            Percentages(TODAY + 5, country="DE", tax_rate=0.16),
            Percentages(TODAY, store="app_store", commission_rate=0.12),
            Percentages(TODAY, store="app_store", country="JP", commission_rate=0.1, tax_rate=0.0),
        ),
    )

    def share(store: str, country: str | None, day: int = TODAY) -> float | None:
        return fees.commission(store, country, day, subscription=True)

    assert share("app_store", "DE") == 0.12
    assert share("app_store", "JP") == 0.1
    assert share("stripe", "DE") == 0.5
    assert share("app_store", "DE", TODAY - 1) == 0.15
    assert fees.tax("stripe", None, TODAY) == 0.090909
    assert fees.tax("stripe", "DE", TODAY) == 0.159664
    assert fees.tax("stripe", "DE", TODAY + 5) == 0.137931
    assert fees.tax("app_store", "JP", TODAY) == 0.0
    assert fees.tax("app_store", "JP", TODAY - 1) is None


def test_where_the_tax_goes_first_the_commission_is_of_the_rest() -> None:
    """11.90 with 19 % tax: 1.90 are tax, and 30 % of 10.00 are 3.00 of 11.90."""
    fees = Fees((), (Percentages(TODAY, country="DE", tax_rate=0.19),))
    tax = fees.tax("app_store", "DE", TODAY)
    assert tax is not None
    assert round(11.90 * tax, 4) == 1.9
    apple = fees.commission("app_store", "DE", TODAY, subscription=True, tax=tax)
    assert apple is not None
    assert round(11.90 * apple, 4) == 3.0
    amazon = fees.commission("amazon", "DE", TODAY, subscription=True, tax=tax)
    assert amazon == 0.3
    assert takehome("app_store", apple, tax) == takehome("amazon", amazon, tax) == 0.7
    assert takehome("app_store", 0.15, None) == 0.85


@pytest.mark.parametrize(
    ("store", "left"), [("stripe", 0.971), ("rc_billing", 0.971), ("paddle", 1), ("app_store", 0.7), (None, 1)]
)
def test_where_no_commission_is_known_the_stores_entry_has_one(store: str | None, left: float) -> None:
    assert takehome(store, None, 0.2) == left


# Pinning.

EUR = Tariff(SMALL, NO_RATES.plus([DayRate("EUR", TODAY, "1.1")]))


def of_apple(*periods: Period) -> Subscription:
    one = subscribed()
    return replace(one, store="app_store", environment=Environment.PRODUCTION, periods=periods or one.periods)


def test_a_new_payment_gets_its_terms_and_keeps_them() -> None:
    customer = replace(someone(), purchases=(bought(PRO_PASS),), subscriptions=(of_apple(),))
    first = pinned(customer, EUR).customer
    assert first.purchases[0].terms == Terms(Rate("1.1", "2026-01-15"), None, 0.0)
    assert first.subscriptions[0].current.terms == Terms(None, None, 0.15)
    later = Tariff(NO_FEES, NO_RATES.plus([DayRate("EUR", TODAY, "2")]))
    assert pinned(first, later).customer is first


def test_without_a_rate_the_reference_rate_counts_which_is_noted_in_production_only() -> None:
    purchase = bought(PRO_PASS)
    customer = replace(someone(), purchases=(purchase,))
    kept, missing = pinned(customer, NO_TARIFF)
    assert kept.purchases[0].terms == Terms(Rate(REFERENCE["EUR"].usd, REFERENCE_DATE), None, 0.0)
    assert missing == frozenset()
    real = replace(purchase, store="app_store", environment=Environment.PRODUCTION)
    assert pinned(replace(customer, purchases=(real,)), NO_TARIFF).missing == {MissingRate("EUR", TODAY)}
    # Once estimated, it stays so.
    assert pinned(kept, EUR).customer is kept


def test_a_price_that_is_not_known_yet_waits_for_its_terms() -> None:
    one = of_apple()
    unknown = replace(someone(), subscriptions=(replace(one, periods=(replace(one.current, price=UNKNOWN),)),))
    assert pinned(unknown, EUR).customer is unknown


def test_an_invoice_has_terms_too() -> None:
    one = replace(of_apple(), invoices=(Invoice("in_1", NOON, Price(5_000_000, "EUR")),))
    customer = pinned(replace(someone(), subscriptions=(one,)), EUR).customer
    assert customer.subscriptions[0].invoices[0].terms == Terms(Rate("1.1", "2026-01-15"), None, 0.15)


def months(*starts: int) -> Subscription:
    first = of_apple().current
    return of_apple(
        *(
            replace(first, id=f"t{number}", number=number, purchased_at=NOON + at * DAY, ends_at=NOON + (at + 73) * DAY)
            for number, at in enumerate(starts)
        )
    )


@pytest.mark.parametrize(
    ("starts", "first_year"),
    [
        ([0, 73, 146, 219, 292], True),
        ([0, 73, 146, 219, 292, 365], False),
        # A lapse of up to 60 days is not counted, but what was served before it is.
        ([0, 73, 146, 219, 292, 425], False),
        ([0, 73, 146, 219, 292, 426], True),
        ([0, 73, 146, 219, 352, 425], False),
        ([0, 73, 146, 219, 353, 426], True),
    ],
)
def test_the_first_year_of_paid_service(starts: list[int], first_year: bool) -> None:
    subscription = months(*starts)
    assert in_first_year(subscription, subscription.current) is first_year


def test_free_and_refunded_time_is_no_paid_service() -> None:
    subscription = months(0, 73, 146, 219, 292, 365)
    first, *rest = subscription.periods
    free = replace(subscription, periods=(replace(first, price=Price(0, "USD")), *rest))
    assert in_first_year(free, free.current)
    back = replace(subscription, periods=(replace(first, money_back=(MoneyBack(NOON),)), *rest))
    assert in_first_year(back, back.current)
