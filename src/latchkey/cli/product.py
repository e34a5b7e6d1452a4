"""`latchkey product`: what customers can buy, and which entitlements it grants."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from latchkey.cli import output
from latchkey.cli.desk import Desk, command, desk
from latchkey.cli.output import shown
from latchkey.domain.catalog import Credit, ProductType
from latchkey.domain.formats import duration, iso_duration, money
from latchkey.domain.refusal import Invalid
from latchkey.now import real_now
from latchkey.usecases.catalog import entitlements, products
from latchkey.usecases.rendering import management as render

app = typer.Typer(no_args_is_help=True, help="List, create, change and delete products; attach entitlements to them.")

ProductArgument = Annotated[str, typer.Argument(help="The product's id, as in the store.", metavar="PRODUCT")]
EntitlementArgument = Annotated[str, typer.Argument(help="The entitlement's id.", metavar="ENTITLEMENT")]
PriceOption = Annotated[float | None, typer.Option(help="The price, such as 9.99.")]
CurrencyOption = Annotated[str | None, typer.Option(help="The currency's code, such as EUR.")]
NameOption = Annotated[str | None, typer.Option("--name", help="The name that people see. Default: the id.")]
LastsOption = Annotated[
    str | None, typer.Option("--duration", help="How long a period lasts: '1 month', '7 days', P1Y.")
]
TrialOption = Annotated[str | None, typer.Option("--trial", help="How long the free trial lasts, such as '7 days'.")]
AppsOption = Annotated[
    list[str] | None, typer.Option("--app", help="Sold only in this app (its id). May be given several times.")
]
CreditsOption = Annotated[
    str | None, typer.Option(help="Virtual currency that comes with it: the code and the amount, such as GEMS:100.")
]


@command(app, "list", desk)
async def show_list(at: Desk) -> None:
    """List the products on sale."""
    found: list[products.Product] = []
    while page := await products.list_products(at.database, at.project_id, after=found[-1].id if found else None):
        found += page
    at.show_list(
        found,
        lambda one: render.product(at.project_id, one),
        ("id", "name", "type", "price", "lasts", "trial", "entitlements"),
        lambda one: (
            *(one.id, one.display_name, (one.type or one.kind).value.replace("_", " ")),
            *(money(one.price.micros, one.price.currency), duration(one.duration, "for ever")),
            *(duration(one.trial_duration, "none"), ", ".join(one.entitlement_ids) or "none"),
        ),
        "There is no product yet. Create one with `latchkey product create`.",
    )


@command(app, "show", desk)
async def show_one(at: Desk, product: ProductArgument) -> None:
    """Show one product."""
    one = await products.load_product(at.database, at.project_id, product)
    if at.as_json:
        output.write(render.product(at.project_id, one))
        return
    output.show_facts(
        (
            ("id", one.id),
            ("name", one.display_name),
            ("type", (one.type or one.kind).value.replace("_", " ")),
            ("price", money(one.price.micros, one.price.currency)),
            ("lasts", duration(one.duration, "for ever")),
            ("trial", duration(one.trial_duration)),
            ("credits", f"{one.credits.amount:,} {one.credits.code}" if one.credits is not None else ""),
            ("entitlements", ", ".join(one.entitlement_ids) or "none"),
            ("apps", ", ".join(one.app_ids) or "every app"),
            ("created", shown(one.created_at)),
        )
    )


@command(app, "create", desk)
async def create(
    at: Desk,
    product: ProductArgument,
    price: Annotated[float, typer.Option(help="The price, such as 9.99.")],
    currency: Annotated[str, typer.Option(help="The currency's code, such as EUR.")],
    product_type: Annotated[
        ProductType | None, typer.Option("--type", help="Default: a subscription with --duration, else one_time.")
    ] = None,
    name: NameOption = None,
    lasts: LastsOption = None,
    trial: TrialOption = None,
    apps: AppsOption = None,
    credits: CreditsOption = None,
    grants: Annotated[
        list[str] | None, typer.Option("--grants", help="Attach this entitlement. May be given several times.")
    ] = None,
) -> None:
    """Create a product. Attach entitlements with --grants, or later with `latchkey product attach`."""
    given = _given(name, lasts, trial, price, currency, apps, credits)
    chosen = product_type or (ProductType.SUBSCRIPTION if lasts else ProductType.ONE_TIME)
    given |= {"kind": chosen.kind} | ({"type": product_type} if product_type is not None else {})
    for one in grants or []:
        await entitlements.load_entitlement(at.database, at.project_id, one)
    async with at.audited("product.created", product, price=str(price), currency=currency):
        await products.create_product(at.database, at.project_id, product, products.Terms(**given), real_now())
    for one in grants or []:
        async with at.audited("entitlement.products_attached", one, product=product):
            await entitlements.attach_products(at.database, at.project_id, one, [product])
    await show_one(at, product)


@command(app, "edit", desk)
async def edit(
    at: Desk,
    product: ProductArgument,
    name: NameOption = None,
    lasts: LastsOption = None,
    trial: TrialOption = None,
    no_trial: Annotated[bool, typer.Option("--no-trial", help="Without a free trial from now on.")] = False,
    price: PriceOption = None,
    currency: CurrencyOption = None,
    apps: AppsOption = None,
    every_app: Annotated[bool, typer.Option("--every-app", help="Sold in every app.")] = False,
    credits: CreditsOption = None,
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
        await products.update_product(at.database, at.project_id, product, changes)
    await show_one(at, product)


@command(app, "delete", desk, asks="Take the product {product!r} off sale?")
async def delete(at: Desk, product: ProductArgument) -> None:
    """Take a product off sale. Its owners keep what it grants, and their subscriptions renew. Asks first."""
    async with at.audited("product.deleted", product):
        await products.delete_product(at.database, at.project_id, product, real_now())
    at.show_deleted(
        "product", product, f"The product {output.plain(product)} is off sale. Its owners keep what it grants."
    )


@command(app, "attach", desk)
async def attach(at: Desk, product: ProductArgument, entitlement: EntitlementArgument) -> None:
    """Let a product grant an entitlement, also to customers who already own the product."""
    async with at.audited("entitlement.products_attached", entitlement, product=product):
        await entitlements.attach_products(at.database, at.project_id, entitlement, [product])
    await show_one(at, product)


@command(
    app,
    "detach",
    desk,
    asks="Customers who have {entitlement!r} only through {product!r} lose it at once. Detach it?",
)
async def detach(at: Desk, product: ProductArgument, entitlement: EntitlementArgument) -> None:
    """Stop a product from granting an entitlement. Who has it only through the product loses it. Asks first."""
    async with at.audited("entitlement.products_detached", entitlement, product=product):
        await entitlements.detach_products(at.database, at.project_id, entitlement, [product], real_now())
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


def typed_duration(text: str | None, option: str) -> str | None:
    if text is None:
        return None
    try:
        return iso_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _typed_credits(text: str | None) -> Credit | None:
    if text is None:
        return None
    code, _, amount = text.partition(":")
    if not code or not amount.isdecimal():
        raise Invalid("--credits is a code and an amount, such as GEMS:100.", param="credits")
    return Credit(code, int(amount))
