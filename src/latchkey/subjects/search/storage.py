"""Finding customers with an index: by id, e-mail address, purchase, or a prefix of an id or address."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from latchkey.database.pool import Connection
from latchkey.database.rows import fetch_all, fetches_all
from latchkey.database.sql import query
from latchkey.domain.stores.store import STORES
from latchkey.engine.storage.records import folded
from latchkey.engine.storage.scans import FoundCustomer, Hit, _found


class Named(Struct, frozen=True):
    kind: Literal["webhook", "key", "app", "product", "entitlement", "offering", "experiment"]
    id: str
    name: str


# Separates project and id in the index of ids. Text that contains it cannot be found.
SEPARATOR = "\x1f"
# Sorts after every text that begins with what precedes it.
_LAST = "\U0010ffff"
_END = 2**63 - 1


async def newest(connection: Connection, project_id: str, before: int | None, limit: int) -> list[FoundCustomer]:
    """Newest first; `before` is the key of the last customer seen."""
    return [_found(row) for row in await connection.fetch(query("newest_customers"), project_id, before or _END, limit)]


async def by_email(connection: Connection, project_id: str, start: str, limit: int, *, whole: bool) -> list[Hit]:
    """Those whose address begins so, or is so."""
    first = folded(start)
    last = first if whole else first + _LAST
    return await fetch_all(connection, Hit, query("customers_by_email"), project_id, first, last, limit)


async def by_purchases(connection: Connection, project_id: str, store_ids: Sequence[str]) -> list[int | None]:
    """The keys of those who own the purchases with one of these ids, in any store. None: the owner was erased."""
    rows = await connection.fetch(query("customers_by_transaction"), project_id, store_ids, list(STORES))
    return [row["customer_id"] for row in rows]


async def by_start_of_id(connection: Connection, project_id: str, start: str, limit: int) -> list[Hit]:
    first = f"{project_id}{SEPARATOR}{folded(start)}"
    statement = query("customers_by_start_of_id")
    return await fetch_all(connection, Hit, statement, project_id, first, first + _LAST, limit)


# Those whose id is the text, or whose name (of a webhook also the address) contains it.
by_name = fetches_all(Named, query("find_by_name"))
