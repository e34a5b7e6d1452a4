"""Where the demo's customers live, what they pay there, and what the currencies are worth. All of it is made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sin

from latchkey.domain.instants import Duration
from latchkey.domain.money import MICROS, Price
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STRIPE
from latchkey.domain.tariff.fees import Enrolment, Percentages, Program
from latchkey.domain.tariff.rate_file import date_of

MONTHLY, YEARLY, TEAM, LIFETIME, COINS = "pro_monthly", "pro_yearly", "team_monthly", "pro_lifetime", "coins_100"
# What the first three months of a yearly subscription cost in an introductory offer.
INTRO = "intro"
LENGTHS = {MONTHLY: Duration(months=1), YEARLY: Duration(months=12), TEAM: Duration(months=1)}
INTRO_LENGTH = Duration(months=3)
TRIAL_LENGTH = Duration(days=7)
# The demo's offering that a product is sold from.
OFFERINGS = {MONTHLY: "default", YEARLY: "default", LIFETIME: "default", TEAM: "team", COINS: "coins"}
# As Google Play names what it sells: product and base plan.
PLANS = {MONTHLY: "monthly", YEARLY: "yearly", TEAM: "monthly"}


@dataclass(frozen=True, slots=True)
class Country:
    code: str
    currency: str
    # How many customers come from here, of all weights together.
    weight: int
    # Included in the price; 0 where the demo says nothing of tax.
    tax: float = 0.0


COUNTRIES = (
    Country("US", "USD", 300),
    Country("DE", "EUR", 95, 0.19),
    Country("GB", "GBP", 90, 0.20),
    Country("FR", "EUR", 60, 0.20),
    Country("JP", "JPY", 60, 0.10),
    Country("CA", "CAD", 50),
    Country("BR", "BRL", 50),
    Country("IN", "INR", 50, 0.18),
    Country("AU", "AUD", 45, 0.10),
    Country("ES", "EUR", 35, 0.21),
    Country("MX", "MXN", 35, 0.16),
    Country("NL", "EUR", 30, 0.21),
    Country("SE", "SEK", 25, 0.25),
    Country("CH", "CHF", 25, 0.081),
    Country("KR", "KRW", 25, 0.10),
    Country("PL", "PLN", 25, 0.23),
)

# In units of the currency, as a store's price list has them: monthly, yearly, team, lifetime, coins, intro.
_PRICES = {
    "USD": (9.99, 79.99, 29.99, 199.99, 1.99, 9.99),
    "EUR": (9.99, 79.99, 29.99, 199.99, 1.99, 9.99),
    "GBP": (8.99, 69.99, 26.99, 179.99, 1.79, 8.99),
    "JPY": (1500, 12000, 4500, 30000, 300, 1500),
    "CAD": (12.99, 104.99, 39.99, 259.99, 2.79, 12.99),
    "BRL": (29.90, 239.90, 89.90, 599.90, 6.90, 29.90),
    "INR": (399, 3299, 1199, 7999, 89, 399),
    "AUD": (14.99, 119.99, 44.99, 299.99, 2.99, 14.99),
    "MXN": (149, 1199, 449, 2999, 35, 149),
    "SEK": (109, 879, 329, 2199, 22, 109),
    "CHF": (9.90, 79.90, 29.90, 199.90, 2, 9.90),
    "KRW": (13000, 104000, 39000, 260000, 2600, 13000),
    "PLN": (39.99, 319.99, 119.99, 799.99, 7.99, 39.99),
}
_PLACES = {MONTHLY: 0, YEARLY: 1, TEAM: 2, LIFETIME: 3, COINS: 4, INTRO: 5}

_USD = {
    "EUR": 1.09, "GBP": 1.28, "JPY": 0.0067, "CAD": 0.73, "BRL": 0.18, "INR": 0.0118, "AUD": 0.66, "MXN": 0.054,
    "SEK": 0.096, "CHF": 1.14, "KRW": 0.00072, "PLN": 0.255,
}  # fmt: skip


def price(product: str, currency: str) -> Price:
    """`product`: one of the demo's products, or INTRO."""
    return Price(round(_PRICES[currency][_PLACES[product]] * MICROS), currency)


def rate_file(first: int, last: int) -> str:
    """Exchange rates from one day to another (days since 1970), one a week, as a CSV file. Each currency drifts
    slowly."""
    return "".join(("date,currency,usd\n", *_rates(first, last)))


def _rates(first: int, last: int) -> Iterator[str]:
    for day in (*range(first, last, 7), last):
        for place, (currency, usd) in enumerate(_USD.items()):
            drift = 1 + 0.03 * sin(day / 40 + place) + 0.01 * sin(day / 9 + 2 * place)
            yield f"{date_of(day)},{currency},{usd * drift:.8f}\n"


def programs(first: int) -> list[Enrolment]:
    """Both app stores' programs for small businesses."""
    return [Enrolment(store, Program.SMALL_BUSINESS, first) for store in (APP_STORE, PLAY_STORE)]


def percentages(first: int) -> list[Percentages]:
    """The taxes of the countries, and what Stripe takes."""
    taxes = [Percentages(first, country=one.code, tax_rate=one.tax) for one in COUNTRIES if one.tax]
    return [*taxes, Percentages(first, store=STRIPE, commission_rate=0.029)]
