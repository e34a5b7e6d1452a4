"""Everything that a change writes, for one project: one call of the SQL function `write_changes`.

Inside a transaction that has locked the customers, the call is one of its statements. On its own it is the whole
transaction: it then checks that the customers are as they were read, and commits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import asyncpg
from msgspec import UNSET, Struct, json

from latchkey.database.errors import OutdatedError
from latchkey.database.pool import Connection
from latchkey.database.sql import query
from latchkey.domain.charts.period_rows import FailedRenewal, PeriodRow
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.events.customer_event import vendor_selectors
from latchkey.domain.instants import Ms
from latchkey.engine.storage.records import Stored, add_ids, email_of, keep_emails
from latchkey.engine.storage.state import encode
from latchkey.engine.storage.store_handles import Handle
from latchkey.wire.event import Event, continues

_ENCODER = json.Encoder()

# A customer has changed since it was read; another transaction created the same customer, purchase or event first; or
# two transactions waited for each other.
_OUTDATED = (asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_CHANGED = "LK001"


class Save(NamedTuple):
    """A customer as it was read, and as it is now; and when it next changes by itself. Until a new customer is written,
    -1 stands for the key of the first one, -2 for the second, and so on."""

    before: Stored
    after: Customer
    due_at: Ms | None
    # When and from where the customer was seen with this; None: not at all.
    seen: LastSeen | None = None


class Owned(Struct, frozen=True):
    """A new purchase: its owner, the store and the purchase's id there."""

    who: int
    store: str
    id: str


class TransactionOwner(Struct, frozen=True):
    """A period whose id does not tell which subscription it belongs to."""

    store: str
    id: str
    # The subscription's id in the store.
    purchase_id: str


class Coins(Struct, frozen=True):
    """A credit or debit of virtual currency, with the balance after it."""

    who: int
    id: str
    code: str
    amount: int
    balance: int
    at: Ms


def coins(who: int, balances: Mapping[str, int], after: Customer) -> Iterator[Coins]:
    """The currency transactions of a change; `balances` are those before it."""
    if after.currency_transactions:
        balance = dict(balances)
        for currency_transaction in after.currency_transactions:
            balance[currency_transaction.code] = balance.get(currency_transaction.code, 0) + currency_transaction.amount
            yield Coins(
                who,
                currency_transaction.id,
                currency_transaction.code,
                currency_transaction.amount,
                balance[currency_transaction.code],
                currency_transaction.at,
            )


class Writes(Struct):
    """What to write for one project. `who` is a customer's key, or stands for a new one."""

    project_id: str
    saved: list[Save] = []
    created: list[Save] = []
    owned: list[Owned] = []
    transactions: list[TransactionOwner] = []
    coins: list[Coins] = []
    # What the stores told of now.
    handles: list[Handle] = []
    # For the charts.
    periods: list[PeriodRow] = []
    failures: list[FailedRenewal] = []
    # Customers whose purchases changed without an event: customer lists follow the feed and would miss them.
    marked: list[int] = []
    # In the order of the feed.
    events: list[tuple[int, Event]] = []


class DeliveryLease(Struct, frozen=True):
    """What a worker of this process takes a delivery with that it sends as soon as the change is committed."""

    until: Ms
    token: int


class LeasedDelivery(Struct, frozen=True, array_like=True):
    """A new delivery that the process which has written it may send."""

    webhook_key: int
    webhook_version: int
    customer_id: int
    # Deliveries in its lane, this one included.
    waiting: int
    sequence: int
    event_id: str
    dialect: str | None
    partition: int


class Written(Struct):
    # The keys of new customers.
    made: list[int] = []
    # The keys of webhooks with something to send that nobody has the lease of.
    woken: list[int] | None = None
    leased: list[LeasedDelivery] | None = None
    # Of the events, by their ids.
    bodies: dict[str, bytes] = {}


def _visit(seen: LastSeen | None) -> dict[str, Any]:
    return {} if seen is None else {"seen_at": seen.at, **{name: getattr(seen, name) for name in _VISIT}}


_VISIT = "platform", "platform_version", "app_version", "country"
# With so many events at once, or more, they are claimed together: that costs less than a lease for each.
_MANY = 5
_WRITTEN = json.Decoder(Written)


async def write(connection: Connection, writes: Writes, now: Ms, lease: DeliveryLease | None = None) -> Written:
    """Call it last in a transaction: it holds the feed's lock until the commit, so that a reader with a cursor never
    skips an event that commits later. With a lease the caller sees to the deliveries once it is committed, and nobody
    else is notified of them."""
    documents: list[bytes] = []
    bodies = {event.id: _ENCODER.encode(event) for _, event in writes.events}

    def place(document: bytes) -> int:
        documents.append(document)
        return len(documents)

    # By the name that `write_changes` has for them.
    tables: dict[str, Sequence[Any]] = {
        "saved": [
            {
                "key": before.key,
                "revision": before.revision,
                "app_user_id": after.app_user_id,
                "state": place(encode(after)),
                "due_at": due_at,
                "first_seen_at": after.first_seen_at,
                **_visit(seen),
            }
            for before, after, due_at, seen in sorted(writes.saved, key=lambda save: save.before.key)
        ],
        "created": [
            {
                "app_user_id": after.app_user_id,
                "state": place(encode(after)),
                "due_at": due_at,
                "first_seen_at": after.first_seen_at,
                **_visit(seen),
            }
            for _, after, due_at, seen in writes.created
        ],
        "owned": sorted(writes.owned, key=lambda owned: (owned.store, owned.id)),
        "transactions": sorted(writes.transactions, key=lambda one: (one.store, one.id)),
        "coins": writes.coins,
        "handles": writes.handles,
        "periods": writes.periods,
        "failures": writes.failures,
        "marked": writes.marked,
        "events": [
            {
                "who": who,
                "id": event.id,
                "sequence": event.sequence,
                "type": event.type,
                "environment": event.environment,
                "app_id": None if event.app_id is UNSET else event.app_id,
                "occurred_at": event.event_timestamp_ms,
                "vendor_selectors": vendor_selectors(event.type, continues=continues(event)),
                "body": place(bodies[event.id]),
            }
            for who, event in writes.events
        ],
    }
    rows: dict[str, Any] = {table: rows for table, rows in tables.items() if rows}
    if not rows:
        return Written()
    if lease is not None and writes.events:
        rows["delivers"] = True
        if len(writes.events) < _MANY:
            rows |= {"lease_until": lease.until, "token": lease.token}
    written = _WRITTEN.decode(
        await connection.fetchval(query("write_changes"), writes.project_id, now, _ENCODER.encode(rows), documents)
    )
    written.bodies = bodies
    return written


async def write_at_once(connection: Connection, writes: Writes, now: Ms, lease: DeliveryLease | None = None) -> Written:
    """The same as a transaction of its own. Raises OutdatedError, and writes nothing, if something that the changes are
    based on is no longer so."""
    try:
        return await write(connection, writes, now, lease)
    except _OUTDATED as error:
        raise OutdatedError(str(error)) from error
    except asyncpg.PostgresError as error:
        if error.sqlstate == _CHANGED:
            raise OutdatedError(str(error)) from error
        raise


async def save(connection: Connection, saved: Sequence[Save], now: Ms) -> None:
    """Customers alone, whose rows are locked. Ids that are new to a customer came `now`."""
    await keep_names(connection, new_names(saved), now)
    by_project: dict[str, Writes] = {}
    for one in saved:
        project_id = one.after.project_id
        by_project.setdefault(project_id, Writes(project_id)).saved.append(one)
    for _, writes in sorted(by_project.items()):
        await write(connection, writes, now)


class Names(NamedTuple):
    """New ids and e-mail addresses of customers, each with the project's id and the customer's key."""

    ids: list[tuple[str, str, int]]
    # None: the customer has no address any more.
    emails: list[tuple[str, int, str | None]]


def new_names(saved: Iterable[Save]) -> Names:
    """Most changes have none."""
    ids: list[tuple[str, str, int]] = []
    emails: list[tuple[str, int, str | None]] = []
    for before, after, *_ in saved:
        known = before.customer
        if after.aliases != known.aliases:
            ids += ((after.project_id, id, before.key) for id in after.aliases if id not in known.aliases)
        if after.attributes is not known.attributes and (address := email_of(after)) != email_of(known):
            emails.append((after.project_id, before.key, address))
    return Names(ids, emails)


async def keep_names(connection: Connection, names: Names, now: Ms) -> None:
    await add_ids(connection, [(*row, now) for row in names.ids])
    await keep_emails(connection, names.emails)
