"""The page about money: programs, tax and commission of the project, and the exchange rates of the installation."""

from collections.abc import Sequence
from typing import Any

from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.money.exchange_rates import date_of, day_of
from latchkey.domain.money.fees import Enrolment, Percentages, Program
from latchkey.domain.money.pinned_rates import REFERENCE_DATE
from latchkey.domain.naming import checked_country
from latchkey.domain.refusal import Checks, Invalid
from latchkey.engine import missing_rates
from latchkey.subjects.money import usecases

pages = Pages()

SELLING = list(usecases.SELLING.items())


@pages.get("/money")
async def show_money(visit: Visit) -> Response:
    standing = await usecases.standing(visit.database)
    return visit.page(
        "money.html",
        fees=await visit.run(usecases.load_fees),
        program_stores=[(name, usecases.TITLES[name]) for name in usecases.PROGRAM_STORES],
        stores=[("", "All stores"), *SELLING],
        titles=usecases.TITLES,
        standing=standing,
        missing=await visit.run(missing_rates.listed, visit.now),
        date_of=date_of,
        reference_date=REFERENCE_DATE,
        told=repr,
    )


@pages.post("/money/programs", Needs.MANAGE, "money.changed", show_money)
async def add_program(visit: Visit) -> Response:
    visit.subject = "programs"
    with Checks() as check:
        store = check(visit.form.choice, "program_store", usecases.PROGRAM_STORES)
        begins = check(_day, visit, "program_from")
        until = check(_day, visit, "program_until") if visit.form.text("program_until") else None
    new = Enrolment(store, Program.SMALL_BUSINESS, begins, until)
    known = await visit.run(usecases.load_fees)
    return await _saved(visit, programs=[*known.enrolments, new])


@pages.post("/money/percentages", Needs.MANAGE, "money.changed", show_money)
async def add_percentages(visit: Visit) -> Response:
    visit.subject = "percentages"
    country = visit.form.text("country").upper() or None
    with Checks() as check:
        begins = check(_day, visit, "from")
        if country is not None:
            check(checked_country, country)
        commission, tax = check(_share, visit, "commission"), check(_share, visit, "tax")
    new = Percentages(begins, visit.form.text("store") or None, country, commission, tax)
    known = await visit.run(usecases.load_fees)
    return await _saved(visit, percentages=[*known.percentages, new])


async def _saved(visit: Visit, **lists: Sequence[Any]) -> Response:
    await visit.run(usecases.change_fees, **lists)
    return await visit.to(visit.path("money"), "Saved. It counts for payments that are first seen from now on.")


@pages.post("/money/remove", Needs.MANAGE, "money.changed", show_money)
async def remove(visit: Visit) -> Response:
    """The entry at a place of one of the lists, which must still be the one that the page showed."""
    visit.subject = kind = visit.form.choice("kind", ("programs", "percentages"))
    place, shown = visit.form.number("place", high=usecases.MOST), visit.form.text("shown")
    known = await visit.run(usecases.load_fees)
    listed: Sequence[Any] = known.enrolments if kind == "programs" else known.percentages
    left = [one for at, one in enumerate(listed) if at != place or repr(one) != shown]
    await visit.run(usecases.change_fees, **{kind: left})
    return await visit.to(visit.path("money"), "Removed. Payments that were seen before keep their terms.")


def _day(visit: Visit, name: str) -> int:
    try:
        return day_of(visit.form.text(name))
    except ValueError:
        raise Invalid("A day is written such as 2026-01-31.", param=name) from None


def _share(visit: Visit, name: str) -> float | None:
    """A percentage, as a share of 1; None if nothing was given."""
    text = visit.form.text(name).removesuffix("%").strip().replace(",", ".")
    if not text:
        return None
    try:
        share = round(float(text) / 100, 6)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise Invalid("A percentage is a number from 0 to 100, such as 15.", param=name)
    return share
