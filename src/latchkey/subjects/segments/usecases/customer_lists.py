"""The customers that a filter matches: a page, the count, columns, the whole list as CSV, the filter in words, and
segments: filters that a project has saved under a name, with their columns and order."""

import asyncio
import csv
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from io import StringIO
from typing import Any
from uuid import uuid4

from msgspec import Struct

from latchkey.database.pool import Connection, Database
from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import visible
from latchkey.domain.formats import counted, money
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid, NotFound, Refusal, found
from latchkey.domain.stores.store import store_of
from latchkey.engine.due_transitions import at_present
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.subjects.exports.usecases.export_formats import instant
from latchkey.subjects.exports.usecases.export_formats import money as amount_text
from latchkey.subjects.segments import storage
from latchkey.subjects.segments.rules.facets import CustomerStatus, ListCursor, ListEntry, statuses
from latchkey.subjects.segments.rules.filter import CustomerFilter, Segment, Sort, When, given
from latchkey.subjects.segments.storage import SEGMENTS

# Counting ends here, so that a page never waits for the count of a million.
MOST_COUNTED = 10_000
# A count that takes longer than this is given up: on a page, and where somebody decides by the number.
ON_A_PAGE_MS, FOR_A_DECISION_MS = 250, 1_000
# Days of `active_users` in the overview, as the other numbers there.
ACTIVE_DAYS = 28
_CURSOR = re.compile(r"(-?\d{1,19})\.(\d{1,19})")


class CustomerPage(Struct, frozen=True):
    entries: list[ListEntry]
    # Where the next page begins; None at the end.
    next: str | None
    # Customers who are not in any list yet, counted up to MOST_COUNTED: new ones, and all for a while after an upgrade.
    missing: int

    @property
    def complete(self) -> bool:
        return self.missing == 0


class CustomerCount(Struct, frozen=True):
    # None: it could not be counted in time.
    customers: int | None
    # There are more than that.
    more: bool = False


async def list_page(
    database: Database,
    project_id: str,
    wanted: CustomerFilter,
    now: Ms,
    *,
    sort: Sort = Sort.LAST_SEEN,
    after: str | None = None,
    limit: int = 50,
    whole: bool = False,
) -> CustomerPage:
    """`whole`: with the customers themselves, not only their facets."""
    async with database.transaction(readonly=True) as connection:
        standing = await _standing(connection, project_id, now)
        await storage.plan_each(connection)
        asked = wanted, now, standing.earliest, sort, _place(after), limit + 1, whole
        entries = await storage.page(connection, project_id, *asked)
    last = entries[limit - 1].place if len(entries) > limit else None
    next = f"{last.value}.{last.key}" if last is not None else None
    # Who was deleted a moment ago has no row any more.
    shown = [entry for entry in entries[:limit] if entry.app_user_id is not None]
    return CustomerPage(shown, next, standing.missing)


async def count(
    database: Database, project_id: str, wanted: CustomerFilter, now: Ms, *, within_ms: int = FOR_A_DECISION_MS
) -> CustomerCount:
    customers = await storage.count_within(database, within_ms, project_id, wanted, now, MOST_COUNTED + 1)
    if customers is None:
        return CustomerCount(None)
    return CustomerCount(min(customers, MOST_COUNTED), customers > MOST_COUNTED)


async def active_customers(database: Database, project_id: str, environment: str, now: Ms) -> int:
    """Customers who were seen in the last ACTIVE_DAYS, today included; exact to the hour. `environment` may be the id
    of a test clock: its customers are seen in real time."""
    since = (now // DAY - ACTIVE_DAYS + 1) * DAY
    async with database.transaction(readonly=True) as connection:
        return await storage.count_seen(connection, project_id, environment, since)


async def missing_customers(database: Database, project_id: str, now: Ms) -> int:
    """How many customers are not in any list yet, counted up to MOST_COUNTED."""
    async with database.acquire() as connection:
        return (await _standing(connection, project_id, now)).missing


async def _standing(connection: Connection, project_id: str, now: Ms) -> storage.ListsState:
    standing = await storage.standing(connection, project_id, now, MOST_COUNTED)
    return found(standing, f"There is no project {project_id}.", "project_id")


def _place(cursor: str | None) -> ListCursor | None:
    if not cursor:
        return None
    written = _CURSOR.fullmatch(cursor)
    values = (int(written[1]), int(written[2])) if written else None
    if values is None or any(abs(value) >= 2**63 for value in values):
        raise NotFound(f"There is no place {cursor!r} to start after.", param="starting_after")
    return ListCursor(*values)


STATUSES: dict[CustomerStatus, str] = {
    CustomerStatus.ACTIVE: "Active",
    CustomerStatus.TRIAL: "Trial",
    CustomerStatus.IN_GRACE_PERIOD: "Grace period",
    CustomerStatus.BILLING_ISSUE: "Billing issue",
    CustomerStatus.CANCELLED: "Cancelled, still active",
    CustomerStatus.EXPIRED: "Expired",
    CustomerStatus.ONE_TIME_PURCHASE: "One-time purchase",
    CustomerStatus.NEVER_BOUGHT: "Never bought",
    CustomerStatus.GRANTED: "Granted",
}


def _since(title: str, when: When) -> str:
    return f"{title} since {when}" if when.days is None else f"{title} in the last {counted(when.days, 'day')}"


def _before(title: str, when: When) -> str:
    return f"{title} before {when}" if when.days is None else f"{title} more than {counted(when.days, 'day')} ago"


def _any_of(title: str, words: Iterable[str]) -> str:
    return f"{title}: {' or '.join(sorted(words))}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "status": lambda chosen: " or ".join(title for status, title in STATUSES.items() if status in chosen),
    "product_id": "Product: {}".format,
    "product_active": lambda _: "Product active now",
    "spent_from": lambda micros: f"Spent at least {money(micros)}",
    "spent_to": lambda micros: f"Spent at most {money(micros)}",
    "country": partial(_any_of, "Country"),
    "store": lambda store: f"Store: {store_of(store).title or store}",
    "environment": str.capitalize,
    "last_seen_after": partial(_since, "Last seen"),
    "last_seen_before": partial(_before, "Last seen"),
    "first_seen_after": partial(_since, "First seen"),
    "first_seen_before": partial(_before, "First seen"),
    "trial_ends_within": lambda days: f"Trial ends within {counted(days, 'day')}",
    "billing_issue": lambda _: "Has a billing issue",
    "platform": partial(_any_of, "Platform"),
    "app_version_from": "App version {} or newer".format,
    "app_version_below": "App version before {}".format,
    "attribute": lambda wanted: f"{wanted.name} is {' or '.join(wanted.values)}",
    "entitlement": "Has {} now".format,
    "no_entitlement": "Does not have {} now".format,
}


def conditions(wanted: CustomerFilter) -> Iterator[tuple[str, str]]:
    """Each condition in words, and the name of its field."""
    for name, value in given(wanted).items():
        yield _WORDS[name](value), name


def in_words(wanted: CustomerFilter) -> str:
    return "; ".join(words for words, _ in conditions(wanted)) or "everybody"


class ValueKind(StrEnum):
    """How a value is written."""

    TEXT = "text"
    LIST = "list"
    INSTANT = "instant"
    # Millionths of a US dollar.
    USD = "usd"


class Column(Struct, frozen=True):
    title: str
    kind: ValueKind
    value: Callable[[ListEntry, Catalog], Any]
    # Needs the customer itself, which takes longer to read than its facets.
    whole: bool = False


def _attribute(name: str) -> Callable[[ListEntry, Catalog], str | None]:
    def value(entry: ListEntry, _: Catalog) -> str | None:
        attribute = visible(entry.customer).get(name) if entry.customer is not None else None
        return attribute.value if attribute is not None else None

    return value


def _entitlements(entry: ListEntry, catalog: Catalog) -> list[str]:
    if entry.customer is None:
        return []
    return list(active(at_present(entry.customer, catalog, entry.now), catalog, entry.now))


COLUMNS: dict[str, Column] = {
    "status": Column("Status", ValueKind.LIST, lambda entry, _: sorted(statuses(entry.facets, entry.now))),
    "entitlements": Column("Has now", ValueKind.LIST, _entitlements, whole=True),
    "email": Column("E-mail", ValueKind.TEXT, _attribute("$email"), whole=True),
    "name": Column("Name", ValueKind.TEXT, _attribute("$displayName"), whole=True),
    "products": Column("Products", ValueKind.LIST, lambda entry, _: list(entry.facets.products)),
    "spent": Column("Spent (USD)", ValueKind.USD, lambda entry, _: entry.facets.spent_usd),
    "refunded": Column("Refunded (USD)", ValueKind.USD, lambda entry, _: entry.facets.refunded_usd),
    "country": Column("Country", ValueKind.TEXT, lambda entry, _: entry.facets.country),
    "store": Column("Stores", ValueKind.LIST, lambda entry, _: list(entry.facets.stores)),
    "environment": Column("Environment", ValueKind.TEXT, lambda entry, _: entry.facets.environment.lower()),
    "trial_ends": Column(
        # Of trials that are over there is none.
        "Trial ends",
        ValueKind.INSTANT,
        lambda entry, _: at if (at := entry.facets.trial_until) is not None and at > entry.now else None,
    ),
    "access_ends": Column("Runs until", ValueKind.INSTANT, lambda entry, _: entry.facets.runs_until),
    "first_seen": Column("First seen", ValueKind.INSTANT, lambda entry, _: entry.facets.first_seen_at),
    "last_seen": Column("Last seen", ValueKind.INSTANT, lambda entry, _: entry.facets.last_seen_at),
}
DEFAULT = ("status", "entitlements", "email", "spent", "country", "first_seen", "last_seen")


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """In the order of `COLUMNS`, each once; the default if none is named."""
    wanted = {name.strip() for name in names if name.strip()}
    unknown = wanted - COLUMNS.keys()
    if unknown:
        raise Invalid(f"A column is one of {', '.join(COLUMNS)}.", param="columns")
    return tuple(name for name in COLUMNS if name in wanted) or DEFAULT


def needs_customer(names: Iterable[str]) -> bool:
    return any(COLUMNS[name].whole for name in names)


# Customers per query, and per piece: other requests are served between two pieces.
READ_AT_ONCE, AT_ONCE = 1_000, 200
# A spreadsheet takes a cell that begins like this for a formula, and runs it.
# The last four are the wide forms of the first four.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


async def csv_pieces(
    database: Database, catalogs: Catalogs, project_id: str, wanted: CustomerFilter, columns: Sequence[str], now: Ms
) -> AsyncIterator[bytes]:
    """In the order in which customers were created, the newest first: nobody is missed or listed twice because somebody
    was seen meanwhile. Each piece is a query of its own, so a slow reader holds no transaction open."""
    yield _written([("customer_id", *columns)])
    cells = [COLUMNS[name] for name in columns]
    whole = needs_customer(columns)
    after: str | None = ""
    while after is not None:
        async with database.acquire() as connection:
            catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
        page = await list_page(
            database, project_id, wanted, now, sort=Sort.KEY, after=after, limit=READ_AT_ONCE, whole=whole
        )
        for start in range(0, len(page.entries), AT_ONCE):
            piece = page.entries[start : start + AT_ONCE]
            rows = [(entry.app_user_id, [_cell(column, entry, catalog) for column in cells]) for entry in piece]
            yield _written([(safe(id or ""), *row) for id, row in rows])
            await asyncio.sleep(0)
        after = page.next


def safe(text: str) -> str:
    """Text from outside as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


_WRITERS: dict[ValueKind, Callable[[Any], str]] = {
    ValueKind.INSTANT: instant,
    ValueKind.USD: amount_text,
    ValueKind.LIST: lambda texts: safe(" ".join(texts)),
    ValueKind.TEXT: safe,
}


def _cell(column: Column, entry: ListEntry, catalog: Catalog) -> str:
    value = column.value(entry, catalog)
    return "" if value is None else _WRITERS[column.kind](value)


def _written(rows: Sequence[Sequence[str]]) -> bytes:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


LONGEST_NAME = 100
MOST_SEGMENTS = 200


list_segments = SEGMENTS.page
load_segment = SEGMENTS.get


async def save_segment(
    database: Database, project_id: str, name: str, wanted: CustomerFilter, columns: Sequence[str], sort: Sort, now: Ms
) -> Segment:
    """Saved under a name that exists, in any case of letters, it replaces what was saved there."""
    name = checked_name(name)
    if len(name) > LONGEST_NAME:
        raise Invalid(f"The name of a segment has at most {LONGEST_NAME} characters.", param="name")
    if wanted.is_empty:
        raise Invalid("A segment needs a filter. Without one it is the list of all customers.", param="filter")
    async with database.transaction() as connection:
        saved = await storage.save(
            connection, project_id, f"seg_{uuid4().hex[:24]}", name, wanted, chosen(columns), sort, now
        )
        if len(await SEGMENTS.page(connection, project_id, limit=MOST_SEGMENTS + 1)) > MOST_SEGMENTS:
            raise Refusal(f"A project has at most {MOST_SEGMENTS} segments. Delete one first.")
    return saved


async def delete_segment(database: Database, project_id: str, id: str) -> None:
    if not await storage.delete(database, project_id, id):
        raise SEGMENTS.missing(id)
