"""Virtual currencies: the currencies in which customers can have a balance, and which products credit them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from latchkey.database.pool import Connection, Database
from latchkey.domain.catalog import ProductKind
from latchkey.domain.customers.customer import CurrencyTransaction, Customer
from latchkey.domain.customers.virtual_currency import MAX_BALANCE, move
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name, checked_text
from latchkey.domain.refusal import Checks, InUse, Invalid, NotFound, Refusal
from latchkey.engine.changes import Changes, Committed
from latchkey.engine.storage import records, state
from latchkey.engine.storage.catalog import currency_rows as storage
from latchkey.engine.storage.catalog import product_rows as catalog_storage
from latchkey.engine.storage.catalog.currency_rows import CURRENCIES, CreditedProduct, Currency
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.unit_of_work import UnitOfWork, unheard
from latchkey.subjects.catalog.usecases.version import changing_catalog

PARAM = "product_grants"

load_currency = CURRENCIES.get
list_currencies = CURRENCIES.load_page


@dataclass(frozen=True, slots=True)
class ProductGrant:
    """Each of these products credits this amount with a purchase."""

    product_ids: tuple[str, ...]
    amount: int


async def load_grants(database: Database, project_id: str, codes: Sequence[str]) -> dict[str, list[ProductGrant]]:
    """The grants of each of these currencies, by products on sale; the products with the same amount are one grant."""
    found = await storage.credited_products(database, project_id, codes)
    return {code: _grouped(product for product in found if product.code == code) for code in codes}


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
        await storage.set_credit(connection, project_id, product_id, code, amount)
    for credited_product in await storage.credited_products(connection, project_id, [code]):
        if credited_product.product_id not in wanted:
            await storage.set_credit(connection, project_id, credited_product.product_id, None, None)


async def _require(connection: Connection, project_id: str, product_id: str, code: str) -> None:
    product = await catalog_storage.load_product(connection, project_id, product_id)
    if product is None or not product.on_sale:
        raise NotFound(f"There is no product {product_id!r} in this project.", param=PARAM)
    if product.kind is not ProductKind.ONE_TIME:
        raise Refusal(f"{product_id!r} is a subscription; only one-time products credit virtual currency.", param=PARAM)
    if product.credits is not None and product.credits.code != code:
        raise Refusal(
            f"{product_id!r} credits {product.credits.code} already, and a product credits one currency.", param=PARAM
        )


def _grouped(credited: Iterable[CreditedProduct]) -> list[ProductGrant]:
    by_amount: dict[int, list[str]] = {}
    for product in credited:
        by_amount.setdefault(product.amount, []).append(product.product_id)
    return [ProductGrant(tuple(ids), amount) for amount, ids in sorted(by_amount.items())]


async def create_currency(
    database: Database,
    project_id: str,
    code: str,
    name: str | None = None,
    description: str = "",
    grants: Sequence[ProductGrant] = (),
    *,
    now: Ms,
) -> Currency:
    """A new currency, which the products in `grants` credit from now on."""
    with Checks() as check:
        check(checked_id, code, "code")
        name = check(checked_name, code if name is None else name)
        check(checked_text, description, "description")
    async with changing_catalog(database, project_id) as connection:
        created = Currency(code, name, description, now)
        CURRENCIES.require_new(await storage.create(connection, project_id, created), code, "code")
        if grants:
            await set_grants(connection, project_id, code, grants)
    return created


async def update_currency(
    database: Database,
    project_id: str,
    code: str,
    *,
    name: str | None = None,
    description: str | None = None,
    grants: Sequence[ProductGrant] | None = None,
) -> Currency:
    """Fields that are not given stay as they are. `grants` replaces all grants of the currency."""
    with Checks() as check:
        name = check(checked_name, name) if name is not None else None
        description = check(checked_text, description, "description") if description is not None else None
    changing = database.transaction() if grants is None else changing_catalog(database, project_id)
    async with changing as connection:
        changed = CURRENCIES.found(await storage.update(connection, project_id, code, name, description), code)
        if grants is not None:
            await set_grants(connection, project_id, code, grants)
    return changed


async def delete_currency(database: Database, project_id: str, code: str) -> None:
    """Refused if a product on sale credits it or a customer ever had any: balances must not disappear."""
    async with changing_catalog(database, project_id) as connection:
        await CURRENCIES.get(connection, project_id, code)
        crediting = await storage.credited_products(connection, project_id, [code])
        if crediting:
            names = ", ".join(repr(product.product_id) for product in crediting)
            raise InUse(f"{code!r} comes with {names}. Take it out of the products first.", param="code")
        # First, because this waits for credits that are being written.
        await storage.delete(connection, project_id, code)
        if await storage.was_moved(connection, project_id, code):
            raise InUse(f"Customers have had {code!r}, so it cannot be deleted.", param="code")


@dataclass(frozen=True, slots=True)
class Balance:
    code: str
    name: str
    description: str
    balance: int


async def balances(
    changes: Changes, project_id: str, app_user_id: str, *, unknown_has_none: bool = False
) -> list[Balance]:
    """Every currency of the project, with the balance of this customer: by code, and not as a database sorts texts. An
    unknown customer is refused, or has 0 of each."""
    async with changes.database.acquire() as connection:
        customer = await state.load(connection, project_id, app_user_id)
        if customer is None and not unknown_has_none:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
        known = await CURRENCIES.page(connection, project_id)
    held = customer.balances if customer is not None else {}
    return [
        Balance(currency.code, currency.name, currency.description, held.get(currency.code, 0))
        for currency in sorted(known, key=lambda currency: currency.code)
    ]


async def adjust(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    adjustments: Mapping[str, int],
    idempotency_key: str,
    reference: str | None = None,
) -> Committed:
    """All of the adjustments, or none. The same key again returns the first response and changes nothing.
    `reference` is kept with the transactions, for people."""
    wall = changes.now()
    async with changes.database.transaction() as connection:
        asked = [(project_id, app_user_id)]
        project = (await load_projects(connection, changes.catalogs, {project_id}))[project_id]
        clocks = await records.share_clocks(connection, asked)
        stored = (await records.lock(connection, asked)).get((project_id, app_user_id))
        if stored is None:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
        now = next(iter(clocks.values()), wall)
        done = await records.currency_by_key(connection, project_id, stored.key, idempotency_key)
        if done:
            if done != dict(adjustments):
                raise Refusal("This idempotency key was used for other adjustments.", param="Idempotency-Key")
            return Committed(stored.customer, project.catalog, now)
        known = await storage.keep(connection, project_id, list(adjustments))
        for code in adjustments:
            if code not in known:
                raise NotFound(f"There is no virtual currency {code!r} in this project.", param="adjustments")
        unit = UnitOfWork(wall, unheard=await unheard(connection, [stored.customer], wall))
        after: Customer = unit.catch_up(stored, project.catalog, now, tag=-1)
        for code, amount in sorted(adjustments.items()):
            after = move(after, CurrencyTransaction(idempotency_key, code, amount, now))
        after = unit.change(stored, after, project.catalog, now)
        told = await unit.commit(connection)
        if reference is not None:
            await records.refer_currency(connection, project_id, stored.key, idempotency_key, reference)
        return Committed(after, project.catalog, now, tuple(told.get(0, ())))
