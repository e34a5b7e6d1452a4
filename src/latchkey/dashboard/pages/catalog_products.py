"""The pages of products."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.snippets import curl
from latchkey.domain.catalog import Credit, ProductKind, ProductType
from latchkey.domain.customers.currency import MAX_BALANCE
from latchkey.domain.formats import duration, iso_duration
from latchkey.domain.refusal import Invalid
from latchkey.usecases.access.projects import all_apps
from latchkey.usecases.catalog import currencies, products

pages = Pages()

ON_A_PAGE = 100
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
    after = visit.query.text("after") or None
    found = await products.list_products(visit.database, visit.project_id, after=after, limit=ON_A_PAGE + 1)
    shown = found[:ON_A_PAGE]
    more = visit.path("catalog", "products", after=shown[-1].id) if len(found) > ON_A_PAGE else None
    return visit.page(
        "catalog_products.html", here="catalog", tab="products", products=shown, more=more, after=after, curl=curl
    )


@pages.get("/catalog/new-product", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return await _form(visit, None, {"kind": ProductKind.SUBSCRIPTION, "currency": "USD", "duration": "P1M"})


@pages.post("/catalog/new-product", Needs.MANAGE, "product.created", offer_new)
async def create(visit: Visit) -> Response:
    product_id = visit.form.text("id")
    visit.subject = product_id
    kind = ProductKind(visit.form.choice("kind", list(ProductKind)))
    terms = products.Terms(kind=kind, **_terms(visit.form))
    made = await products.create_product(visit.database, visit.project_id, product_id, terms, visit.now)
    grants = " It grants what it granted before it was deleted." if made.entitlement_ids else ""
    return await visit.to(visit.path("catalog"), f"{made.id} is on sale.{grants} Tick below what it grants.")


@pages.get("/catalog/products/{product_id}")
async def show_product(visit: Visit) -> Response:
    product = await products.load_product(visit.database, visit.project_id, visit.param("product_id"))
    return await _form(visit, product, _filled(product))


@pages.post("/catalog/products/{product_id}", Needs.MANAGE, "product.updated", show_product)
async def update(visit: Visit) -> Response:
    product_id = visit.param("product_id")
    before = await products.load_product(visit.database, visit.project_id, product_id)
    terms = _terms(visit.form, before)
    await products.update_product(visit.database, visit.project_id, product_id, terms)
    return await visit.to(
        visit.path("catalog", "products", product_id), "Saved. Running subscriptions keep their price."
    )


@pages.post("/catalog/products/{product_id}/delete", Needs.MANAGE, "product.deleted", show_product)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    product_id = visit.param("product_id")
    await products.delete_product(visit.database, visit.project_id, product_id, visit.now)
    return await visit.to(visit.path("catalog", "products"), f"{product_id} is not sold any more. Its owners keep it.")


async def _form(visit: Visit, product: products.Product | None, values: dict[str, Any]) -> Response:
    if visit.refusal is not None:
        values |= {**visit.form.values(), "apps": visit.form.all("app")}
    known = await currencies.list_currencies(visit.database, visit.project_id)
    codes = [("", "No virtual currency"), *((one.code, one.code) for one in known)] if known else []
    names = ("id", "display_name", "kind", "type", "price", "currency", "duration", "trial_duration", "code", "amount")
    shown = {name: values.get(name) if values.get(name) is not None else "" for name in names}
    shown["apps"] = values.get("apps") or ()
    return visit.page(
        "catalog_product.html", here="catalog", product=product, values=shown, kinds=KINDS,
        codes=codes, types=TYPES, apps=await all_apps(visit.database, visit.project_id),
    )  # fmt: skip


def _terms(form: Form, before: products.Product | None = None) -> dict[str, Any]:
    """The fields of a product in a form; an empty field is None. The use case validates them together."""
    code, wanted = form.text("code"), form.choice("type", list(ProductType), "")
    return {
        "display_name": form.text("display_name") or None,
        "price": price_of(form.needed("price")),
        "currency": form.needed("currency").upper(),
        "duration": _duration(form, "duration", before.duration if before else None),
        "trial_duration": _duration(form, "trial_duration", before.trial_duration if before else None),
        "credits": Credit(code, form.number("amount", low=1, high=MAX_BALANCE)) if code else None,
        "type": ProductType(wanted) if wanted else None,
        "app_ids": tuple(dict.fromkeys(form.all("app"))),
    }


def _duration(form: Form, name: str, known: str | None) -> str | None:
    text = form.text(name)
    # What the form shows stays as it was written: P7D, which reads 1 week, and P18M, which reads 1 year 6 months.
    if known is not None and text == duration(known):
        return known
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


def _filled(product: products.Product) -> dict[str, Any]:
    credit = product.credits
    return {
        "id": product.id,
        "display_name": product.display_name,
        "kind": product.kind,
        "type": product.type if product.type != product.kind.value else None,
        "apps": product.app_ids,
        "price": f"{product.price.amount:.2f}" if product.price.micros % 10_000 == 0 else product.price.amount,
        "currency": product.price.currency,
        "duration": product.duration,
        "trial_duration": product.trial_duration,
        "code": credit.code if credit else None,
        "amount": credit.amount if credit else None,
    }
