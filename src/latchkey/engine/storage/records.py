"""Customers: loaded under lock, changed by the rules, and written back with their events in the same transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from latchkey.database.pool import Connection, Record
from latchkey.database.rows import executes
from latchkey.database.sql import query
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.lifecycle import EndedBy, Ending, endings
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.engine.storage.state import decode, encode

_DELETE = query("delete_customer")

PurchaseKey = tuple[str, str]
"""A purchase's store and its id there."""


class Stored(Struct, frozen=True):
    """A customer and the key of its row. Whoever loaded it holds the row's lock, unless `revision` is set."""

    key: int
    customer: Customer
    # None if it was not loaded.
    last_seen: LastSeen | None = None
    # Of a row that was read without a lock: it may have changed since.
    revision: int | None = None


def last_seen_of(row: Record) -> LastSeen:
    """Of a row with the columns `{last_seen}`."""
    return LastSeen(
        row["last_seen_at"],
        row["last_seen_platform"],
        row["last_seen_platform_version"],
        row["last_seen_app_version"],
        row["last_seen_country"],
    )


async def share_clocks(connection: Any, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Ms]:
    rows = await connection.fetch(query("share_clocks"), *_columns(asked, 2))
    return {(row["project_id"], row["id"]): row["now_ms"] for row in rows}


async def lock(connection: Any, asked: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Stored]:
    """The customers with these (project, app user id); two ids of one customer return the same object. One that was
    merged into another while this waited for its lock is the other one now."""
    wanted = sorted(set(asked))
    while True:
        rows = await connection.fetch(query("lock_customers"), *_columns(wanted, 2))
        by_key: dict[tuple[str, int], Stored] = {}
        found = {}
        for row in rows:
            key = row["project_id"], row["id"]
            if key not in by_key:
                by_key[key] = Stored(row["id"], decode(row["state"]), last_seen_of(row))
            found[row["project_id"], row["app_user_id"]] = by_key[key]
        missing = [ref for ref in wanted if ref not in found]
        # The statement leaves out a row that was deleted while it waited.
        if not missing or not await known_ids(connection, missing):
            return found


async def owner_of(connection: Any, project_id: str, purchase: PurchaseKey) -> str | None:
    """The id of the current owner of this purchase. Nothing is locked, so the owner may change at any time."""
    owner = (await owners(connection, [(project_id, *purchase)])).get((project_id, *purchase))
    return None if owner is None else owner.app_user_id


class Owner(Struct, frozen=True):
    # None: the customer was erased.
    key: int | None
    app_user_id: str | None


async def owners(connection: Any, asked: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], Owner]:
    """As `owner_of`, for several purchases, and also those whose owner was erased."""
    rows = await connection.fetch(query("owners_of_purchases"), *_columns(asked, 3)) if asked else ()
    return {
        (row["project_id"], row["store"], row["store_id"]): Owner(row["customer_id"], row["app_user_id"])
        for row in rows
    }


async def known_ids(connection: Any, asked: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of the (project, app user id) that a customer has."""
    rows = await connection.fetch(query("known_app_user_ids"), *_columns(asked, 2))
    return {(row["project_id"], row["app_user_id"]) for row in rows}


async def ids_of_digests(connection: Any, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """By (project, SHA-256 in hex): the app user id that a customer has."""
    rows = await connection.fetch(query("app_user_ids_by_digest"), *_columns(asked, 2))
    return {(row["project_id"], row["digest"]): row["app_user_id"] for row in rows}


async def create(connection: Any, newcomers: Sequence[Customer]) -> dict[tuple[str, str], Stored]:
    """The customers that were created; an id that another transaction has just taken is left out."""
    made = {(newcomer.project_id, newcomer.app_user_id): newcomer for newcomer in newcomers}
    rows = [(*ref, one.test_clock_id, encode(one), one.first_seen_at) for ref, one in made.items()]
    found = await connection.fetch(query("create_customers"), *_columns(rows, 5))
    keys = {(row["project_id"], row["app_user_id"]): row["id"] for row in found}
    return {ref: Stored(key, made[ref], LastSeen(made[ref].first_seen_at)) for ref, key in keys.items()}


async def add_ids(connection: Any, added: Sequence[tuple[str, str, int, Ms]]) -> None:
    """Each entry: the project's id, an app user id that is new to the customer, the customer's key, since when."""
    if added:
        await connection.execute(query("add_aliases"), *_columns(sorted(added), 4))


async def keep_emails(connection: Any, addresses: Sequence[tuple[str, int, str | None]]) -> None:
    """Each entry: the project's id, the customer's key, and the address as `email_of` gives it; None is none."""
    if addresses:
        await connection.execute(query("keep_emails"), *_columns(addresses, 3))


def email_of(customer: Customer) -> str | None:
    """As stored for searching: lower-cased like the C locale, which works the same in every database."""
    noted = customer.attributes.get("$email")
    return folded(noted.value) if noted is not None and noted.value else None


def folded(text: str) -> str:
    return text.encode().lower().decode()


async def move_purchases(connection: Any, claims: Sequence[tuple[str, str, str, int]]) -> None:
    if claims:
        await connection.execute(query("move_purchases"), *_columns(sorted(claims), 4))


async def absorb(connection: Any, project_id: str, source: int, target: int) -> None:
    """Repoints everything of the merged customer to the one it was merged into."""
    await connection.execute(query("absorb_customer"), project_id, source, target)
    await connection.execute(_DELETE, project_id, source)


async def erase(connection: Any, erased: Stored) -> None:
    """What ended its purchases is kept."""
    customer = erased.customer
    await connection.execute(_DELETE, customer.project_id, erased.key)
    for bought in customer.bought:
        await keep_endings(connection, customer.project_id, bought)


async def keep_endings(connection: Any, project_id: str, bought: Subscription | Purchase) -> bool:
    """Keep what has ended the transactions of a purchase whose owner was erased. False: somebody owns it."""
    if not (ended := endings(bought)):
        return True
    rows = [(bought.store, bought.id, one.transaction_id, one.ended_by, one.at, one.told_at) for one in ended]
    kept: int = await connection.fetchval(query("keep_endings"), project_id, *_columns(rows, 6))
    return kept > 0


async def lock_erased(
    connection: Any, project_id: str, asked: Sequence[PurchaseKey]
) -> dict[PurchaseKey, tuple[Ending, ...]]:
    """Those of the purchases that belong to nobody any more, with what has ended their transactions."""
    found: dict[PurchaseKey, tuple[Ending, ...]] = {}
    for row in await connection.fetch(query("lock_erased_purchases"), project_id, *_columns(asked, 2)):
        key = row["store"], row["store_id"]
        found.setdefault(key, ())
        if (id := row["transaction_id"]) is not None:
            found[key] += (Ending(id, EndedBy(row["ended_by"]), row["ended_at"], row["told_at"]),)
    return found


# Adds a reference to the currency transactions of a request: project, customer's key, idempotency key, reference.
refer_currency = executes(query("refer_currency_transactions"))


async def currency_by_key(connection: Any, project_id: str, key: int, idempotency_key: str) -> dict[str, int]:
    """Amounts by currency of the request with this idempotency key; empty if there was none."""
    rows = await connection.fetch(query("currency_transactions_by_key"), project_id, key, idempotency_key)
    return {row["code"]: row["amount"] for row in rows}


async def lock_credited(
    connection: Any, purchases: Mapping[tuple[str, str, str], Sequence[str]]
) -> dict[tuple[str, str, str], Stored | None]:
    """The customer who was credited with the virtual currency of each purchase, by the ids of its credits and debits;
    None if erased."""
    wanted = [(place[0], movement, place) for place, ids in purchases.items() for movement in ids]
    rows = await connection.fetch(query("lock_credited_customers"), *_columns(wanted, 2))
    by_key = {(row["project_id"], row["id"]): Stored(row["id"], decode(row["state"])) for row in rows}
    by_movement = {(row["project_id"], row["idempotency_key"]): by_key[row["project_id"], row["id"]] for row in rows}
    found: dict[tuple[str, str, str], Stored | None] = dict.fromkeys(purchases)
    for project, movement, place in wanted:
        found[place] = found[place] or by_movement.get((project, movement))
    return found


async def due(connection: Any, now: Ms, limit: int) -> list[Stored]:
    return [
        Stored(row["id"], decode(row["state"])) for row in await connection.fetch(query("customers_due"), now, limit)
    ]


async def postpone(connection: Any, late: Stored, until: Ms) -> None:
    await connection.execute(query("postpone_customer"), late.customer.project_id, late.key, until)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[index] for row in rows] for index in range(width)]


class Newcomer(Struct, frozen=True):
    """One of the thousands of customers that an import or the demo creates."""

    # With the currency transactions that its balances come from.
    customer: Customer
    next_due_at: Ms | None
    last_seen: LastSeen


def _row(newcomer: Newcomer) -> tuple[Any, ...]:
    customer = newcomer.customer
    state = encode(replace(customer, currency_transactions=()))
    return customer.app_user_id, state, newcomer.next_due_at, customer.first_seen_at, *astuple(newcomer.last_seen)


async def create_all(connection: Connection, project_id: str, newcomers: Sequence[Newcomer]) -> list[Stored]:
    """In the order given: rows of customers, of their ids and e-mail addresses. An id that somebody else has
    just taken breaks the transaction as a collision."""
    if not newcomers:
        return []
    keys = [row["id"] for row in await connection.fetch(query("new_customer_keys"), project_id, len(newcomers))]
    stored = [Stored(key, one.customer, one.last_seen) for key, one in zip(keys, newcomers, strict=True)]
    await connection.execute(
        query("import_customers"), project_id, keys, *_columns([_row(newcomer) for newcomer in newcomers], 9)
    )
    named = [(project_id, id, one.key, one.customer.first_seen_at) for one in stored for id in one.customer.aliases]
    await add_ids(connection, named)
    await keep_emails(connection, [(project_id, one.key, email_of(one.customer)) for one in stored])
    return stored
