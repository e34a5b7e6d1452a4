"""Credits and debits of virtual currency, each done once however often it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from latchkey.domain.currency import move
from latchkey.domain.customer import CurrencyTransaction, Customer
from latchkey.domain.refusal import KeyReused, NotFound
from latchkey.storage import customers
from latchkey.storage.sql import query
from latchkey.usecases.changes import Changes, Committed, load_projects
from latchkey.usecases.unit_of_work import UnitOfWork

_CODES = query("currency_codes")
_STATE = query("customer_state")


@dataclass(frozen=True, slots=True)
class Balance:
    code: str
    name: str
    description: str
    balance: int


async def balances(changes: Changes, project_id: str, app_user_id: str) -> list[Balance]:
    """Every currency of the project, with what this customer has of it."""
    async with changes.db.acquire() as connection:
        state = await connection.fetchval(_STATE, project_id, app_user_id)
        if state is None:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
        held = customers.decode(state).balances
        rows = await connection.fetch(_CODES, project_id)
    return [Balance(row["code"], row["name"], row["description"], held.get(row["code"], 0)) for row in rows]


async def adjust(
    changes: Changes, project_id: str, app_user_id: str, adjustments: Mapping[str, int], idempotency_key: str
) -> Committed:
    """All of the adjustments, or none. The same key again answers as the first time and changes nothing."""
    wall = changes.now()
    async with changes.db.transaction() as connection:
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
        known = {row["code"] for row in await connection.fetch(_CODES, project_id)}
        for code in adjustments:
            if code not in known:
                raise NotFound(f"There is no virtual currency {code!r} in this project.", param="adjustments")
        unit = UnitOfWork(connection, wall)
        after: Customer = unit.catch_up(stored, project.catalog, now, tag=-1)
        for code, amount in sorted(adjustments.items()):
            after = move(after, CurrencyTransaction(idempotency_key, code, amount, now))
        after = unit.change(stored, after, project.catalog, now)
        told = await unit.commit()
        return Committed(after, project.catalog, now, tuple(told.get(0, ())))
