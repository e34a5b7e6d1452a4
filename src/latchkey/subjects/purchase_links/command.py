"""`latchkey purchase-link`: links that sell on web pages."""

import typer

from latchkey.cli.command import argument, command, option
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.formats import instant
from latchkey.domain.refusal import Invalid
from latchkey.now import real_now
from latchkey.subjects.purchase_links import render, usecases

app = typer.Typer(no_args_is_help=True)


@command(app, "list", project_context)
async def show_list(at: ProjectContext) -> None:
    """List the links, oldest first."""
    start = _start(at)
    at.show_list(
        await at.run(usecases.list_links, limit=1000),
        lambda link: render.purchase_link(start, link),
        ("sells", "app", "address", "archived"),
        lambda link: (
            link.product_id or f"offering {link.offering_id}",
            link.app_id,
            start + link.path,
            instant(link.archived_at) if link.archived_at is not None else "no",
        ),
        "There is no link yet. Create one with `latchkey purchase-link create`.",
    )


@command(app, "create", project_context)
async def create(
    at: ProjectContext,
    through: str = argument("The app in Stripe or web billing that sells, by its id.", metavar="APP"),
    product: str | None = option("The product that it sells."),
    offering: str | None = option("The offering whose products it sells, by its id."),
) -> None:
    """Create a link for a product or for an offering."""
    start = _start(at)
    async with at.audited("purchase_link.created", product or offering or ""):
        made = await at.run(usecases.create_link, through, real_now(), product_id=product, offering_id=offering)
    at.done(render.purchase_link(start, made), start + made.path)


@command(app, "archive", project_context, asks="Archive the link {link!r}, so that nobody can buy by it any more?")
async def archive(at: ProjectContext, link: str = argument("The link's id.", metavar="LINK")) -> None:
    """Sell nothing by a link any more. Earlier purchases stay. Asks first."""
    start = _start(at)
    async with at.audited("purchase_link.archived", link):
        archived = await at.run(usecases.archive_link, link, real_now())
    at.done(render.purchase_link(start, archived), "Nobody can buy by this link any more.")


def _start(at: ProjectContext) -> str:
    if not at.settings.public_url:
        raise Invalid("Where is this service reached? Set LATCHKEY_PUBLIC_URL.")
    return usecases.public_start(at.settings.public_url, "")
