"""What an account sells: each price of a product is a product of the catalog, as purchases name it."""

import msgspec

from latchkey.domain.catalog import ListedPrice, ProductType
from latchkey.domain.instants import Duration
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.stripe.amounts import price_of
from latchkey.stores.stripe.reading import StripeReader

_INTERVALS = {"day": Duration(days=1), "week": Duration(days=7), "month": Duration(months=1), "year": Duration(12)}


class _Product(msgspec.Struct):
    id: str
    name: str = ""
    active: bool = True


class _Recurring(msgspec.Struct):
    interval: str
    interval_count: int = 1


class _Price(msgspec.Struct):
    id: str
    product: str
    currency: str
    active: bool = True
    nickname: str | None = None
    # None: the price has tiers, or the buyer chooses it.
    unit_amount: int | None = None
    recurring: _Recurring | None = None


async def list_products(reader: StripeReader, app: ConnectedApp) -> tuple[StoreProduct, ...]:
    products = {one.id: one for one in await reader.everything(app, "products", _Product)}
    prices = await reader.everything(app, "prices", _Price)
    return tuple(_sold(products[price.product], price) for price in prices if price.product in products)


def _sold(product: _Product, price: _Price) -> StoreProduct:
    every, costs = price.recurring, price.unit_amount
    unit = _INTERVALS.get(every.interval) if every is not None else None
    count = every.interval_count if every is not None else 0
    return StoreProduct(
        id=f"{product.id}:{price.id}",
        name=" ".join(filter(None, (product.name, f"({price.nickname})" if price.nickname else ""))),
        type=ProductType.ONE_TIME if every is None else ProductType.SUBSCRIPTION,
        on_sale=product.active and price.active,
        duration=Duration(unit.months * count, unit.days * count) if unit is not None else None,
        prices=(ListedPrice(price_of(costs, price.currency)),) if costs is not None else (),
    )
