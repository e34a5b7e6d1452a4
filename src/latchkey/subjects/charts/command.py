"""`latchkey charts`: what charts can be broken down by."""

import typer

from latchkey.cli.command import argument, command
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.subjects.charts.usecases import choose_attributes

app = typer.Typer(no_args_is_help=True)


@command(app, "attributes", project_context)
async def attributes(
    at: ProjectContext,
    names: list[str] | None = argument("Names of attributes. Without any, charts use none.", default=None),
) -> None:
    """Choose the customer attributes that charts can be filtered and broken down by."""
    chosen = sorted(set(names or ()))
    async with at.audited("charts.attributes_chosen", at.project_id, names=", ".join(chosen)):
        await at.run(choose_attributes, chosen)
    at.done(
        {"object": "chart_attributes", "project_id": at.project_id, "attributes": chosen},
        f"Charts of {at.project_id} can be broken down by: {', '.join(chosen) or 'no attribute'}",
    )
