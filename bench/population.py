"""Creates many customers quickly: one real customer made by the rules, copied by the database."""

from msgspec.structs import replace
from rich.progress import track

from latchkey.database.pool import Database
from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.customers.customer import Customer, newcomer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.stores.test_store import actions
from latchkey.engine.due_transitions import next_due_at
from latchkey.engine.storage.state import encode
from latchkey.subjects.demo.usecases.project import PROJECT_ID

PRO = Product(
    id="pro_monthly",
    kind=ProductKind.SUBSCRIPTION,
    price=Price(9_990_000, "USD"),
    duration=Duration(months=1),
    grants=("pro",),
)
CATALOG = Catalog({PRO.id: PRO}, frozenset({"pro"}))
NAME = "@@@"
CHUNK = 50_000

INSERT = """
with made as (
    insert into customers (project_id, app_user_id, state, next_due_at, first_seen_at, last_seen_at)
    select $1, $2 || n, replace($3::text, '@@@', $2 || n)::json, $4, $5, $5
    from generate_series($6::bigint, $7::bigint) as n
    returning id, app_user_id
)
insert into aliases (project_id, app_user_id, customer_id, created_at) select $1, app_user_id, id, $5 from made
"""


def subscriber(bought_at: Ms, *, cancelled: bool = False) -> Customer:
    """A customer who bought a month, and optionally turned renewal off."""
    customer = newcomer(PROJECT_ID, NAME, bought_at)
    seen = actions.sell(PRO, bought_at, id=f"test_{NAME}", environment=Environment.PRODUCTION)
    customer = take_in(customer, seen, bought_at)
    if cancelled:
        seen = actions.cancel(customer.subscriptions[0], bought_at)
        customer = take_in(customer, seen, bought_at)
    return replace(customer, sequence=2 if cancelled else 1)


async def settle(database: Database, prefix: str, customer: Customer, count: int) -> None:
    """Insert `count` copies of a customer, named prefix0 to prefix{count - 1}."""
    state = encode(customer).decode()
    due = next_due_at(customer)
    chunks = range(0, count, CHUNK)
    for start in track(chunks, f"{count:,} customers", transient=True):
        last = min(start + CHUNK, count) - 1
        # On a busy machine a chunk takes longer than a statement may.
        async with database.transaction(statement_timeout_ms=0) as connection:
            await connection.execute(
                INSERT, PROJECT_ID, prefix, state, due, customer.first_seen_at, start, last, timeout=300
            )
    async with database.acquire() as connection:
        await connection.execute("vacuum analyze customers, aliases", timeout=600)
