"""Random actions of a few customers and of an operator, for comparisons with what is computed from scratch."""

import itertools
from random import Random
from typing import Any

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY, HOUR, MINUTE
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Refusal
from latchkey.subjects.customers.usecases.edits import erase, grant
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from tests.engine.fixtures import NOON, Core, new_project

_numbers = itertools.count()

ANONYMOUS = [f"$RCAnonymousID:{letter * 32}" for letter in "ab"]
NAMED = ["alice", "bob"]
PRODUCTS = ["pro_monthly", "pro_yearly", "team_monthly", "coins_100", "pro_lifetime"]
ACTIONS: list[Any] = [
    "purchase", "purchase", "purchase", "cancel", "uncancel", "renew", "fail_billing", "recover_billing", "expire",
    "refund", "reverse_refund", "change_product", "pause", "resume", "extend", "issue_invoice", "store_outage",
]  # fmt: skip
WAITS = [0, 1, MINUTE, 5 * HOUR, DAY, 3 * DAY, 8 * DAY, 31 * DAY, 100 * DAY]


async def new_shop(database: Database, time: int = NOON) -> Core:
    project_id = f"proj_{next(_numbers)}"
    await new_project(database, project_id, time)
    return Core(database, project_id, time)


async def something(core: Core, chance: Random) -> None:
    """One random action of a customer or an operator, or time that passes; refusals are ignored."""
    user, other = chance.choice(NAMED + ANONYMOUS), chance.choice(NAMED + ANONYMOUS)
    named = chance.choice(NAMED)
    try:
        match chance.randrange(24):
            case 0:
                await log_in(core.changes, core.project_id, chance.choice(ANONYMOUS), named)
            case 1:
                await transfer(core.changes, core.project_id, user, other)
            case 2:
                await core.show(user, f"test_1_{chance.randrange(4)}", chance.choice(PRODUCTS))
            case 3:
                await erase(core.changes, core.project_id, user)
            case 4:
                await grant(core.changes, core.project_id, user, "pro", create=True)
            case 5 | 6 | 7:
                await core.wait(chance.choice(WAITS))
            case _:
                await act(core, chance, user)
    except Refusal:
        pass


async def act(core: Core, chance: Random, user: str) -> None:
    name = chance.choice(ACTIONS)
    more: dict[str, Any] = {}
    if name == "purchase":
        more = {"trial": chance.random() < 0.3, "environment": chance.choice(list(Environment))}
    elif name == "fail_billing":
        more = {"grace_days": chance.choice((0, 6))}
    elif name == "change_product":
        more = {"new_product_id": chance.choice(PRODUCTS[:3]), "at_renewal": chance.random() < 0.5}
    elif name == "pause":
        more = {"resumes_at": core.time + 90 * DAY}
    elif name == "extend":
        more = {"days": 3}
    product = chance.choice(PRODUCTS) if name in ("purchase", "store_outage") else None
    await core.act(name, user, product, **more)
