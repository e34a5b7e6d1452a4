"""`latchkey rates`: the exchange rates of this deployment."""

import typer

from latchkey.cli import output
from latchkey.cli.command import argument, command, flag, option
from latchkey.cli.output import shown as shown_instant
from latchkey.cli.project_command import Office, audited, office
from latchkey.cli.target_database import settings_of
from latchkey.domain.money.exchange_rates import date_of
from latchkey.engine.storage.catalog.rates import StoredRate
from latchkey.now import real_now
from latchkey.subjects.money import usecases
from latchkey.subjects.money.usecases import RateSource, shown

_NONE = "No exchange rates are known."

app = typer.Typer(no_args_is_help=True)


@command(app, "import", office)
async def take(
    at: Office,
    source: str = argument(
        "CSV with the columns date,currency,usd, or the CSV of the European Central Bank; zipped or not.",
        metavar="FILE|URL",
    ),
    replace: bool = flag("Overwrite known rates. Payments that were converted before keep their amounts.", "--replace"),
) -> None:
    """Import rates from a file or an https address: all of them, or none if a line is wrong."""
    settings = settings_of(at.config, at.data)
    guard = RateSource(allowed=settings.webhook_allow_networks, extra_ca=settings.webhook_extra_ca)
    text = await guard.read(source)
    async with audited(at.database, None, "rates.imported", shown(source), replace=str(replace).lower()):
        taken = await usecases.take(at.database, text, shown(source), real_now(), replace=replace)
    words = [f"{taken.new:,} new"]
    words += [f"{taken.replaced:,} replaced"] if taken.replaced else []
    words += [f"{taken.unchanged:,} known already"] if taken.unchanged else []
    at.done(taken, f"Exchange rates: {', '.join(words)}")


@command(app, "list", office)
async def show(
    at: Office,
    currency: str | None = option("The rates of one currency, newest first. Without it: an overview of all."),
    limit: int = option("At most this many days.", default=30, min=1, max=usecases.MOST_LISTED),
) -> None:
    """List the currencies with rates, or the rates of one currency."""
    if currency is not None:
        at.show_list(
            await usecases.listed(at.database, currency.upper(), real_now(), limit),
            lambda one: dict(zip(("date", "currency", "usd", "source", "learned_at"), _cells(one), strict=True)),
            ("date", "currency", "USD", "source", "learned"),
            lambda one: (*_cells(one)[:-1], shown_instant(one.learned_at)),
            _NONE,
        )
        return
    found = await usecases.standing(at.database)
    reading, columns = found.reading, ("currency", "days", "first", "last")
    rows = [(one.currency, one.rates, date_of(one.first), date_of(one.last)) for one in found.currencies]
    if at.as_json:
        items = [dict(zip(columns, row, strict=True)) for row in rows]
        read = {"source": reading.source, "read_at": reading.read_at, "problem": reading.problem or None}
        output.write({"object": "list", "items": items, "has_more": False, **read})
        return
    output.show_list([(name, f"{days:,}", *ends) for name, days, *ends in rows], columns, _NONE)
    if reading.read_at is not None:
        words = f"{reading.source}, read {shown_instant(reading.read_at)}: {reading.problem or 'good'}"
        output.console().print(output.plain(words), soft_wrap=True)


def _cells(one: StoredRate) -> tuple[str, str, str, str, int]:
    """Days are dates, and amounts text, as in the files: a rate must not lose digits."""
    return date_of(one.rate.day), one.rate.currency, one.rate.usd, one.source, one.learned_at
