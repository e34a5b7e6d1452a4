"""Reading all customers of a project, a range at a time, for questions that no index can answer; and when background
work of each kind is next due, in all projects together."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import fetches_all
from latchkey.database.sql import query
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import Ms
from latchkey.engine.storage.records import last_seen_of
from latchkey.engine.storage.state import decode


class ScannedRange(Struct, frozen=True):
    # The key of its last customer.
    ends_at: int
    customers: int
    # The key of the project's last customer.
    last: int


async def next_stretch(connection: Connection, project_id: str, after: int, limit: int) -> ScannedRange | None:
    """The next `limit` customers after this key; None at the end."""
    row = await connection.fetchrow(query("next_stretch_of_customers"), project_id, after, limit)
    assert row is not None, "an aggregate always has a row"
    return None if row["ends_at"] is None else ScannedRange(row["ends_at"], row["customers"], row["last"])


async def mentioning(
    connection: Connection, project_id: str, after: int, stretch: ScannedRange, words: Sequence[str]
) -> list[tuple[Customer, Ms | None]]:
    """The customers of a range whose stored state contains one of the words, see `mention`; each with the time of its
    test clock, if it is on one."""
    rows = await connection.fetch(query("customers_mentioning"), project_id, after, stretch.ends_at, list(words))
    return [(decode(row["state"]), row["now_ms"]) for row in rows]


def mention(field: str, value: str) -> str:
    """How the stored state writes this field. Values are our own ids, so nothing in them needs escaping."""
    return f'"{field}":"{value}"'


class Outlook(Struct, frozen=True, kw_only=True):
    """Instants are those of the first of each kind; None: there is none. What has a default is not known while no node
    of a distributed database answers."""

    # A customer falls due.
    customer_at: Ms | None = None
    # A store's notification is processed, a purchase acknowledged, a purchase read again.
    notification_at: Ms | None
    acknowledgement_at: Ms | None = None
    check_at: Ms | None = None
    # A provider is asked about a checkout.
    checkout_at: Ms | None
    # Begins, or is begun again because its lease has run out.
    export_at: Ms | None
    bulk_grant_at: Ms | None
    mail_at: Ms | None
    # A project is looked at, a report is due, or an alert waits.
    alert_at: Ms | None
    # Some project has events or marks that are not in its lists.
    behind: bool = False
    # The lists of some project have not been started.
    unstarted: bool = False
    # The last key that any customer got.
    newest: int = 0


async def look_out(connection: Executor) -> Outlook:
    at_home = await connection.fetchrow(query("look_out_at_home"))
    assert at_home is not None, "sums always have a row"
    in_projects = await connection.fetchrow(query("look_out_in_projects"))
    return Outlook(**dict(at_home.items()), **dict(in_projects.items() if in_projects is not None else ()))


async def still_to_ask(
    connection: Connection, project_id: str, ended: Sequence[tuple[str, str, Ms]], patience: Ms
) -> set[tuple[str, str]]:
    """Of these subscriptions (store, id, end) those of connected apps of which the store has not told since the end.
    One whose end is before `patience` only until the store was asked in vain."""
    stores, ids, ends = ([one[column] for one in ended] for column in range(3))
    rows = await connection.fetch(query("still_to_ask"), project_id, stores, ids, ends, patience)
    return {(row["store"], row["store_id"]) for row in rows}


class FoundCustomer(Struct, frozen=True):
    key: int
    customer: Customer
    # The time of the customer's test clock, if it is on one.
    clock_now: Ms | None
    last_seen: LastSeen


class Hit(Struct, frozen=True):
    customer_id: int
    # The id or e-mail address that was found.
    matched: str


async def by_keys(connection: Connection, project_id: str, keys: Iterable[int]) -> list[FoundCustomer]:
    return [_found(row) for row in await connection.fetch(query("customers_by_key"), project_id, list(keys))]


# Of a project: those with one of these ids.
by_ids = fetches_all(Hit, query("customers_by_whole_id"))


def _found(row: Record) -> FoundCustomer:
    return FoundCustomer(
        key=row["id"], customer=decode(row["state"]), clock_now=row["now_ms"], last_seen=last_seen_of(row)
    )
