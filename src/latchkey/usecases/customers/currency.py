"""Credits and debits of virtual currency, idempotent by a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from latchkey.domain.customers.currency import move
from latchkey.domain.customers.customer import CurrencyTransaction, Customer
from latchkey.domain.refusal import KeyReused, NotFound
from latchkey.storage.catalog import currencies
from latchkey.storage.customers import records as customers
from latchkey.storage.customers import state as customer_state
from latchkey.usecases.engine.changes import Changes, Committed, load_projects
from latchkey.usecases.engine.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Balance:
    code: str
    name: str
    description: str
    balance: int


async def balances(
    changes: Changes, project_id: str, app_user_id: str, *, unknown_has_none: bool = False
) -> list[Balance]:
    """Every currency of the project, with the balance of this customer. An unknown customer is refused, or has 0 of
    each."""
    async with changes.database.acquire() as connection:
        customer = await customer_state.load(connection, project_id, app_user_id)
        if customer is None and not unknown_has_none:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
        known = await currencies.page(connection, project_id)
    held = customer.balances if customer is not None else {}
    return [Balance(one.code, one.name, one.description, held.get(one.code, 0)) for one in known]


async def adjust(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    adjustments: Mapping[str, int],
    idempotency_key: str,
    reference: str | None = None,
) -> Committed:
    """All of the adjustments, or none. The same key again returns the first response and changes nothing.
    `reference` is kept with the transactions, for people."""
    wall = changes.now()
    async with changes.database.transaction() as connection:
        asked = [(project_id, app_user_id)]
        project = (await load_projects(connection, changes.catalogs, {project_id}))[project_id]
        clocks = await customers.share_clocks(connection, asked)
        stored = (await customers.lock(connection, asked)).get((project_id, app_user_id))
        if stored is None:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
        now = next(iter(clocks.values()), wall)
        done = await customers.currency_by_key(connection, project_id, stored.key, idempotency_key)
        if done:
            if done != dict(adjustments):
                raise KeyReused("This idempotency key was used for other adjustments.", param="Idempotency-Key")
            return Committed(stored.customer, project.catalog, now)
        known = {one.code for one in await currencies.page(connection, project_id)}
        for code in adjustments:
            if code not in known:
                raise NotFound(f"There is no virtual currency {code!r} in this project.", param="adjustments")
        unit = UnitOfWork(wall)
        after: Customer = unit.catch_up(stored, project.catalog, now, tag=-1)
        for code, amount in sorted(adjustments.items()):
            after = move(after, CurrencyTransaction(idempotency_key, code, amount, now))
        after = unit.change(stored, after, project.catalog, now)
        told = await unit.commit(connection)
        if reference is not None:
            await customers.refer_currency(connection, project_id, stored.key, idempotency_key, reference)
        return Committed(after, project.catalog, now, tuple(told.get(0, ())))
