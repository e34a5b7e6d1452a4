"""What is taken from a payment before the developer is paid: the tax, and the store's commission.

Public terms of the stores (`domain/stores/stores.toml`) are the starting point; docs/money.md lists them. A
project says in which programs it is, and may give its own percentages by store, country and day, which win. Tax is
known only where the project gives it.
"""

from enum import StrEnum

from msgspec import Struct

from latchkey.domain.stores.store import store_of

# Stored shares have this many decimals: a millionth of the price.
_DECIMALS = 6


class Program(StrEnum):
    SMALL_BUSINESS = "small_business"


class Enrolment(Struct, frozen=True):
    """The project is in a store's program from a day on (days since 1970-01-01), and until the end of another."""

    store: str
    program: Program
    starts: int
    ends: int | None = None

    def covers(self, store: str, day: int) -> bool:
        return self.store == store and self.starts <= day and (self.ends is None or day <= self.ends)


class Percentages(Struct, frozen=True):
    """What the project itself says, from a day on. None as a store or country means all of them."""

    starts: int
    store: str | None = None
    country: str | None = None
    # The share that the store takes: of the price, or of what the tax leaves of it, as the store does it.
    commission_rate: float | None = None
    # The tax that is included in the price: 0.19 for 19 % on top of the net price.
    tax_rate: float | None = None

    def fits(self, store: str, country: str | None, day: int) -> bool:
        return self.starts <= day and self.store in (None, store) and self.country in (None, country)

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """The store counts more than the country, and a later day more than an earlier one."""
        return self.store is not None, self.country is not None, self.starts


class Fees(Struct, frozen=True):
    """What a project has said about its programs and percentages."""

    enrolments: tuple[Enrolment, ...] = ()
    percentages: tuple[Percentages, ...] = ()

    def tax(self, store: str, country: str | None, day: int) -> float | None:
        """The share of the price that is tax."""
        own = next((one.tax_rate for one in self._fitting(store, country, day) if one.tax_rate is not None), None)
        return None if own is None else round(own / (1 + own), _DECIMALS)

    def commission(
        self,
        store: str,
        country: str | None,
        day: int,
        *,
        subscription: bool,
        first_year: bool = True,
        tax: float | None = None,
    ) -> float | None:
        """The share of the price that the store keeps. `first_year`: the subscription has not had a year of paid
        service yet. `tax` is the share of the price that is tax."""
        terms = store_of(store).terms
        given = (one.commission_rate for one in self._fitting(store, country, day))
        rate = next((own for own in given if own is not None), None)
        if rate is None:
            rate = terms.subscription if subscription else terms.one_time
            if subscription and not first_year and terms.after_first_year is not None:
                rate = terms.after_first_year
            if terms.small_business is not None and any(enrolment.covers(store, day) for enrolment in self.enrolments):
                rate = terms.small_business
        if rate is None:
            return None
        return round(rate * (1 - tax) if terms.tax_first and tax is not None else rate, _DECIMALS)

    def _fitting(self, store: str, country: str | None, day: int) -> list[Percentages]:
        """The most specific ones first."""
        fitting = [percentage for percentage in self.percentages if percentage.fits(store, country, day)]
        return sorted(fitting, key=lambda one: one.rank, reverse=True)


NO_FEES = Fees()


def takehome(store: str | None, commission: float | None, tax: float | None) -> float:
    """What is left of a price after the store's share, before tax: 0.7 where the store takes 30 %. Without a known
    commission, what the store's entry assumes."""
    terms = store_of(store).terms
    if commission is None:
        return round(1 - (terms.assumed if terms.subscription is None else terms.subscription), 4)
    rate = commission / (1 - tax) if terms.tax_first and tax is not None and tax < 1 else commission
    return round(1 - rate, 4)
