"""Which products credit a virtual currency. The product holds its credit, one currency and an amount; the vendor's
clients see the same as a list of grants of the currency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latchkey.domain.catalog import ProductKind
from latchkey.domain.customers.currency import MAX_BALANCE
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.storage.catalog import currencies, products
from latchkey.storage.catalog.currencies import CreditedProduct
from latchkey.storage.database import Connection, Database

PARAM = "product_grants"


@dataclass(frozen=True, slots=True)
class ProductGrant:
    """Each of these products credits this amount with a purchase."""

    product_ids: tuple[str, ...]
    amount: int


async def load_grants(database: Database, project_id: str, codes: Sequence[str]) -> dict[str, list[ProductGrant]]:
    """The grants of each of these currencies, by products on sale; the products with the same amount are one grant."""
    async with database.acquire() as connection:
        found = await currencies.credited_products(connection, project_id, codes)
    return {code: _grouped(one for one in found if one.code == code) for code in codes}


async def set_grants(connection: Connection, project_id: str, code: str, grants: Sequence[ProductGrant]) -> None:
    """From now on these products credit the currency, and no others. Needs a transaction of `changing_catalog`."""
    wanted: dict[str, int] = {}
    for grant in grants:
        if not 1 <= grant.amount <= MAX_BALANCE:
            raise Invalid("The amount of a grant is a whole number from 1 on.", param=PARAM)
        for product_id in grant.product_ids:
            if product_id in wanted:
                raise Invalid(f"{product_id!r} is in the grants twice.", param=PARAM)
            wanted[product_id] = grant.amount
    for product_id, amount in wanted.items():
        await _require(connection, project_id, product_id, code)
        await currencies.set_credit(connection, project_id, product_id, code, amount)
    for one in await currencies.credited_products(connection, project_id, [code]):
        if one.product_id not in wanted:
            await currencies.set_credit(connection, project_id, one.product_id, None, None)


async def _require(connection: Connection, project_id: str, product_id: str, code: str) -> None:
    product = await products.load(connection, project_id, product_id)
    if product is None or product.deleted_at is not None:
        raise NotFound(f"There is no product {product_id!r} in this project.", param=PARAM)
    if product.kind is not ProductKind.ONE_TIME:
        raise Refusal(f"{product_id!r} is a subscription; only one-time products credit virtual currency.", param=PARAM)
    if product.credits is not None and product.credits.code != code:
        raise Refusal(
            f"{product_id!r} credits {product.credits.code} already, and a product credits one currency.", param=PARAM
        )


def _grouped(credited: Iterable[CreditedProduct]) -> list[ProductGrant]:
    by_amount: dict[int, list[str]] = {}
    for one in credited:
        by_amount.setdefault(one.amount, []).append(one.product_id)
    return [ProductGrant(tuple(ids), amount) for amount, ids in sorted(by_amount.items())]
