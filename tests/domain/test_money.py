"""Amounts, which of a product's prices a buyer sees, files of exchange rates, and which rate counts for a day."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.catalog import ListedPrice, price_for
from latchkey.domain.money.amounts import HIGHEST, MICROS, Price, to_micros
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate, RatesRefused, date_of, day_of, plain, read_rates
from latchkey.domain.money.pinned_rates import REFERENCE, REFERENCE_DATE, rate_on


@given(st.integers(min_value=0, max_value=HIGHEST * MICROS))
def test_an_amount_survives_the_way_out_and_in_again(micros: int) -> None:
    assert to_micros(Price(micros, "USD").amount) == micros


@pytest.mark.parametrize(("written", "micros"), [(0, 0), (9.99, 9_990_000), (0.1 + 0.2, None), (1e-6, 1), (1e-7, None)])
def test_an_amount_has_at_most_six_decimals(written: float, micros: int | None) -> None:
    if micros is None:
        with pytest.raises(ValueError, match="6 decimals"):
            to_micros(written)
    else:
        assert to_micros(written) == micros


@pytest.mark.parametrize("written", [-0.01, HIGHEST + 0.01, 1e300, float("inf"), float("nan")])
def test_an_amount_beyond_every_price_is_refused(written: float) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        to_micros(written)


OWN = Price(10_000_000, "USD")
EUR, EUR_DE, EUR_PADDLE_DE = (Price(micros, "EUR") for micros in (9, 8, 7))
YEN_JP, USD_PADDLE, CHF_DE = Price(1500, "JPY"), Price(11, "USD"), Price(6, "CHF")
LISTED = (
    ListedPrice(EUR),
    ListedPrice(EUR_DE, country="DE"),
    ListedPrice(EUR_PADDLE_DE, "paddle", "DE"),
    ListedPrice(YEN_JP, country="JP"),
    ListedPrice(USD_PADDLE, "paddle"),
)


@pytest.mark.parametrize(
    ("store", "country", "currency", "seen"),
    [
        (None, None, None, OWN),
        ("test_store", "US", None, OWN),
        # Nobody asked for euros.
        ("test_store", "FR", None, OWN),
        ("test_store", "FR", "EUR", EUR),
        ("test_store", None, "EUR", EUR),
        ("test_store", "DE", None, EUR_DE),
        ("test_store", "DE", "EUR", EUR_DE),
        ("paddle", "DE", None, EUR_PADDLE_DE),
        ("paddle", "US", None, USD_PADDLE),
        ("paddle", "FR", "EUR", EUR),
        ("test_store", "JP", None, YEN_JP),
        ("test_store", "JP", "EUR", EUR),
        ("test_store", "JP", "USD", OWN),
        # There is no price in the currency that was asked for.
        ("test_store", "DE", "GBP", EUR_DE),
        ("test_store", "US", "GBP", OWN),
    ],
)
def test_the_currency_counts_first_then_the_country_then_the_store(
    store: str | None, country: str | None, currency: str | None, seen: Price
) -> None:
    for listed in (LISTED, LISTED[::-1]):
        assert price_for(OWN, listed, store=store, country=country, currency=currency) == seen


def test_a_price_for_everybody_in_the_products_currency_takes_the_place_of_its_own() -> None:
    other = ListedPrice(Price(5, "USD"))
    assert price_for(OWN, [other], store=None, country=None, currency=None) == other.price


def test_of_two_currencies_of_one_country_the_products_own_counts() -> None:
    listed = [ListedPrice(CHF_DE, country="DE"), ListedPrice(Price(12, "USD"), country="DE")]
    assert price_for(OWN, listed, store=None, country="DE", currency=None) == Price(12, "USD")
    assert price_for(OWN, listed, store=None, country="DE", currency="CHF") == CHF_DE


def test_an_id_says_for_whom_it_is() -> None:
    assert [one.id for one in LISTED[:3]] == ["-.-.EUR", "-.DE.EUR", "paddle.DE.EUR"]


FRIDAY = day_of("2026-11-13")
TODAY = FRIDAY + 3


def rates_of(text: str) -> dict[tuple[str, str], str]:
    return {(one.rate.currency, date_of(one.rate.day)): one.rate.usd for one in read_rates(text, TODAY)}


def test_our_own_form_in_any_order_of_columns() -> None:
    text = "date,currency,usd\n2026-11-13,EUR,1.0834\n2026-11-13,JPY,0.00647\n\n"
    assert rates_of(text) == {("EUR", "2026-11-13"): "1.0834", ("JPY", "2026-11-13"): "0.00647"}
    assert rates_of("\ufeffcurrency, USD ,Date\r\nEUR, 1.08340 ,2026-11-13\r\n") == {("EUR", "2026-11-13"): "1.0834"}


def test_the_central_banks_history_is_turned_from_euros_into_dollars() -> None:
    text = "Date,USD,JPY,BGN,\n2026-11-13,1.0834,167.51,N/A,\n2026-11-12,1.0800,166,1.9558,\n"
    assert rates_of(text) == {
        ("EUR", "2026-11-13"): "1.0834",
        ("JPY", "2026-11-13"): "0.00646767357172706",
        ("EUR", "2026-11-12"): "1.08",
        ("JPY", "2026-11-12"): "0.00650602409638554",
        ("BGN", "2026-11-12"): "0.552203701810001",
    }


def test_the_central_banks_file_of_one_day() -> None:
    assert rates_of("Date, USD, GBP, \n13 November 2026, 1.0834, 0.8742, \n") == {
        ("EUR", "2026-11-13"): "1.0834",
        ("GBP", "2026-11-13"): "1.23930450697781",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: the header must be date,currency,usd"),
        ("a,b,c\n1,2,3\n", "line 1: the header"),
        ("date,currency,usd\n", "no rates"),
        ("date,currency,usd\n2026-11-13,EUR\n", "line 2: three columns are expected, not 2"),
        ("date,currency,usd\n13.11.2026,EUR,1\n", "line 2: '13.11.2026' is not a date"),
        ("date,currency,usd\n20261113,EUR,1\n", "line 2: '20261113' is not a date"),
        ("date,currency,usd\n2026-02-30,EUR,1\n", "line 2: '2026-02-30' is not a date"),
        ("date,currency,usd\n2026-11-18,EUR,1\n", "line 2: 2026-11-18 is in the future"),
        ("date,currency,usd\n2026-11-13,euro,1\n", "line 2: 'euro' is not a currency"),
        ("date,currency,usd\n2026-11-13,EUR,1e3\n", "line 2: '1e3' is not a number"),
        ("date,currency,usd\n2026-11-13,EUR,-1\n", "line 2: '-1' is not a number"),
        ("date,currency,usd\n2026-11-13,EUR,NaN\n", "line 2: 'NaN' is not a number"),
        ("date,currency,usd\n2026-11-13,EUR,0\n", "line 2: a rate is not zero"),
        ("date,currency,usd\n2026-11-13,EUR,1000001\n", "line 2: 1000001 is not a rate"),
        ("date,currency,usd\n2026-11-13,EUR,1.234567890123456\n", "at most 15 significant digits"),
        ("date,currency,usd\n2026-11-13,USD,1.1\n", "line 2: the rate of USD is always 1"),
        ("date,currency,usd\n2026-11-13,EUR,1\n2026-11-13,EUR,2\n", "line 3: EUR has another rate .* in line 2"),
        ("Date,USD,JPY,\n2026-11-13,N/A,167,\n", "line 2: 'N/A' is not a number"),
        ("Date,USD,JPY,\n2026-11-13,1.1,\n", "line 2: 4 columns are expected, not 3"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_taken(text: str, complaint: str) -> None:
    with pytest.raises(RatesRefused, match=complaint) as refused:
        read_rates(text, TODAY)
    assert refused.value.message.startswith("No rate was taken.")


def test_all_wrong_lines_are_counted_and_the_first_are_shown() -> None:
    text = "date,currency,usd\n" + "x,y,z\n" * 25
    with pytest.raises(RatesRefused, match=r"line 11: .*; and 15 more") as refused:
        read_rates(text, TODAY)
    assert [line for line, _ in refused.value.problems] == list(range(2, 27))


@pytest.mark.parametrize(
    ("day", "found"), [(-1, None), (0, 0), (1, 0), (7, 0), (8, None), (30, 30), (37, 30), (38, None)]
)
def test_the_newest_day_not_after_and_at_most_a_week_older(day: int, found: int | None) -> None:
    rates = NO_RATES.plus([DayRate("EUR", FRIDAY + 30, "1.2"), DayRate("EUR", FRIDAY, "1.1")])
    rate = rates.on("EUR", FRIDAY + day)
    assert (None if rate is None else rate.day - FRIDAY) == found
    assert rates.on("JPY", FRIDAY) is None


_RATES = st.lists(
    st.tuples(st.sampled_from(["EUR", "JPY"]), st.integers(0, 40), st.sampled_from(["1", "2", "3"])), max_size=20
)


@given(_RATES, _RATES, st.sampled_from(["EUR", "JPY"]), st.integers(-5, 60))
def test_rates_loaded_in_parts_are_as_if_loaded_at_once(
    first: list[tuple[str, int, str]], second: list[tuple[str, int, str]], currency: str, day: int
) -> None:
    given_rates = [DayRate(*one) for one in (*first, *second)]
    in_parts = NO_RATES.plus(given_rates[: len(first)]).plus(given_rates[len(first) :])
    last = {(one.currency, one.day): one for one in given_rates}
    days = [known for of, known in last if of == currency and day - 7 <= known <= day]
    assert in_parts.on(currency, day) == (last[currency, max(days)] if days else None)


@given(st.decimals("0.000000001", 1_000_000, places=9))
def test_a_rate_has_one_text_and_it_is_exact(number: Decimal) -> None:
    assert Decimal(plain(number)) == number
    assert plain(Decimal(plain(number)).normalize()) == plain(number)


@given(st.sets(st.integers(0, 60), max_size=12), st.integers(0, 60), st.integers(0, 40))
def test_days_are_covered_if_each_of_them_has_a_rate(known: set[int], first: int, length: int) -> None:
    rates = NO_RATES.plus(DayRate("EUR", day, "1.1") for day in known)
    days = range(first, first + length + 1)
    assert rates.covers("EUR", days[0], days[-1]) == all(rates.on("EUR", day) is not None for day in days)
    assert not rates.covers("JPY", days[0], days[-1])


# Rates that come with Latchkey.


def test_reference_rates_are_of_all_currencies_and_of_one_day() -> None:
    large = "AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD IDR ILS INR JPY KRW KWD MXN NOK PLN SAR SEK TRY TWD ZAR"
    assert set(large.split()) < REFERENCE.keys()
    assert len(REFERENCE) > 160
    assert {rate.day for rate in REFERENCE.values()} == {day_of(REFERENCE_DATE)}


def test_a_rate_of_the_operator_wins_over_the_reference() -> None:
    rates = NO_RATES.plus([DayRate("EUR", FRIDAY, "1.5")])
    assert rate_on(rates, "EUR", FRIDAY) == DayRate("EUR", FRIDAY, "1.5")
    assert rate_on(rates, "EUR", FRIDAY - 1) == REFERENCE["EUR"]
    assert rate_on(rates, "ABC", FRIDAY) is None
