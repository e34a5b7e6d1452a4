"""`latchkey rates`: the exchange rates of this deployment."""

import os
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from latchkey.cli import output
from latchkey.cli.command import command
from latchkey.cli.output import shown as shown_instant
from latchkey.cli.project_command import Office, audited, office
from latchkey.cli.target_database import is_of_up
from latchkey.domain.money.exchange_rates import date_of
from latchkey.engine.storage.catalog.rates import StoredRate
from latchkey.now import real_now
from latchkey.settings import LOOPBACK, load
from latchkey.subjects.money import usecases
from latchkey.subjects.money.usecases import RateSource, RatesState, shown

app = typer.Typer(
    no_args_is_help=True, help="Import and list exchange rates: what one unit of a currency was worth in USD on a day."
)


@command(app, "import", office)
async def take(
    at: Office,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="CSV with the columns date,currency,usd, or the CSV of the European Central Bank; zipped or not.",
        ),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Overwrite known rates. Payments that were converted before keep their amounts."
        ),
    ] = False,
) -> None:
    """Import rates from a file or an https address: all of them, or none if a line is wrong."""
    settings = load(os.environ, at.config)
    networks = settings.webhook_allow_networks
    if is_of_up(at.config, at.data):
        networks = (*LOOPBACK, *networks)
    text = await RateSource(allowed=networks, extra_ca=settings.webhook_extra_ca).read(source)
    async with audited(at.database, None, "rates.imported", shown(source), replace=str(replace).lower()):
        taken = await usecases.take(at.database, text, shown(source), real_now(), replace=replace)
    words = [f"{taken.new:,} new"]
    words += [f"{taken.replaced:,} replaced"] if taken.replaced else []
    words += [f"{taken.unchanged:,} known already"] if taken.unchanged else []
    at.done(taken, f"Exchange rates: {', '.join(words)}")


@command(app, "list", office)
async def show(
    at: Office,
    currency: Annotated[
        str | None, typer.Option(help="The rates of one currency, newest first. Without it: an overview of all.")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most this many days.", min=1, max=usecases.MOST_LISTED)] = 30,
) -> None:
    """List the currencies with rates, or the rates of one currency."""
    found: RatesState | list[StoredRate]
    if currency is None:
        found = await usecases.standing(at.database)
    else:
        found = await usecases.listed(at.database, currency.upper(), real_now(), limit)
    if at.as_json:
        _write(found)
        return
    console = Console(highlight=False)
    if isinstance(found, RatesState):
        table = Table("currency", Column("days", justify="right"), "first", "last")
        for coverage in found.currencies:
            table.add_row(coverage.currency, f"{coverage.rates:,}", date_of(coverage.first), date_of(coverage.last))
        console.print(table if found.currencies else "No exchange rates are known.")
        if found.reading.read_at is not None:
            read = f"{found.reading.source}, read {shown_instant(found.reading.read_at)}"
            console.print(escape(f"{read}: {found.reading.problem or 'good'}"), soft_wrap=True)
        return
    table = Table("date", "currency", Column("USD", justify="right"), Column("source", overflow="fold"), "learned")
    for rate in found:
        row = rate.rate
        table.add_row(date_of(row.day), row.currency, row.usd, escape(rate.source), shown_instant(rate.learned_at))
    console.print(table)


def _write(found: RatesState | list[StoredRate]) -> None:
    """Days are dates, and amounts text, as in the files: a rate must not lose digits."""
    if isinstance(found, RatesState):
        output.write(
            {
                "object": "list",
                "items": [
                    {
                        "currency": currency.currency,
                        "days": currency.rates,
                        "first": date_of(currency.first),
                        "last": date_of(currency.last),
                    }
                    for currency in found.currencies
                ],
                "has_more": False,
                "source": found.reading.source,
                "read_at": found.reading.read_at,
                "problem": found.reading.problem or None,
            }
        )
        return
    output.write_list(
        {
            "date": date_of(rate.rate.day),
            "currency": rate.rate.currency,
            "usd": rate.rate.usd,
            "source": rate.source,
            "learned_at": rate.learned_at,
        }
        for rate in found
    )
