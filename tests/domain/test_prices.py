"""Which of a product's prices a buyer sees."""

from __future__ import annotations

import pytest

from latchkey.domain.money import Price
from latchkey.domain.prices import ListedPrice, price_for

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
