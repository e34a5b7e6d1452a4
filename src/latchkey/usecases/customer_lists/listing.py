"""A page of the customers that a filter matches, and how many there are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from latchkey.domain.customers.filter import Filter, Sort
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.customer_lists import reading
from latchkey.storage.customer_lists.reading import Cursor
from latchkey.storage.customer_lists.reading import Entry as Entry
from latchkey.storage.database import Connection, Database

# Counting ends here, so that a page never waits for the count of a million.
MOST_COUNTED = 10_000
# A count that takes longer than this is given up: on a page, and where somebody decides by the number.
ON_A_PAGE_MS, FOR_A_DECISION_MS = 250, 1_000
# Days of `active_users` in the overview, as the other numbers there.
ACTIVE_DAYS = 28
_CURSOR = re.compile(r"(-?\d{1,19})\.(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Listing:
    entries: list[Entry]
    # Where the next page begins; None at the end.
    next: str | None
    # Customers who are not in any list yet, counted up to MOST_COUNTED: new ones, and all for a while after an upgrade.
    missing: int

    @property
    def complete(self) -> bool:
        return self.missing == 0


@dataclass(frozen=True, slots=True)
class Counted:
    # None: it could not be counted in time.
    customers: int | None
    # There are more than that.
    more: bool = False


async def list_page(
    database: Database,
    project_id: str,
    wanted: Filter,
    now: Ms,
    *,
    sort: Sort = Sort.LAST_SEEN,
    after: str | None = None,
    limit: int = 50,
    whole: bool = False,
) -> Listing:
    """`whole`: with the customers themselves, not only their facets."""
    async with database.transaction(readonly=True) as connection:
        standing = await _standing(connection, project_id, now)
        await reading.plan_each(connection)
        entries = await reading.page(
            connection,
            project_id,
            wanted,
            now,
            standing.earliest,
            sort=sort,
            after=_place(after),
            limit=limit + 1,
            whole=whole,
        )
    next = _cursor(entries[limit - 1].place) if len(entries) > limit else None
    # Who was deleted a moment ago has no row any more.
    shown = [one for one in entries[:limit] if one.app_user_id is not None]
    return Listing(shown, next, standing.missing)


async def count(
    database: Database, project_id: str, wanted: Filter, now: Ms, *, within_ms: int = FOR_A_DECISION_MS
) -> Counted:
    found = await reading.count_within(database, within_ms, project_id, wanted, now, MOST_COUNTED + 1)
    if found is None:
        return Counted(None)
    return Counted(min(found, MOST_COUNTED), found > MOST_COUNTED)


async def active_customers(database: Database, project_id: str, environment: str, now: Ms) -> int:
    """Customers who were seen in the last ACTIVE_DAYS, today included; exact to the hour. `environment` may be the id
    of a test clock: its customers are seen in real time."""
    since = (now // DAY - ACTIVE_DAYS + 1) * DAY
    async with database.transaction(readonly=True) as connection:
        return await reading.count_seen(connection, project_id, environment, since)


async def missing_customers(database: Database, project_id: str, now: Ms) -> int:
    """How many customers are not in any list yet, counted up to MOST_COUNTED."""
    async with database.acquire() as connection:
        return (await _standing(connection, project_id, now)).missing


async def _standing(connection: Connection, project_id: str, now: Ms) -> reading.Standing:
    standing = await reading.standing(connection, project_id, now, MOST_COUNTED)
    if standing is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return standing


def _cursor(place: Cursor | None) -> str:
    assert place is not None, "every entry of a list has its place"
    return f"{place.value}.{place.key}"


def _place(cursor: str | None) -> Cursor | None:
    if not cursor:
        return None
    found = _CURSOR.fullmatch(cursor)
    values = (int(found[1]), int(found[2])) if found else None
    if values is None or any(abs(one) >= 2**63 for one in values):
        raise Invalid("That is not the cursor of a list.", param="starting_after")
    return Cursor(*values)
