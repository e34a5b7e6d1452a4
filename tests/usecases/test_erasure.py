from __future__ import annotations

import asyncio

import pytest

from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import OwnedByAnother
from latchkey.domain.stores.test_store import actions
from latchkey.usecases.customers.attributes import set_attributes
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.receipts import Receipt, take_receipt
from latchkey.usecases.engine.changes import Change, Situation
from tests import distributed
from tests.patience import until
from tests.usecases.conftest import Shop

RECEIPT = Receipt(
    app_user_id="alice@example.com",
    token="test_1_a",
    product_id="pro_monthly",
    app_id="app_shop",
    store="test_store",
)

WAITING = (
    "select count(*) from citus_lock_waits"
    if distributed.is_asked_for()
    else "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


async def test_a_purchase_without_an_owner_is_claimed_by_one_of_two_processes(shop: Shop) -> None:
    await take_receipt(shop.changes, shop.project_id, RECEIPT)
    await erase(shop.changes, shop.project_id, RECEIPT.app_user_id)
    await set_attributes(shop.changes, shop.project_id, "bob", {}, create=True)

    def sold(situation: Situation) -> Customer:
        product = situation.catalog.products["pro_monthly"]
        seen = actions.sell(product, situation.now, id=RECEIPT.token, environment=Environment.SANDBOX)
        return take_in(situation.customer, seen, situation.now)

    claims = frozenset({("test_store", RECEIPT.token)})
    change = Change(project_id=shop.project_id, app_user_id="eve", apply=sold, create=True, claims=claims)
    async with shop.database.transaction() as other:
        bob = await other.fetchval("select id from customers")
        await other.execute("update purchase_owners set customer_id = $1", bob)
        claiming = asyncio.create_task(shop.changes.make(change))
        await until(lambda: shop.database.pool.fetchval(WAITING))
    with pytest.raises(OwnedByAnother):
        await claiming
