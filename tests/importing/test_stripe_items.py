"""The vendor's export knows a subscription of Stripe by its item only. Stripe tells the rest."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.instants import to_iso
from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.usecases.access.projects import create_app
from latchkey.usecases.stores.desk import Desk as StoreDesk
from latchkey.usecases.stores.taking import Taker
from tests.importing.conftest import Desk
from tests.importing.vendor_rows import file_of, row
from tests.stores.stripe.account import ITEM, MONTH, SUB, connected
from tests.stores.stripe.shop import Shop as Stripe


def written(at: int) -> str:
    return to_iso(at).replace("T", " ").rstrip("Z")


async def test_an_imported_subscription_goes_on_under_the_id_of_its_item(desk: Desk) -> None:
    made = await create_app(desk.database, desk.shop.project_id, "stripe", "stripe", desk.shop.time)
    account = Stripe()
    account.subscribe()
    begin = account.now
    desk.shop.time = begin + 1_000
    bought = row(
        store="stripe",
        store_transaction_id=ITEM,
        original_store_transaction_id=ITEM,
        product_identifier="prod_pro",
        start_time=written(begin),
        end_time=written(begin + MONTH),
        effective_end_time=written(begin + MONTH),
        updated_at=written(begin),
        is_sandbox="true",
    )
    await desk.take(file_of([bought]))
    found = await desk.database.pool.fetchrow("select handle, store_id, check_at from store_handles")
    assert found is not None
    assert (found["handle"], found["store_id"], found["check_at"] is None) == (ITEM, ITEM, False)

    adapter = StripeAdapter(lambda: account.now, account)
    app = replace(connected(adapter), project_id=desk.shop.project_id, app_id=made.id)
    taker = Taker(desk.shop.changes, StoreDesk(desk.database), adapter, app)
    await taker.take(await adapter.read_again(app, ITEM, Environment.SANDBOX), account.now)
    assert await desk.shop.told("ada") == []

    # From then on Stripe speaks of the subscription by its own id.
    account.now += MONTH
    desk.shop.time = account.now
    account.renew()
    await taker.take(await adapter.read_again(app, SUB, Environment.SANDBOX), account.now)
    assert sorted(await desk.shop.told("ada")) == ["INVOICE_ISSUANCE", "RENEWAL"]
    ada = await desk.customer("ada")
    assert ada is not None
    (subscription,) = ada.subscriptions
    assert subscription.id == ITEM
    first, second = subscription.periods
    assert first.id == f"{ITEM}.0"
    assert second.id.startswith("in_")
