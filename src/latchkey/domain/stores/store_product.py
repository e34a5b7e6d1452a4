"""A product as its store describes it to the developer, in words that no store has for itself."""

from msgspec import UNSET, Struct, UnsetType

from latchkey.domain.catalog import ListedPrice, ProductType
from latchkey.domain.formats import in_words, money
from latchkey.domain.instants import Duration
from latchkey.domain.money.amounts import Price

HOME = "US"


class StoreProduct(Struct, frozen=True, kw_only=True):
    # As purchases name it: with its base plan, or its price at Stripe, after a colon.
    id: str
    name: str
    # `ONE_TIME` where the store does not say more.
    type: ProductType
    # False: archived, inactive, removed from sale.
    on_sale: bool = True
    # None: the store has none, or one that no catalog has.
    duration: Duration | None = None
    # UNSET: the store leaves trials to who sells.
    trial: Duration | UnsetType | None = UNSET
    # By country, or one for all of them. The first is what a catalog without other prices should have.
    prices: tuple[ListedPrice, ...] = ()
    # Introductory prices and other offers, in words. The catalog has no place for them.
    offers: tuple[str, ...] = ()


def from_home(prices: dict[str, Price]) -> tuple[ListedPrice, ...]:
    """By country: the home of most catalogs' prices first."""
    places = sorted(prices, key=lambda country: (country != HOME, country))
    return tuple(ListedPrice(prices[country], country=country) for country in places)


def offer_in_words(name: str, price: Price | None, duration: Duration, periods: int = 1) -> str:
    costs = "free" if price is None or not price.micros else money(price.micros, price.currency)
    return f"{name}: {costs} for {f'{periods} times ' if periods > 1 else ''}{in_words(duration)}"
