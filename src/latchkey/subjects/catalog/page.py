"""Catalog: which products grant which entitlements, changed in a grid after a preview of who is affected."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from latchkey.dashboard.form import Form, counts_of, place_of
from latchkey.dashboard.form import count_fields as written
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.access.entitlements import Grant, Remapping, difference
from latchkey.domain.catalog import Credit, ListedPrice, Product, ProductKind, ProductType
from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.domain.formats import duration, iso_duration
from latchkey.domain.instants import Duration
from latchkey.domain.money.amounts import Price
from latchkey.domain.naming import checked_id
from latchkey.domain.refusal import Checks, Invalid, Refusal
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog
from latchkey.subjects.currencies import usecases as currencies
from latchkey.subjects.projects.usecases import all_apps

pages = Pages()

ON_A_PAGE = 100

# A change is part of the preview's URL, so that a reload or a continued count changes nothing.
MOST_AT_ONCE = 200
MEANWHILE = (
    "The catalog was changed in the meantime, so nothing was saved. This is how it is now, with your own changes in it "
    "again. Look at them and go on."
)


@pages.get("/catalog")
async def show_mapping(visit: Visit) -> Response:
    return await _grid(visit)


@pages.post("/catalog/mapping", Needs.MANAGE, "catalog.mapping_proposed")
async def propose(visit: Visit) -> Response:
    change = difference(_grants(visit.form.all("had")), _grants(visit.form.all("grant")))
    if not change:
        return await visit.to(visit.path("catalog"), "Nothing was changed, so there is nothing to save.")
    if len(change) > MOST_AT_ONCE:
        raise Invalid(f"That is too much at once. Save in steps of up to {MOST_AT_ONCE} changes.", param="grant")
    version = visit.form.number("version")
    grid = await visit.run(entitlement_catalog.load_grid)
    if grid.version != version:
        return await _grid(visit, 409, MEANWHILE, change)
    entitlement_catalog.require_possible(grid, change)
    visit.audit("mapping", **_said(change))
    return await visit.to(_preview_path(visit, change, version))


@pages.get("/catalog/preview", Needs.MANAGE)
async def show_preview(visit: Visit) -> Response:
    change, version = _change(visit.query), visit.query.number("version")
    if not change:
        return await visit.to(visit.path("catalog"))
    entitlement_catalog.require_possible(await visit.run(entitlement_catalog.load_grid), change)
    so_far = entitlement_catalog.Preview(
        counts_of(visit.query, "gains"), counts_of(visit.query, "losses"), place_of(visit.query)
    )
    try:
        preview = await entitlement_catalog.preview_mapping(
            visit.database, visit.services.catalogs, visit.project_id, change, version, visit.now, so_far
        )
    except entitlement_catalog.ChangedMeanwhile:
        return await _grid(visit, 409, MEANWHILE, change)
    more = None if preview.place.done else _preview_path(visit, change, version, preview)
    return visit.page("catalog_preview.html", change=change, version=version, preview=preview, more=more)


@pages.post("/catalog/mapping/save", Needs.MANAGE, "catalog.mapping_changed")
async def save(visit: Visit) -> Response:
    change, version = _change(visit.form), visit.form.number("version")
    visit.audit("mapping", **_said(change))
    if change.detached:
        visit.form.confirmed()
    try:
        await visit.run(entitlement_catalog.save_mapping, change, version, visit.now)
    except entitlement_catalog.ChangedMeanwhile:
        return await _grid(visit, 409, MEANWHILE, change)
    return await visit.to(visit.path("catalog"), "Saved. Customers hold what the grid says from their next request on.")


async def _grid(visit: Visit, status: int = 200, error: str = "", change: Remapping | None = None) -> Response:
    grid = await visit.run(entitlement_catalog.load_grid)
    change = change or Remapping()
    on_sale = {product.id for product in grid.products if product.on_sale}
    known = {entitlement.id for entitlement in grid.entitlements}
    possible = {grant for grant in change.attached if grant.product_id in on_sale and grant.entitlement_id in known}
    wanted = {(grant.product_id, grant.entitlement_id) for grant in (grid.grants - change.detached) | possible}
    return visit.page("catalog.html", status, grid=grid, error=error, wanted=wanted)


def _preview_path(
    visit: Visit, change: Remapping, version: int, so_far: entitlement_catalog.Preview | None = None
) -> str:
    query = [("version", str(version))]
    query += [("attach", cell(grant)) for grant in sorted(change.attached)]
    query += [("detach", cell(grant)) for grant in sorted(change.detached)]
    if so_far is not None:
        query += written(so_far.place, gains=so_far.gains, losses=so_far.losses)
    return f"{visit.path('catalog', 'preview')}?{urlencode(query)}"


def cell(grant: Grant) -> str:
    """One box of the grid as a form sends it. Ids never contain the separator."""
    return f"{grant.product_id}|{grant.entitlement_id}"


def _change(form: Form) -> Remapping:
    return Remapping(_grants(form.all("attach")), _grants(form.all("detach")))


def _grants(texts: Iterable[str]) -> frozenset[Grant]:
    found = set()
    for text in texts:
        product_id, sign, entitlement_id = text.partition("|")
        if not sign:
            raise Invalid("A box of the grid is a product and an entitlement.", param="grant")
        found.add(Grant(product_id, entitlement_id))
    return frozenset(found)


def _said(change: Remapping) -> dict[str, list[str]]:
    return {
        "attached": [f"{one.product_id} grants {one.entitlement_id}" for one in sorted(change.attached)],
        "detached": [f"{one.product_id} no longer grants {one.entitlement_id}" for one in sorted(change.detached)],
    }


@pages.get("/catalog/entitlements")
async def list_entitlements(visit: Visit) -> Response:
    found = await visit.run(entitlement_catalog.list_entitlements, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "catalog", "entitlements")
    return visit.page("catalog_entitlements.html", entitlements=shown, more=more)


@pages.get("/catalog/new-entitlement", Needs.MANAGE)
async def offer_new_entitlement(visit: Visit) -> Response:
    return visit.page("catalog_new_entitlement.html")


@pages.post("/catalog/new-entitlement", Needs.MANAGE, "entitlement.created", offer_new_entitlement)
async def create_entitlement(visit: Visit) -> Response:
    visit.subject = wanted = visit.form.text("id")
    with Checks() as check:
        check(checked_id, wanted)
        name = check(visit.form.name, "display_name", wanted)
    made = await visit.run(entitlement_catalog.create_entitlement, wanted, name, now=visit.now)
    return await visit.to(visit.path("catalog"), f"{made.id} was created. Tick below which products grant it.")


@pages.get("/catalog/entitlements/{entitlement_id}")
async def show_entitlement(visit: Visit, entitlement_id: str) -> Response:
    entitlement = await visit.run(entitlement_catalog.load_entitlement, entitlement_id)
    granting = await visit.run(entitlement_catalog.list_products_of, entitlement_id)
    return visit.page("catalog_entitlement.html", entitlement=entitlement, products=granting)


@pages.post("/catalog/entitlements/{entitlement_id}", Needs.MANAGE, "entitlement.renamed", show_entitlement)
async def rename(visit: Visit, entitlement_id: str) -> Response:
    name = visit.form.text("display_name")
    await visit.run(entitlement_catalog.rename_entitlement, entitlement_id, name)
    return await visit.to(visit.path("catalog", "entitlements", entitlement_id), "Saved.")


@pages.confirmed("/catalog/entitlements/{entitlement_id}/delete", Needs.MANAGE, "entitlement.deleted", show_entitlement)
async def delete_entitlement(visit: Visit, entitlement_id: str) -> Response:
    await visit.run(entitlement_catalog.delete_entitlement, entitlement_id)
    return await visit.to(visit.path("catalog", "entitlements"), f"{entitlement_id} was deleted.")


# What a store may say beyond the kind.
TYPES = (
    ("", "As its kind says"),
    (ProductType.CONSUMABLE, "Consumable: used up, and can be bought again"),
    (ProductType.NON_CONSUMABLE, "Non-consumable: bought once for ever"),
    (ProductType.NON_RENEWING_SUBSCRIPTION, "Non-renewing subscription: lasts for a while"),
)
KINDS = ((ProductKind.SUBSCRIPTION, "Subscription: it renews"), (ProductKind.ONE_TIME, "One-time: bought once"))


@pages.get("/catalog/products")
async def list_products(visit: Visit) -> Response:
    found = await visit.run(product_catalog.list_products, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "catalog", "products")
    return visit.page("catalog_products.html", products=shown, more=more)


@pages.get("/catalog/new-product", Needs.MANAGE)
async def offer_new_product(visit: Visit) -> Response:
    return await _form(visit, None)


@pages.post("/catalog/new-product", Needs.MANAGE, "product.created", offer_new_product)
async def create_product(visit: Visit) -> Response:
    visit.subject = product_id = visit.form.text("id")
    with Checks() as check:
        kind = check(visit.form.choice, "kind", list(ProductKind)) or ProductKind.ONE_TIME
        check(product_catalog.checked_product_id, product_id)
        terms = product_catalog.ProductTerms(kind=kind, **_terms(visit.form, check))
        check(product_catalog.checked_terms, terms)
        changes = _around(visit.form, check, ())
    visit.audit(**_told(changes))
    made = await visit.run(product_catalog.save_whole, product_id, terms, visit.now, **changes)
    grants = f"It grants {', '.join(made.grants)}." if made.grants else "It grants nothing yet."
    return await visit.to(visit.path("catalog", "products", made.id), f"{made.id} is on sale. {grants}")


@pages.get("/catalog/products/{product_id}")
async def show_product(visit: Visit, product_id: str) -> Response:
    return await _form(visit, await visit.run(product_catalog.load_product, product_id))


@pages.post("/catalog/products/{product_id}", Needs.MANAGE, "product.updated", show_product)
async def update(visit: Visit, product_id: str) -> Response:
    before = await visit.run(product_catalog.load_product, product_id)
    listed = await visit.run(product_catalog.list_prices, product_id)
    with Checks() as check:
        terms = _terms(visit.form, check, before)
        whole = product_catalog.ProductTerms(kind=before.kind, store_decides_duration=before.duration is None, **terms)
        check(product_catalog.checked_terms, whole)
        changes = _around(visit.form, check, listed)
    visit.audit(**_told(changes))
    await visit.run(product_catalog.save_whole, product_id, terms, visit.now, **changes)
    here = visit.path("catalog", "products", product_id)
    return await visit.to(here, "Saved. Running subscriptions keep their price.")


@pages.confirmed("/catalog/products/{product_id}/delete", Needs.MANAGE, "product.deleted", show_product)
async def delete_product(visit: Visit, product_id: str) -> Response:
    await visit.run(product_catalog.delete_product, product_id, visit.now)
    return await visit.to(visit.path("catalog", "products"), f"{product_id} is not sold any more. Its owners keep it.")


# Empty rows for prices that are not listed yet.
NEW_PRICES = 3
# The most entitlements that the form offers; the grid has all of them.
MOST_OFFERED = 200


async def _form(visit: Visit, product: Product | None) -> Response:
    known = await visit.run(currencies.list_currencies)
    codes = [("", "No virtual currency"), *((offering.code, offering.code) for offering in known)] if known else []
    listed = await visit.run(product_catalog.list_prices, product.id) if product else ()
    return visit.page(
        "catalog_product.html",
        product=product,
        price=_amount(product.price) if product else "",
        kinds=KINDS,
        codes=codes,
        types=TYPES,
        apps=await visit.run(all_apps),
        entitlements=await visit.run(entitlement_catalog.list_entitlements, limit=MOST_OFFERED),
        prices=[*((one, _amount(one.price)) for one in listed), *[(None, "")] * NEW_PRICES],
    )


def _terms(form: Form, check: Checks, before: Product | None = None) -> dict[str, Any]:
    """The fields of a product in a form; an empty field is None. The use case validates them together."""
    code = form.text("code")
    amount = check(form.number, "amount", low=1, high=MAX_BALANCE) if code else None
    return {
        "display_name": form.text("display_name") or None,
        "price": check(price_of, form.text("price")) or 0.0,
        "currency": form.text("currency").upper(),
        "duration": check(_duration, form, "duration", before.duration if before else None),
        "trial_duration": check(_duration, form, "trial_duration", before.trial if before else None),
        "credits": Credit(code, amount or 1) if code else None,
        "type": check(form.chosen, "type", list(ProductType)),
        "app_ids": tuple(dict.fromkeys(form.all("app"))),
    }


def _around(form: Form, check: Checks, listed: Sequence[ListedPrice]) -> dict[str, list[Any]]:
    """What changes in what the product grants and in its prices."""
    had, ticked = set(form.all("had")), set(form.all("entitlement"))
    detached = sorted(had - ticked)
    if detached and not form.ticked("confirm"):
        lost = ", ".join(detached)
        check.add(Invalid(f"Customers who have {lost} by this product lose it. Tick the box if so.", param="confirm"))
    before, rows = {one.id: one for one in listed}, form.all("row")
    shown = {id for row in rows if (id := form.text(f"listed-{row}")) in before}
    # Somebody may have listed others since the form was shown.
    wanted = {id: one for id, one in before.items() if id not in shown}
    for row in rows:
        one = check(_price_row, form, row)
        if one is not None and wanted.setdefault(one.id, one) != one:
            check.add(Invalid("This store, country and currency have another price.", param=f"currency-{row}"))
    return {
        "attached": sorted(ticked - had),
        "detached": detached,
        "prices": [one for one in wanted.values() if before.get(one.id) != one],
        "unlisted": sorted(shown - wanted.keys()),
    }


def _price_row(form: Form, row: str) -> ListedPrice | None:
    """None for a row without a price: it is new and empty, or is to be removed."""
    texts = {name: form.text(f"{name}-{row}") for name in ("price", "currency", "country", "store")}
    if not texts["price"] and (form.text(f"listed-{row}") or not any(texts.values())):
        return None
    try:
        with Checks() as check:
            amount = check(price_of, texts["price"])
            country = texts["country"].upper() or None
            return check(
                product_catalog.listed_price, amount or 0.0, texts["currency"].upper(), texts["store"] or None, country
            )
    except Refusal as refusal:
        for one in refusal.all:
            one.param = f"{one.param}-{row}"
        raise


def _told(changes: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: [getattr(one, "id", one) for one in found] for name, found in changes.items() if found}


def _duration(form: Form, name: str, known: Duration | None) -> str | None:
    text = form.text(name)
    # What the form shows stays as it was written: P7D, which reads 1 week, and P18M, which reads 1 year 6 months.
    if known is not None and text == duration(known):
        return str(known)
    try:
        return iso_duration(text) if text else None
    except ValueError as error:
        raise Invalid(str(error), param=name) from None


def price_of(text: str) -> float:
    try:
        # Accept 9,99, which is how many countries write prices.
        return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        raise Invalid("A price is a number such as 9.99.", param="price") from None


def _amount(price: Price) -> str:
    return f"{price.amount:.2f}" if price.micros % 10_000 == 0 else str(price.amount)
