"""Products: what can be bought, for how much, for how long, and what comes with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from latchkey.domain.catalog import Credit, ProductKind
from latchkey.domain.currency import MAX_BALANCE
from latchkey.domain.instants import Ms
from latchkey.domain.money import Price, to_micros
from latchkey.domain.naming import checked_currency, checked_duration, checked_id, checked_name
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.storage.database import Connection, Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.catalog import changing_catalog

LOAD_PRODUCT = query("load_product")
LIST_PRODUCTS = query("list_products")
SAVE_PRODUCT = query("save_product")
DELETE_PRODUCT = query("delete_product")
LOAD_CURRENCY = query("load_currency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an operator says about a product. Its kind can never change: people may hold it."""

    kind: ProductKind
    price: float
    currency: str
    # The id, unless another is given.
    display_name: str | None = None
    duration: str | None = None
    trial_duration: str | None = None
    credits: Credit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    id: str
    display_name: str
    kind: ProductKind
    price: Price
    duration: str | None
    trial_duration: str | None
    credits: Credit | None
    entitlement_ids: tuple[str, ...]
    created_at: Ms
    deleted_at: Ms | None

    @property
    def terms(self) -> Terms:
        return Terms(
            kind=self.kind,
            price=self.price.amount,
            currency=self.price.currency,
            display_name=self.display_name,
            duration=self.duration,
            trial_duration=self.trial_duration,
            credits=self.credits,
        )


async def create_product(database: Database, project_id: str, product_id: str, terms: Terms, now: Ms) -> Product:
    """A new product, or a deleted one on new terms: it still grants what it did, to those who hold it."""
    checked_id(product_id)
    async with changing_catalog(database, project_id) as connection:
        before = await _load(connection, project_id, product_id)
        if before is not None and before.deleted_at is None:
            raise Conflict(f"There is already a product {product_id!r} in this project.", param="id")
        if before is not None and before.kind is not terms.kind:
            raise Conflict(
                f"{product_id!r} was a {before.kind} product once, and customers may hold it. "
                "Make it one again, or choose another id.",
                param="kind",
            )
        return await _save(connection, project_id, product_id, terms, now)


async def update_product(database: Database, project_id: str, product_id: str, changes: dict[str, Any]) -> Product:
    """The product with some of its terms changed. A running subscription keeps the price it was bought at."""
    async with changing_catalog(database, project_id) as connection:
        before = _on_sale(await _load(connection, project_id, product_id), product_id)
        terms = replace(before.terms, **changes)
        return await _save(connection, project_id, product_id, terms, before.created_at)


async def delete_product(database: Database, project_id: str, product_id: str, now: Ms) -> None:
    """Nobody can buy it any more. Those who hold it keep what it grants, and their subscriptions go on."""
    async with changing_catalog(database, project_id) as connection:
        if await connection.execute(DELETE_PRODUCT, project_id, product_id, now) == "UPDATE 0":
            raise _missing(product_id)


async def load_product(database: Database, project_id: str, product_id: str) -> Product:
    async with database.acquire() as connection:
        return _on_sale(await _load(connection, project_id, product_id), product_id)


async def list_products(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Product]:
    async with database.acquire() as connection:
        return [product_of(row) for row in await connection.fetch(LIST_PRODUCTS, project_id, after, limit)]


async def _save(connection: Connection, project_id: str, product_id: str, terms: Terms, created_at: Ms) -> Product:
    micros = _checked(terms)
    credit = terms.credits
    if credit is not None and await connection.fetchrow(LOAD_CURRENCY, project_id, credit.code) is None:
        raise NotFound(f"There is no virtual currency {credit.code!r} in this project.", param="credits.code")
    await connection.execute(
        SAVE_PRODUCT,
        project_id,
        product_id,
        product_id if terms.display_name is None else checked_name(terms.display_name, "display_name"),
        terms.kind,
        terms.duration,
        terms.trial_duration,
        micros,
        terms.currency,
        credit.code if credit is not None else None,
        credit.amount if credit is not None else None,
        created_at,
    )
    return _on_sale(await _load(connection, project_id, product_id), product_id)


def _checked(terms: Terms) -> int:
    """The price in millionths, where all of the terms make sense together."""
    subscribes = terms.kind is ProductKind.SUBSCRIPTION
    if terms.duration is not None:
        checked_duration(terms.duration)
    elif subscribes:
        raise Invalid("A subscription needs a duration, such as P1M.", param="duration")
    if terms.trial_duration is not None:
        if not subscribes:
            raise Invalid("Only a subscription can have a trial.", param="trial_duration")
        checked_duration(terms.trial_duration, "trial_duration")
    if terms.credits is not None:
        checked_id(terms.credits.code, "credits.code")
        if not 1 <= terms.credits.amount <= MAX_BALANCE:
            raise Invalid("The amount of credits is a whole number from 1 on.", param="credits.amount")
    checked_currency(terms.currency)
    try:
        return to_micros(terms.price)
    except ValueError as error:
        raise Invalid(str(error), param="price") from None


async def _load(connection: Connection, project_id: str, product_id: str) -> Product | None:
    row = await connection.fetchrow(LOAD_PRODUCT, project_id, product_id)
    return product_of(row) if row is not None else None


def product_of(row: Record) -> Product:
    return Product(
        id=row["id"],
        display_name=row["display_name"],
        kind=ProductKind(row["kind"]),
        price=Price(row["price_micros"], row["currency"]),
        duration=row["duration"],
        trial_duration=row["trial_duration"],
        credits=Credit(row["credits_code"], row["credits_amount"]) if row["credits_code"] is not None else None,
        entitlement_ids=tuple(row["entitlement_ids"]),
        created_at=row["created_at"],
        deleted_at=row["deleted_at"],
    )


def _on_sale(product: Product | None, product_id: str) -> Product:
    if product is None or product.deleted_at is not None:
        raise _missing(product_id)
    return product


def _missing(product_id: str) -> NotFound:
    return NotFound(f"There is no product {product_id!r} in this project.", param="product_id")
