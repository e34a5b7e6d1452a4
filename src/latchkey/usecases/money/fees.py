"""A project's programs and percentages for tax and commission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from latchkey.domain.naming import COUNTRIES
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.stores.store import STORES
from latchkey.domain.tariff.fees import Enrolment, Fees, Percentages
from latchkey.storage.database import Database
from latchkey.storage.money import fees as stored

MOST = 500
# The stores, with their names for people.
TITLES = {name: store.title for name, store in STORES.items()}
# Those in which real money is paid.
SELLING = {name: store.title for name, store in STORES.items() if store.sells}
# Stores with terms for small businesses.
PROGRAM_STORES = tuple(name for name, store in STORES.items() if store.terms.small_business is not None)
# Whoever pays to be bought from does not need this service.
_HIGHEST = 1.0


async def load_fees(database: Database, project_id: str) -> Fees:
    async with database.acquire() as connection:
        found = await stored.load(connection, project_id)
    if found is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return found


async def change_fees(
    database: Database,
    project_id: str,
    *,
    programs: Sequence[Enrolment] | None = None,
    percentages: Sequence[Percentages] | None = None,
) -> Fees:
    """Replaces each list that is given. Payments that were seen already keep their terms."""
    for place, one in enumerate(programs or ()):
        _check_program(place, one)
    for place, each in enumerate(percentages or ()):
        _check_percentages(place, each)
    if max(len(programs or ()), len(percentages or ())) > MOST:
        raise Invalid(f"A project has at most {MOST} programs and {MOST} percentages.")
    _once("programs", [(one.store, one.program, one.starts) for one in programs or ()])
    _once("percentages", [(one.store, one.country, one.starts) for one in percentages or ()])
    async with database.transaction() as connection:
        known = await stored.load(connection, project_id)
        if known is None:
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        changed = replace(
            known,
            enrolments=known.enrolments if programs is None else _sorted(programs),
            percentages=known.percentages if percentages is None else tuple(sorted(percentages, key=_place)),
        )
        if changed != known:
            await stored.save(connection, project_id, changed)
    return changed


def _check_program(place: int, one: Enrolment) -> None:
    param = f"programs[{place}]"
    if one.store not in PROGRAM_STORES:
        raise Invalid(f"{one.program} is a program of {', '.join(PROGRAM_STORES)}.", param=f"{param}.store")
    if one.ends is not None and one.ends < one.starts:
        raise Invalid("A program does not end before it begins.", param=f"{param}.until")


def _check_percentages(place: int, one: Percentages) -> None:
    param = f"percentages[{place}]"
    if one.commission_rate is None and one.tax_rate is None:
        raise Invalid("Give commission_rate, tax_rate, or both.", param=param)
    for name, rate in (("commission_rate", one.commission_rate), ("tax_rate", one.tax_rate)):
        if rate is not None and not 0 <= rate <= _HIGHEST:
            raise Invalid(f"{name} is from 0 to 1: 0.15 for 15 %.", param=f"{param}.{name}")
    if one.country is not None and one.country not in COUNTRIES:
        raise Invalid("country is a code such as DE, with two letters.", param=f"{param}.country")
    if one.store is not None and (not one.store or len(one.store) > 100):
        raise Invalid(f"store is one of {', '.join(STORES)}, or the name of a store of your own.", param=param)


def _once(param: str, places: Sequence[object]) -> None:
    if len(set(places)) != len(places):
        raise Invalid("Two entries begin on the same day for the same store and country.", param=param)


def _sorted(programs: Sequence[Enrolment]) -> tuple[Enrolment, ...]:
    return tuple(sorted(programs, key=lambda one: (one.store, one.starts)))


def _place(one: Percentages) -> tuple[str, str, int]:
    return one.store or "", one.country or "", one.starts
