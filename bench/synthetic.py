"""Synthetic events with their deliveries and attempts, spread over parts."""

from collections.abc import Sequence

from rich.progress import track

from latchkey.database.pool import Database

CHUNK = 50_000
# How many events a customer has.
EACH = 20
# The key of the first customer: far from those of customers who buy while it is measured.
FIRST_CUSTOMER = 1_000_000_000

# Every customer has an event in each of `EACH` stretches of the feed, so its events are in all partitions.
ADD_EVENTS = """
insert into events (
    project_id, position, id, customer_id, sequence, type, environment, occurred_at, committed_at, body, partition
)
select $1, n, 'evt_' || lpad(to_hex(n), 32, '0'), 1000000000 + n % $2, n / $2 + 1, 'RENEWAL', 'PRODUCTION', $3 + n,
    $3 + n, json_build_object('id', n, 'app_user_id', 'user' || n % $2, 'filler', repeat('x', 300)), $6
from generate_series($4::bigint, $5::bigint) as n
"""
ADD_DELIVERIES = """
insert into deliveries (
    project_id, customer_id, webhook_key, sequence, event_id, event_type, status, attempts, created_at, finished_at,
    response_status, partition
)
select project_id, customer_id, $1, sequence, id, type, 'delivered', 1, committed_at, committed_at, 200, partition
from events where project_id = $2 and position between $3 and $4
"""
ADD_ATTEMPTS = """
insert into attempts (
    project_id, customer_id, webhook_key, sequence, number, at, took_ms, status, request_headers, response_headers,
    response_body, partition
)
select project_id, customer_id, $1, sequence, 1, committed_at, 5, 200,
    '{"content-type":"application/json","webhook-id":"0","webhook-signature":"v1,0"}', '[["server","x"]]', '\\x7b7d',
    partition
from events where project_id = $2 and position between $3 and $4
"""


async def fill(database: Database, project_id: str, webhook_key: int, rows: int, parts: Sequence[int]) -> int:
    """Add so many rows to each of the three tables, the same number to each part. Returns the number of customers.

    Customers have no rows of their own: what is measured looks for their events."""
    customers = max(rows // EACH, 1)
    before = 1_700_000_000_000
    # No chunk is larger than a part.
    chunk = min(CHUNK, max(rows // len(parts), 1))
    async with database.acquire() as connection:
        await connection.execute("set synchronous_commit = off")
        for first in track(range(1, rows + 1, chunk), f"{rows:,} rows", transient=True):
            last = min(first + chunk - 1, rows)
            part = parts[(first - 1) * len(parts) // rows]
            await connection.execute(ADD_EVENTS, project_id, customers, before, first, last, part)
            await connection.execute(ADD_DELIVERIES, webhook_key, project_id, first, last)
            await connection.execute(ADD_ATTEMPTS, webhook_key, project_id, first, last)
        await connection.execute(
            "update feeds set position = $2, partition = $3 where project_id = $1", project_id, rows, parts[-1]
        )
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
        await connection.execute("set synchronous_commit = on")
    return customers
