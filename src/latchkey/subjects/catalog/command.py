"""`latchkey product`: what customers can buy, and which entitlements it grants."""

from typing import Any

import typer

from latchkey.cli import output
from latchkey.cli.command import argument, command, flag, option
from latchkey.cli.output import NameOption, shown, typed_duration
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.catalog import Credit, ProductType
from latchkey.domain.formats import duration, money
from latchkey.domain.refusal import Invalid
from latchkey.engine.storage.catalog.product_rows import Entitlement
from latchkey.now import real_now
from latchkey.subjects.catalog import render
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog

app_product = typer.Typer(no_args_is_help=True)

PRODUCT = argument("The product's id, as in the store.", metavar="PRODUCT")
ENTITLEMENT = argument("The entitlement's id.", metavar="ENTITLEMENT")
LASTS = option("How long a period lasts: '1 month', '7 days', P1Y.", "--duration")
TRIAL = option("How long the free trial lasts, such as '7 days'.")
APPS = option("Sold only in this app (its id). May be given several times.", "--app")
CREDITS = option("Virtual currency that comes with it: the code and the amount, such as GEMS:100.")


@command(app_product, "list", project_context)
async def show_list_product(at: ProjectContext) -> None:
    """List the products on sale."""
    at.show_list(
        await at.run(product_catalog.list_products, limit=None),
        lambda one: render.product(at.project_id, one),
        ("id", "name", "type", "price", "lasts", "trial", "entitlements"),
        lambda one: (
            *(one.id, one.display_name, (one.type or one.kind).value.replace("_", " ")),
            *(money(one.price.micros, one.price.currency), duration(one.duration, "for ever")),
            *(duration(one.trial, "none"), ", ".join(one.grants) or "none"),
        ),
        "There is no product yet. Create one with `latchkey product create`.",
    )


@command(app_product, "show", project_context)
async def show_one(at: ProjectContext, product: str = PRODUCT) -> None:
    """Show one product."""
    one = await at.run(product_catalog.load_product, product)
    at.show_facts(
        render.product(at.project_id, one),
        (
            ("id", one.id),
            ("name", one.display_name),
            ("type", (one.type or one.kind).value.replace("_", " ")),
            ("price", money(one.price.micros, one.price.currency)),
            ("lasts", duration(one.duration, "for ever")),
            ("trial", duration(one.trial)),
            ("credits", f"{one.credits.amount:,} {one.credits.code}" if one.credits is not None else ""),
            ("entitlements", ", ".join(one.grants) or "none"),
            ("apps", ", ".join(one.apps) or "every app"),
            ("created", shown(one.created_at)),
        ),
    )


@command(app_product, "create", project_context)
async def create_product(
    at: ProjectContext,
    product: str = PRODUCT,
    price: float = option("The price, such as 9.99.", default=...),
    currency: str = option("The currency's code, such as EUR.", default=...),
    product_type: ProductType | None = option("Default: a subscription with --duration, else one_time.", "--type"),
    name: NameOption = None,
    lasts: str | None = LASTS,
    trial: str | None = TRIAL,
    apps: list[str] | None = APPS,
    credits: str | None = CREDITS,
    grants: list[str] | None = option("Attach this entitlement. May be given several times."),
) -> None:
    """Create a product. Attach entitlements with --grants, or later with `latchkey product attach`."""
    given = _given(name, lasts, trial, price, currency, apps, credits)
    chosen = product_type or (ProductType.SUBSCRIPTION if lasts else ProductType.ONE_TIME)
    given |= {"kind": chosen.kind} | ({"type": product_type} if product_type is not None else {})
    for grant in grants or []:
        await at.run(entitlement_catalog.load_entitlement, grant)
    async with at.audited("product.created", product, price=str(price), currency=currency):
        await at.run(product_catalog.create_product, product, product_catalog.ProductTerms(**given), real_now())
    for grant in grants or []:
        async with at.audited("entitlement.products_attached", grant, product=product):
            await at.run(entitlement_catalog.attach_products, grant, [product])
    await show_one(at, product)


@command(app_product, "edit", project_context)
async def edit(
    at: ProjectContext,
    product: str = PRODUCT,
    name: NameOption = None,
    lasts: str | None = LASTS,
    trial: str | None = TRIAL,
    no_trial: bool = flag("Without a free trial from now on.", "--no-trial"),
    price: float | None = option("The price, such as 9.99."),
    currency: str | None = option("The currency's code, such as EUR."),
    apps: list[str] | None = APPS,
    every_app: bool = flag("Sold in every app.", "--every-app"),
    credits: str | None = CREDITS,
) -> None:
    """Change a product. What is not given stays as it is. Active subscriptions keep the price they were bought at."""
    if (trial and no_trial) or (apps and every_app):
        raise typer.BadParameter("These options contradict each other.")
    changes = _given(name, lasts, trial, price, currency, apps, credits)
    if no_trial:
        changes["trial_duration"] = None
    if every_app:
        changes["app_ids"] = ()
    if not changes:
        raise typer.BadParameter("Nothing to change was given. `latchkey product edit --help` lists the options.")
    detail = {field: str(value) for field, value in changes.items()}
    async with at.audited("product.updated", product, **detail):
        await at.run(product_catalog.update_product, product, **changes)
    await show_one(at, product)


@command(app_product, "delete", project_context, asks="Take the product {product!r} off sale?")
async def delete_product(at: ProjectContext, product: str = PRODUCT) -> None:
    """Take a product off sale. Its owners keep what it grants, and their subscriptions renew. Asks first."""
    async with at.audited("product.deleted", product):
        await at.run(product_catalog.delete_product, product, real_now())
    at.show_deleted(
        "product", product, f"The product {output.plain(product)} is off sale. Its owners keep what it grants."
    )


@command(app_product, "attach", project_context)
async def attach(at: ProjectContext, product: str = PRODUCT, entitlement: str = ENTITLEMENT) -> None:
    """Let a product grant an entitlement, also to customers who already own the product."""
    async with at.audited("entitlement.products_attached", entitlement, product=product):
        await at.run(entitlement_catalog.attach_products, entitlement, [product])
    await show_one(at, product)


@command(
    app_product,
    "detach",
    project_context,
    asks="Customers who have {entitlement!r} only through {product!r} lose it at once. Detach it?",
)
async def detach(at: ProjectContext, product: str = PRODUCT, entitlement: str = ENTITLEMENT) -> None:
    """Stop a product from granting an entitlement. Who has it only through the product loses it. Asks first."""
    async with at.audited("entitlement.products_detached", entitlement, product=product):
        await at.run(entitlement_catalog.detach_products, entitlement, [product], real_now())
    await show_one(at, product)


def _given(
    name: str | None,
    lasts: str | None,
    trial: str | None,
    price: float | None,
    currency: str | None,
    apps: list[str] | None,
    credits: str | None,
) -> dict[str, Any]:
    """The terms that were given."""
    given = {
        "display_name": name,
        "duration": typed_duration(lasts, "--duration"),
        "trial_duration": typed_duration(trial, "--trial"),
        "price": price,
        "currency": currency.upper() if currency is not None else None,
        "app_ids": tuple(dict.fromkeys(apps)) if apps else None,
        "credits": _typed_credits(credits),
    }
    return {field: value for field, value in given.items() if value is not None}


def _typed_credits(text: str | None) -> Credit | None:
    if text is None:
        return None
    code, _, amount = text.partition(":")
    if not code or not amount.isdecimal():
        raise Invalid("--credits is a code and an amount, such as GEMS:100.", param="credits")
    return Credit(code, int(amount))


app_entitlement = typer.Typer(no_args_is_help=True)


@command(app_entitlement, "list", project_context)
async def show_list_entitlement(at: ProjectContext) -> None:
    """List the entitlements, and the products that grant them."""
    found = await at.run(entitlement_catalog.list_entitlements, limit=None)
    granted = await at.run(entitlement_catalog.products_of, [one.id for one in found])

    def row(one: Entitlement) -> tuple[str, ...]:
        products = ", ".join(product.id for product in granted[one.id])
        return one.id, one.display_name, products or "none", shown(one.created_at)

    nothing = "There is no entitlement yet. Create one with `latchkey entitlement create`."
    columns = ("id", "name", "products", "created")
    at.show_list(found, lambda one: render.entitlement(at.project_id, one), columns, row, nothing)


@command(app_entitlement, "create", project_context)
async def create_entitlement(at: ProjectContext, entitlement: str = ENTITLEMENT, name: NameOption = None) -> None:
    """Create an entitlement."""
    async with at.audited("entitlement.created", entitlement):
        made = await at.run(entitlement_catalog.create_entitlement, entitlement, name, now=real_now())
    _show(at, made)


@command(app_entitlement, "rename", project_context)
async def rename(
    at: ProjectContext,
    entitlement: str = ENTITLEMENT,
    name: str = argument("The name that people see.", metavar="NAME"),
) -> None:
    """Change the name that people see. The id stays."""
    async with at.audited("entitlement.renamed", entitlement):
        renamed = await at.run(entitlement_catalog.rename_entitlement, entitlement, name)
    _show(at, renamed)


@command(app_entitlement, "delete", project_context, asks="Delete the entitlement {entitlement!r}?")
async def delete_entitlement(at: ProjectContext, entitlement: str = ENTITLEMENT) -> None:
    """Delete an entitlement that no product grants. Asks first."""
    async with at.audited("entitlement.deleted", entitlement):
        await at.run(entitlement_catalog.delete_entitlement, entitlement)
    at.show_deleted("entitlement", entitlement, f"The entitlement {output.plain(entitlement)} is deleted.")


def _show(at: ProjectContext, one: Entitlement) -> None:
    words = f"The entitlement {output.plain(one.id)} ({output.plain(one.display_name)})"
    at.done(render.entitlement(at.project_id, one), words)
