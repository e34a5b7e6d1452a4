from __future__ import annotations

import pytest

from latchkey.domain.customers.customer import Attribute
from latchkey.domain.refusal import NotFound
from latchkey.usecases.customers.attributes import set_attributes
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.receipts import Receipt, take_receipt
from tests.usecases.conftest import Shop

RECEIPT = Receipt(
    app_user_id="alice@example.com",
    token="test_1_a",
    product_id="pro_monthly",
    app_id="app_shop",
    store="test_store",
)


async def test_an_erased_person_leaves_no_trace_but_the_books_stay(shop: Shop) -> None:
    email = {"$email": Attribute("alice@example.com", shop.time)}
    await set_attributes(shop.changes, shop.project_id, RECEIPT.app_user_id, email, create=True)
    await take_receipt(shop.changes, shop.project_id, RECEIPT)
    await erase(shop.changes, shop.project_id, RECEIPT.app_user_id)
    everything = await shop.database.pool.fetch("select body::text from events")
    assert len(everything) == 1
    assert "alice" not in everything[0]["body"]
    assert '"price":9.99' in everything[0]["body"]
    for table in ("customers", "aliases"):
        assert await shop.database.pool.fetchval(f"select count(*) from {table}") == 0
    with pytest.raises(NotFound):
        await erase(shop.changes, shop.project_id, RECEIPT.app_user_id)


async def test_a_purchase_restored_after_erasure_is_told_as_a_transfer(shop: Shop) -> None:
    await take_receipt(shop.changes, shop.project_id, RECEIPT)
    await erase(shop.changes, shop.project_id, RECEIPT.app_user_id)
    again = await shop.show("bob", "test_1_a", "pro_monthly")
    assert [event.type for event in again.events] == ["TRANSFER"]
    assert set(again.events[0].entitlements) == {"pro"}
    assert again.events[0].sequence == 1
