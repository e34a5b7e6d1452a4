"""V2: what a project says about tax and commission, and what is known of exchange rates. Days are YYYY-MM-DD, UTC."""

from typing import Literal

from msgspec import Struct, field


class Program(Struct, frozen=True, kw_only=True):
    """The project is in a store's program."""

    store: str
    program: Literal["small_business"]
    # The first and the last day; null while it goes on.
    starts: str = field(name="from")
    until: str | None


class Percentages(Struct, frozen=True, kw_only=True):
    """What the project says itself, from a day on. The most specific entry counts, and of those the newest."""

    starts: str = field(name="from")
    # Null: every store, every country.
    store: str | None
    country: str | None
    # 0.15 for 15 %. Null: as the store's public terms say.
    commission_rate: float | None
    # The tax that is included in the price: 0.19 for 19 % on the net price. Null: not known.
    tax_rate: float | None


class RatesOfCurrency(Struct, frozen=True, kw_only=True):
    currency: str
    first_date: str
    last_date: str


class MissingRate(Struct, frozen=True, kw_only=True):
    """Payments of the last 30 days, in production, whose amount in USD is an estimate."""

    currency: str
    days: int
    last_date: str


class MoneySettings(Struct, frozen=True, kw_only=True):
    object: Literal["money_settings"] = "money_settings"
    project_id: str
    programs: list[Program]
    percentages: list[Percentages]
    # Of the whole installation: the operator gives them.
    exchange_rates: list[RatesOfCurrency]
    missing_rates: list[MissingRate]
