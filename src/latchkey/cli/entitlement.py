"""`latchkey entitlement`: what customers may do. Products grant it (`latchkey product attach`)."""

from __future__ import annotations

from typing import Annotated

import typer

from latchkey.cli import output
from latchkey.cli.desk import Desk, command, desk
from latchkey.cli.output import shown
from latchkey.cli.product import EntitlementArgument, NameOption
from latchkey.now import real_now
from latchkey.usecases.catalog import entitlements
from latchkey.usecases.rendering import management as render

app = typer.Typer(no_args_is_help=True, help="List, create, rename and delete entitlements: what customers may do.")


@command(app, "list", desk)
async def show_list(at: Desk) -> None:
    """List the entitlements, and the products that grant them."""
    found: list[entitlements.Entitlement] = []
    while page := await entitlements.list_entitlements(
        at.database, at.project_id, after=found[-1].id if found else None
    ):
        found += page
    granted = await entitlements.products_of(at.database, at.project_id, [one.id for one in found])

    def row(one: entitlements.Entitlement) -> tuple[str, ...]:
        products = ", ".join(product.id for product in granted[one.id])
        return one.id, one.display_name, products or "none", shown(one.created_at)

    nothing = "There is no entitlement yet. Create one with `latchkey entitlement create`."
    columns = ("id", "name", "products", "created")
    at.show_list(found, lambda one: render.entitlement(at.project_id, one), columns, row, nothing)


@command(app, "create", desk)
async def create(at: Desk, entitlement: EntitlementArgument, name: NameOption = None) -> None:
    """Create an entitlement."""
    async with at.audited("entitlement.created", entitlement):
        made = await entitlements.create_entitlement(
            at.database, at.project_id, entitlement, name or entitlement, real_now()
        )
    _show(at, made)


@command(app, "rename", desk)
async def rename(
    at: Desk,
    entitlement: EntitlementArgument,
    name: Annotated[str, typer.Argument(help="The name that people see.", metavar="NAME")],
) -> None:
    """Change the name that people see. The id stays."""
    async with at.audited("entitlement.renamed", entitlement):
        renamed = await entitlements.rename_entitlement(at.database, at.project_id, entitlement, name)
    _show(at, renamed)


@command(app, "delete", desk, asks="Delete the entitlement {entitlement!r}?")
async def delete(at: Desk, entitlement: EntitlementArgument) -> None:
    """Delete an entitlement that no product grants. Asks first."""
    async with at.audited("entitlement.deleted", entitlement):
        await entitlements.delete_entitlement(at.database, at.project_id, entitlement)
    at.show_deleted("entitlement", entitlement, f"The entitlement {output.plain(entitlement)} is deleted.")


def _show(at: Desk, one: entitlements.Entitlement) -> None:
    words = f"The entitlement {output.plain(one.id)} ({output.plain(one.display_name)})"
    at.done(render.entitlement(at.project_id, one), words)
