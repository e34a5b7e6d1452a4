"""What an account sells: each price of a product is a product of the catalog, as purchases name it."""

from latchkey.domain.catalog import ListedPrice, ProductType
from latchkey.domain.instants import Duration
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.stripe.reading import StripeReader
from latchkey.stores.stripe.selling import SoldPrice

_INTERVALS = {"day": Duration(days=1), "week": Duration(days=7), "month": Duration(months=1), "year": Duration(12)}


async def list_products(reader: StripeReader, app: ConnectedApp) -> tuple[StoreProduct, ...]:
    return tuple(map(_sold, await reader.everything(app, "prices", SoldPrice, expand=["data.product"])))


def _sold(price: SoldPrice) -> StoreProduct:
    every, product = price.recurring, price.product
    unit = _INTERVALS.get(every.interval) if every is not None else None
    count = every.interval_count if every is not None else 0
    return StoreProduct(
        id=price.sold_as,
        name=" ".join(filter(None, (product.name, f"({price.nickname})" if price.nickname else ""))),
        type=ProductType.ONE_TIME if every is None else ProductType.SUBSCRIPTION,
        on_sale=product.active and price.active,
        duration=Duration(unit.months * count, unit.days * count) if unit is not None else None,
        # Without one the price has tiers, or the buyer chooses it.
        prices=(ListedPrice(price.price),) if price.unit_amount is not None else (),
    )
