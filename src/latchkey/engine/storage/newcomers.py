"""Customers created by the thousand: imports and the demo."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from latchkey.database.pool import Connection
from latchkey.database.sql import query
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import Ms
from latchkey.engine.storage import records
from latchkey.engine.storage.records import Stored
from latchkey.engine.storage.state import encode

_KEYS = query("new_customer_keys")
_CUSTOMERS = query("import_customers")


@dataclass(frozen=True, slots=True)
class Newcomer:
    # With the currency transactions that its balances come from.
    customer: Customer
    next_due_at: Ms | None
    last_seen: LastSeen


async def create(connection: Connection, project_id: str, newcomers: Sequence[Newcomer]) -> list[Stored]:
    """In the order given: rows of customers, of their ids and e-mail addresses. An id that somebody else has
    just taken breaks the transaction as a collision."""
    if not newcomers:
        return []
    keys = [row["id"] for row in await connection.fetch(_KEYS, project_id, len(newcomers))]
    made = [one.customer for one in newcomers]
    seen = [one.last_seen for one in newcomers]
    await connection.execute(
        _CUSTOMERS,
        project_id,
        keys,
        [one.app_user_id for one in made],
        [encode(replace(one, currency_transactions=())) for one in made],
        [one.next_due_at for one in newcomers],
        [one.first_seen_at for one in made],
        [one.at for one in seen],
        [one.platform for one in seen],
        [one.platform_version for one in seen],
        [one.app_version for one in seen],
        [one.country for one in seen],
    )
    stored = [Stored(key, one) for key, one in zip(keys, made, strict=True)]
    named = [(project_id, id, one.key, one.customer.first_seen_at) for one in stored for id in one.customer.aliases]
    await records.add_ids(connection, named)
    await records.keep_emails(connection, [(project_id, one.key, records.email_of(one.customer)) for one in stored])
    return stored
