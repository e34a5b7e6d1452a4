"""Products: what customers can buy, at which price, for how long, and with which credits."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Connection, Database, Executor, OneTransaction
from latchkey.domain import naming
from latchkey.domain.catalog import (
    Catalog,
    Credit,
    ListedPrice,
    Product,
    ProductKind,
    ProductType,
    price_for,
    without_plan,
)
from latchkey.domain.customers.promotion import PREFIX
from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.domain.instants import Ms, parse_duration
from latchkey.domain.money.amounts import Price, to_micros
from latchkey.domain.refusal import Checks, Conflict, Invalid, NotFound, Refusal, found
from latchkey.domain.stores.store import TEST_STORE
from latchkey.engine.storage.catalog import product_rows as storage
from latchkey.engine.storage.catalog.app_rows import APPS, App
from latchkey.engine.storage.catalog.currency_rows import CURRENCIES
from latchkey.subjects.catalog.usecases.entitlement_catalog import attach_products, detach_products
from latchkey.subjects.catalog.usecases.version import changing_catalog


class ProductTerms(Struct, frozen=True, kw_only=True):
    """The fields of a product that an operator sets. Its kind can never change, because customers may own it."""

    kind: ProductKind
    price: float
    currency: str
    # Defaults to the product's id.
    display_name: str | None = None
    duration: str | None = None
    trial_duration: str | None = None
    credits: Credit | None = None
    # Of this kind; None: only the kind is known.
    type: ProductType | None = None
    # The apps in which it is sold; empty means in every app.
    app_ids: tuple[str, ...] = ()
    # Only the store knows how long a subscription lasts. The test store cannot sell it.
    store_decides_duration: bool = False


async def create_product(database: Database, project_id: str, product_id: str, terms: ProductTerms, now: Ms) -> Product:
    """A new product, or a deleted one on new terms. Its existing owners keep what it grants: those of a base plan have
    it by the product without the plan until now."""
    with Checks() as check:
        check(checked_product_id, product_id)
        check(checked_terms, terms)
    async with changing_catalog(database, project_id) as connection:
        plain = without_plan(product_id)
        known = await storage.load_some_products(connection, project_id, [product_id, plain])
        before = known.get(product_id)
        if before is not None and before.on_sale:
            raise Conflict(f"There is already a product {product_id!r} in this project.", param="id")
        if before is not None and before.kind is not terms.kind:
            raise Conflict(
                f"{product_id!r} was a {before.kind} product once, and customers may hold it. "
                "Make it one again, or choose another id.",
                param="kind",
            )
        for app_id in terms.app_ids:
            await _app(connection, project_id, app_id, "app_ids")
        apps = before.apps if before is not None else ()
        await _save(connection, project_id, _product(product_id, terms, apps, now))
        for entitlement_id in known[plain].grants if before is None and plain in known else ():
            await storage.attach(connection, project_id, entitlement_id, [product_id])
        return await load_product(connection, project_id, product_id)


def checked_product_id(id: str) -> str:
    if id.startswith(PREFIX):
        raise Invalid(f"Ids that begin with {PREFIX} are kept for promotional grants. Choose another id.", param="id")
    return naming.checked_id(id)


async def create_in_app(
    database: Database,
    project_id: str,
    product_id: str,
    app_id: str,
    type: ProductType,
    display_name: str | None,
    duration: str | None,
    now: Ms,
) -> Product:
    """A product as one app sells it. It costs nothing until its price is set. If other apps sell a product of this id
    and type, this app sells it too, and its terms stay as they are."""
    async with changing_catalog(database, project_id) as connection:
        app = await _app(connection, project_id, app_id)
        before = await storage.load_product(connection, project_id, product_id)
        if before is not None and before.on_sale:
            if before.type is not type:
                raise Conflict(
                    f"Another app sells {before.id!r} as {before.type}. A product has the same type in every app.",
                    param="type",
                )
            if not before.apps or app_id in before.apps:
                raise Conflict(
                    f"There is already a product {product_id!r} in the app {app_id!r}.", param="store_identifier"
                )
            return await _save(connection, project_id, replace(before, apps=(*before.apps, app_id)))
    if type is ProductType.SUBSCRIPTION and duration is None and app.store == TEST_STORE:
        raise Invalid("A subscription of the test store needs a duration, such as P1M.", param="subscription.duration")
    terms = ProductTerms(
        kind=type.kind,
        price=0,
        currency="USD",
        display_name=display_name,
        duration=duration if type is ProductType.SUBSCRIPTION else None,
        type=type,
        app_ids=(app_id,),
        store_decides_duration=True,
    )
    return await create_product(database, project_id, product_id, terms, now)


async def update_product(database: Database, project_id: str, /, product_id: str, **changes: Any) -> Product:
    """The product with some terms changed. An active subscription keeps the price it was bought at."""
    async with changing_catalog(database, project_id) as connection:
        before = await load_product(connection, project_id, product_id)
        terms = replace(terms_of(before), **changes)
        for app_id in set(terms.app_ids) - set(before.apps):
            await _app(connection, project_id, app_id, "app_ids")
        return await _save(connection, project_id, _product(product_id, terms, before.apps, before.created_at))


async def delete_product(database: Database, project_id: str, product_id: str, now: Ms) -> None:
    """Takes it off sale, with its listed prices. Its owners keep what it grants; their subscriptions renew."""
    async with changing_catalog(database, project_id) as connection:
        await load_product(connection, project_id, product_id)
        await storage.delete_product(connection, project_id, product_id, now)


async def list_products(
    database: Database, project_id: str, after: str | None = None, limit: int | None = 100, *, app_id: str | None = None
) -> list[Product]:
    """Those that are sold in this app, if one is given."""
    async with database.acquire() as connection:
        if app_id is not None:
            await _app(connection, project_id, app_id)
        return await storage.page_products(connection, project_id, after, limit, app_id=app_id)


async def _save(connection: Connection, project_id: str, product: Product) -> Product:
    credit = product.credits
    if credit is not None and await CURRENCIES.find(connection, project_id, credit.code) is None:
        raise NotFound(f"There is no virtual currency {credit.code!r} in this project.", param="credits.code")
    await storage.save_product(connection, project_id, product)
    return await load_product(connection, project_id, product.id)


def _product(id: str, terms: ProductTerms, known: Sequence[str], created_at: Ms) -> Product:
    """Of the apps, those in which it was sold before come first."""
    return Product(
        id=id,
        display_name=id if terms.display_name is None else terms.display_name.strip(),
        kind=terms.kind,
        price=checked_terms(terms),
        duration=parse_duration(terms.duration) if terms.duration is not None else None,
        trial=parse_duration(terms.trial_duration) if terms.trial_duration is not None else None,
        credits=terms.credits,
        type=terms.type,
        apps=tuple(sorted(terms.app_ids, key=lambda app: (known.index(app) if app in known else len(known), app))),
        created_at=created_at,
    )


def checked_terms(terms: ProductTerms) -> Price:
    """The price, if the terms are valid together."""
    subscribes = terms.kind is ProductKind.SUBSCRIPTION
    with Checks() as check:
        if terms.display_name is not None:
            check(naming.checked_name, terms.display_name, "display_name")
        if terms.type is not None and terms.type.kind is not terms.kind:
            wrong = f"A product of the type {terms.type} is of the kind {terms.type.kind}."
            check.add(Invalid(wrong, param="type"))
        if terms.duration is not None:
            check(naming.checked_duration, terms.duration)
        elif subscribes and not terms.store_decides_duration:
            check.add(Invalid("A subscription needs a duration, such as P1M.", param="duration"))
        if terms.trial_duration is not None:
            if not subscribes:
                check.add(Invalid("Only a subscription can have a trial.", param="trial_duration"))
            check(naming.checked_duration, terms.trial_duration, "trial_duration")
        if terms.credits is not None:
            check(naming.checked_id, terms.credits.code, "credits.code")
            if not 1 <= terms.credits.amount <= MAX_BALANCE:
                check.add(Invalid("The amount of credits is a whole number from 1 on.", param="credits.amount"))
        return check(_price, terms.price, terms.currency)


def terms_of(product: Product) -> ProductTerms:
    return ProductTerms(
        kind=product.kind,
        price=product.price.amount,
        currency=product.price.currency,
        display_name=product.display_name,
        duration=str(product.duration) if product.duration is not None else None,
        trial_duration=str(product.trial) if product.trial is not None else None,
        credits=product.credits,
        type=product.type,
        app_ids=product.apps,
        store_decides_duration=product.duration is None,
    )


async def _app(connection: Connection, project_id: str, app_id: str, param: str = "app_id") -> App:
    return found(await APPS.find(connection, project_id, app_id), f"There is no app {app_id!r} in this project.", param)


async def load_product(connection: Executor, project_id: str, product_id: str) -> Product:
    product = await storage.load_product(connection, project_id, product_id)
    on_sale = product if product is not None and product.on_sale else None
    return found(on_sale, f"There is no product {product_id!r} in this project.", "product_id")


# Every country in its currency, in several stores.
MOST = 1000


async def list_prices(database: Database, project_id: str, product_id: str) -> tuple[ListedPrice, ...]:
    """By store, country and currency."""
    async with database.acquire() as connection:
        await load_product(connection, project_id, product_id)
        return (await storage.load_price(connection, project_id, [product_id])).get(product_id, ())


async def set_price(
    database: Database,
    project_id: str,
    product_id: str,
    price: float,
    currency: str,
    store: str | None,
    country: str | None,
) -> ListedPrice:
    """Lists a price, or changes one of the same store, country and currency."""
    one = listed_price(price, currency, store, country)
    await set_prices(database, project_id, product_id, [one])
    return one


async def delete_price(database: Database, project_id: str, product_id: str, price_id: str) -> None:
    async with changing_catalog(database, project_id) as connection:
        await load_product(connection, project_id, product_id)
        parts = [part if part != "-" else "" for part in price_id.split(".")]
        if len(parts) != 3 or not await storage.delete_price(connection, project_id, product_id, *parts):
            raise NotFound(f"The product {product_id!r} has no price {price_id[:100]!r}.", param="price_id")


async def set_prices(database: Database, project_id: str, product_id: str, new: Sequence[ListedPrice]) -> None:
    """The same for several, which were checked."""
    async with changing_catalog(database, project_id) as connection:
        await load_product(connection, project_id, product_id)
        await storage.save_prices(connection, project_id, product_id, new)
        if len((await storage.load_price(connection, project_id, [product_id]))[product_id]) > MOST:
            raise Refusal(f"A product has at most {MOST:,} prices. Delete some first.")


async def save_whole(
    database: Database,
    project_id: str,
    product_id: str,
    terms: ProductTerms | dict[str, Any],
    now: Ms,
    *,
    attached: Sequence[str] = (),
    detached: Sequence[str] = (),
    prices: Sequence[ListedPrice] = (),
    unlisted: Sequence[str] = (),
) -> Product:
    """Whole terms create the product, some change it. What it grants and its prices change by these differences, so
    what somebody else changed meanwhile stays."""
    async with changing_catalog(database, project_id) as connection:
        within = OneTransaction(database, connection)
        if isinstance(terms, ProductTerms):
            await create_product(within, project_id, product_id, terms, now)
        else:
            await update_product(within, project_id, product_id, **terms)
        for entitlement_id in attached:
            await attach_products(within, project_id, entitlement_id, [product_id])
        for entitlement_id in detached:
            await detach_products(within, project_id, entitlement_id, [product_id], now)
        for price_id in unlisted:
            await delete_price(within, project_id, product_id, price_id)
        if prices:
            await set_prices(within, project_id, product_id, prices)
        return await load_product(connection, project_id, product_id)


async def shown_prices(
    database: Database,
    project_id: str,
    catalog: Catalog,
    shown: Sequence[Product],
    app_user_id: str,
    *,
    store: str | None,
    country: str | None,
    currency: str | None,
) -> list[Product]:
    """The products at the prices that this buyer sees. `country` is where the request comes from; where that is not
    known, the place counts where the customer was seen last."""
    if not catalog.lists_prices or not shown:
        return list(shown)
    async with database.acquire() as connection:
        listed = await storage.load_price(connection, project_id, [product.id for product in shown])
        if listed and country is None:
            country = await storage.country_of(connection, project_id, app_user_id)

    buyer = {"store": store, "country": country, "currency": currency}
    return [replace(one, price=price_for(one.price, listed.get(one.id, ()), **buyer)) for one in shown]


def listed_price(amount: float, currency: str, store: str | None, country: str | None) -> ListedPrice:
    with Checks() as check:
        price = check(_price, amount, currency)
        if store:
            check(naming.checked_store, store)
        if country:
            check(naming.checked_country, country)
    return ListedPrice(price, store, country)


def _price(amount: float, currency: str) -> Price:
    with Checks() as check:
        check(naming.checked_currency, currency)
        micros = check(_micros, amount)
    return Price(micros, currency)


def _micros(amount: float) -> int:
    try:
        return to_micros(amount)
    except ValueError as error:
        raise Invalid(str(error), param="price") from None
