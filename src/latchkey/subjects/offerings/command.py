"""`latchkey offering`: what apps show to their users. An offering has packages, and a package has products."""

import typer

from latchkey.cli import output
from latchkey.cli.command import argument, command, option
from latchkey.cli.output import NameOption
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.catalog import Eligibility, Offering
from latchkey.domain.refusal import NotFound
from latchkey.now import real_now
from latchkey.subjects.offerings import render, usecases

app = typer.Typer(no_args_is_help=True)

OFFERING = argument("The offering's key or id.", metavar="OFFERING")
PACKAGES = option("A package and its product, such as '$rc_monthly=pro_monthly'. May be given several times.")


@command(app, "list", project_context)
async def show_list(at: ProjectContext) -> None:
    """List the offerings with their packages."""
    await _show(at, await at.run(usecases.list_offerings, limit=usecases.MOST_OFFERINGS), listed=True)


@command(app, "create", project_context)
async def create(
    at: ProjectContext,
    key: str = argument("The key that apps know it by, such as default.", metavar="KEY"),
    name: NameOption = None,
    package: list[str] | None = PACKAGES,
) -> None:
    """Create an offering. The first one of a project is the current one, which apps show."""
    pairs = _pairs(package)
    async with at.audited("offering.created", key):
        made = await at.run(usecases.create_offering, key, name, now=real_now())
    await _add(at, made.id, pairs)
    await _show(at, [made])


@command(app, "add", project_context)
async def add(at: ProjectContext, offering: str = OFFERING, package: list[str] | None = PACKAGES) -> None:
    """Add packages to an offering, or products to its packages."""
    if not (pairs := _pairs(package)):
        raise typer.BadParameter("is needed, such as '$rc_monthly=pro_monthly'.", param_hint="--package")
    found = await _found(at, offering)
    await _add(at, found.id, pairs)
    await _show(at, [found])


@command(app, "current", project_context)
async def make_current(at: ProjectContext, offering: str = OFFERING) -> None:
    """Make this the offering that apps show."""
    found = await _found(at, offering)
    async with at.audited("offering.updated", found.id, is_current="True"):
        changed = await at.run(usecases.update_offering, found.id, is_current=True)
    await _show(at, [changed])


@command(app, "delete", project_context, asks="Delete the offering {offering!r} and its packages?")
async def delete(at: ProjectContext, offering: str = OFFERING) -> None:
    """Delete an offering that is not the current one. Its products stay. Asks first."""
    found = await _found(at, offering)
    async with at.audited("offering.deleted", found.id):
        await at.run(usecases.delete_offering, found.id)
    at.show_deleted("offering", found.id, f"The offering {output.plain(found.lookup_key)} is deleted.")


def _pairs(texts: list[str] | None) -> list[tuple[str, str]]:
    pairs = [(key, product) for key, _, product in (text.partition("=") for text in texts or [])]
    if wrong := [key for key, product in pairs if not key or not product]:
        raise typer.BadParameter(f"{wrong[0]!r} is not PACKAGE=PRODUCT.", param_hint="--package")
    return pairs


async def _found(at: ProjectContext, key: str) -> Offering:
    for offering in await at.run(usecases.list_offerings, limit=usecases.MOST_OFFERINGS):
        if key in (offering.lookup_key, offering.id):
            return offering
    raise NotFound(f"There is no offering {key!r} in this project.", param="offering_id")


async def _add(at: ProjectContext, offering_id: str, pairs: list[tuple[str, str]]) -> None:
    packages = await at.run(usecases.list_packages, offering_id)
    known = {package.lookup_key: package.id for package in packages}
    for key, product in pairs:
        if key not in known:
            async with at.audited("package.created", key):
                made = await at.run(usecases.create_package, offering_id, key, now=real_now())
            known[key] = made.id
        async with at.audited("package.products_attached", known[key], product=product):
            await at.run(usecases.attach_products, known[key], {product: Eligibility.ALL})


async def _show(at: ProjectContext, found: list[Offering], *, listed: bool = False) -> None:
    inside = await at.run(usecases.packages_of, [offering.id for offering in found])
    every = [package for packages in inside.values() for package in packages]
    products = await at.run(usecases.products_of, [package.id for package in every])
    if at.as_json:
        items = [render.offering(at.project_id, one, inside[one.id], products) for one in found]
        output.write_list(items) if listed else output.write(items[0])
        return
    rows = [
        [
            offering.lookup_key,
            offering.display_name,
            "yes" if offering.is_current else "no",
            "; ".join(
                f"{package.lookup_key}: {', '.join(attached.product.id for attached in products[package.id])}"
                for package in inside[offering.id]
            ),
            offering.id,
        ]
        for offering in found
    ]
    columns = ("key", "name", "current", "packages", "id")
    output.show_list(rows, columns, "There is no offering yet. Create one with `latchkey offering create`.")
