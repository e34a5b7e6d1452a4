"""`latchkey customer list` with a filter, as a table, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from msgspec import to_builtins

from latchkey.cli import output
from latchkey.cli.desk import Desk
from latchkey.cli.output import shown
from latchkey.domain.customers.facets import statuses
from latchkey.domain.customers.filter import NAMES, Filter, Sort, parse, single
from latchkey.domain.formats import money
from latchkey.now import real_now
from latchkey.usecases.customer_lists.columns import COLUMNS
from latchkey.usecases.customer_lists.csv_file import csv_pieces
from latchkey.usecases.customer_lists.listing import list_page, missing_customers
from latchkey.usecases.customer_lists.segments import load_segment
from latchkey.usecases.rendering import customer_lists as render

_SAMPLE = "status=trial, country=DE, last_seen_before=30d"
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help=f"A condition, such as {_SAMPLE}. Repeat it for more; all must hold. The names are {', '.join(NAMES)}.",
    ),
]
SegmentOption = Annotated[str | None, typer.Option(help="The id of a saved segment, instead of --where.")]
SortOption = Annotated[Sort | None, typer.Option(help="The highest first; key is the order of creation.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="All customers of the list as CSV, without --limit.")]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options ask for."""

    where: tuple[str, ...] = ()
    segment: str | None = None
    sort: Sort | None = None
    csv: bool = False

    def __bool__(self) -> bool:
        return bool(self.where or self.segment or self.sort or self.csv)

    async def filter(self, at: Desk) -> tuple[Filter, Sort]:
        if self.segment is not None:
            if self.where:
                raise typer.BadParameter("cannot be given together with --where.", param_hint="--segment")
            saved = await load_segment(at.database, at.project_id, self.segment)
            return saved.filter, self.sort or saved.sort
        pairs = [one.partition("=") for one in self.where]
        if wrong := [name for name, equals, _ in pairs if not equals]:
            raise typer.BadParameter(f"{wrong[0]!r} is not NAME=VALUE, such as status=trial.", param_hint="--where")
        said = single([(name.strip(), text) for name, _, text in pairs], NAMES)
        return parse(said), self.sort or Sort.LAST_SEEN


async def show(at: Desk, wanted: Wanted, limit: int) -> None:
    chosen, sort = await wanted.filter(at)
    if wanted.csv:
        pieces = csv_pieces(at.database, at.catalogs, at.project_id, chosen, tuple(COLUMNS), real_now())
        async for piece in pieces:
            sys.stdout.write(piece.decode())
        sys.stdout.flush()
        _tell(await missing_customers(at.database, at.project_id, real_now()))
        return
    found = await list_page(at.database, at.project_id, chosen, real_now(), sort=sort, limit=limit)
    more = found.next is not None
    if at.as_json:
        items = [to_builtins(render.entry(one)) for one in found.entries]
        said = {"complete": found.complete, "missing_customers": found.missing}
        output.write({"object": "list", "items": items, "has_more": more, **said})
        return
    rows = [
        (
            one.app_user_id or "",
            ", ".join(sorted(statuses(one.facets, one.now))),
            ", ".join(one.facets.products),
            money(one.facets.spent_usd),
            one.facets.country or "",
            shown(one.facets.last_seen_at),
        )
        for one in found.entries
    ]
    columns = ("id", "status", "products", "spent", "country", "last seen")
    output.show_list(rows, columns, "No customers found.", "There are more. See --limit." if more else "")
    _tell(found.missing)


def _tell(missing: int) -> None:
    if missing:
        output.told(f"{missing:,} new customers are not in the lists yet. Try again in a while.")


def wanted_of(where: Sequence[str] | None, segment: str | None, sort: Sort | None, csv: bool, as_json: bool) -> Wanted:
    if csv and as_json:
        raise typer.BadParameter("cannot be given together with --json.", param_hint="--csv")
    if csv and sort is not None:
        raise typer.BadParameter(
            "has no order of its own: customers come in the order of creation.", param_hint="--csv"
        )
    return Wanted(tuple(where or ()), segment, sort, csv)
