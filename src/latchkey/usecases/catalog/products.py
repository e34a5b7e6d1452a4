"""Products: what customers can buy, at which price, for how long, and with which credits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from latchkey.domain.catalog import Credit, ProductKind
from latchkey.domain.customers.currency import MAX_BALANCE
from latchkey.domain.customers.promotion import PREFIX
from latchkey.domain.instants import Ms
from latchkey.domain.money import Price, to_micros
from latchkey.domain.naming import checked_currency, checked_duration, checked_id, checked_name
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.storage.catalog import currencies, products
from latchkey.storage.catalog.products import Product as Product
from latchkey.storage.catalog.products import ProductTerms
from latchkey.storage.database import Connection, Database
from latchkey.usecases.catalog.version import changing_catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The fields of a product that an operator sets. Its kind can never change, because customers may own it."""

    kind: ProductKind
    price: float
    currency: str
    # Defaults to the product's id.
    display_name: str | None = None
    duration: str | None = None
    trial_duration: str | None = None
    credits: Credit | None = None


async def create_product(database: Database, project_id: str, product_id: str, terms: Terms, now: Ms) -> Product:
    """A new product, or a deleted one on new terms. Its existing owners keep what it grants."""
    checked_id(product_id)
    if product_id.startswith(PREFIX):
        raise Invalid(f"Ids that begin with {PREFIX} are kept for promotional grants. Choose another id.", param="id")
    async with changing_catalog(database, project_id) as connection:
        before = await products.load(connection, project_id, product_id)
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
    """The product with some terms changed. An active subscription keeps the price it was bought at."""
    async with changing_catalog(database, project_id) as connection:
        before = _on_sale(await products.load(connection, project_id, product_id), product_id)
        terms = replace(_terms(before), **changes)
        return await _save(connection, project_id, product_id, terms, before.created_at)


async def delete_product(database: Database, project_id: str, product_id: str, now: Ms) -> None:
    """Takes it off sale. Its owners keep what it grants; their subscriptions renew."""
    async with changing_catalog(database, project_id) as connection:
        if not await products.delete(connection, project_id, product_id, now):
            raise _missing(product_id)


async def load_product(database: Database, project_id: str, product_id: str) -> Product:
    async with database.acquire() as connection:
        return _on_sale(await products.load(connection, project_id, product_id), product_id)


async def list_products(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Product]:
    async with database.acquire() as connection:
        return await products.page(connection, project_id, after, limit)


async def _save(connection: Connection, project_id: str, product_id: str, terms: Terms, created_at: Ms) -> Product:
    price = _checked(terms)
    credit = terms.credits
    if credit is not None and await currencies.load(connection, project_id, credit.code) is None:
        raise NotFound(f"There is no virtual currency {credit.code!r} in this project.", param="credits.code")
    checked = ProductTerms(
        display_name=product_id if terms.display_name is None else checked_name(terms.display_name, "display_name"),
        kind=terms.kind,
        price=price,
        duration=terms.duration,
        trial_duration=terms.trial_duration,
        credits=credit,
    )
    await products.save(connection, project_id, product_id, checked, created_at)
    return _on_sale(await products.load(connection, project_id, product_id), product_id)


def _checked(terms: Terms) -> Price:
    """The price, if the terms are valid together."""
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
        return Price(to_micros(terms.price), terms.currency)
    except ValueError as error:
        raise Invalid(str(error), param="price") from None


def _terms(product: Product) -> Terms:
    return Terms(
        kind=product.kind,
        price=product.price.amount,
        currency=product.price.currency,
        display_name=product.display_name,
        duration=product.duration,
        trial_duration=product.trial_duration,
        credits=product.credits,
    )


def _on_sale(product: Product | None, product_id: str) -> Product:
    if product is None or product.deleted_at is not None:
        raise _missing(product_id)
    return product


def _missing(product_id: str) -> NotFound:
    return NotFound(f"There is no product {product_id!r} in this project.", param="product_id")
