"""Prices of a product beside its own: for a store, a country, a currency. Which of them a buyer sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from latchkey.domain.money import Price


@dataclass(frozen=True, slots=True)
class ListedPrice:
    price: Price
    # None: in any store, in any country.
    store: str | None = None
    country: str | None = None

    @property
    def id(self) -> str:
        """How the API names it within its product."""
        return f"{self.store or '-'}.{self.country or '-'}.{self.price.currency}"


def price_for(
    own: Price, listed: Iterable[ListedPrice], *, store: str | None, country: str | None, currency: str | None
) -> Price:
    """What a buyer in this store and country sees, who asked for this currency if it is given. The currency counts
    first, then the country, then the store. A price in another currency than the product's own is for those who asked
    for that currency, or are in its country. Without a fitting one the product's own price counts."""

    def fits(one: ListedPrice) -> bool:
        here = one.store in (None, store) and one.country in (None, country)
        return here and (one.country is not None or one.price.currency in (own.currency, currency))

    def rank(one: ListedPrice) -> tuple[bool, bool, bool, bool, str]:
        code = one.price.currency
        wanted = currency is not None and code == currency
        return wanted, one.country is not None, one.store is not None, code == own.currency, code

    # The product's own price is one for any store and country. A listed one of the same kind replaces it.
    candidates = [*filter(fits, listed), ListedPrice(own)]
    return max(candidates, key=rank).price
