"""The vendor's export knows a subscription of Stripe by its item only. Stripe tells the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from latchkey.domain.instants import to_iso
from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.usecases.access.projects import create_app
from latchkey.usecases.importing.applying import KNOWN_AT_STRIPE
from latchkey.usecases.stores.desk import Desk as StoreDesk
from latchkey.usecases.stores.taking import Taker
from tests.importing.conftest import Desk
from tests.importing.vendor_rows import file_of, row
from tests.stores.stripe.account import ITEM, MONTH, SUB, connected
from tests.stores.stripe.shop import Shop as Stripe


def written(at: int) -> str:
    return to_iso(at).replace("T", " ").rstrip("Z")


def of_item(begin: int) -> dict[str, Any]:
    """The first period, as the vendor's export has it."""
    return row(
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


async def connected_account(desk: Desk) -> tuple[Stripe, Taker]:
    """An account with one subscription, connected to an app of the project."""
    made = await create_app(desk.database, desk.shop.project_id, "stripe", "stripe", desk.shop.time)
    account = Stripe()
    account.subscribe()
    desk.shop.time = account.now + 1_000
    adapter = StripeAdapter(lambda: account.now, account)
    app = replace(connected(adapter), project_id=desk.shop.project_id, app_id=made.id)
    return account, Taker(desk.shop.changes, StoreDesk(desk.database), adapter, app)


async def test_stripe_may_speak_before_it_is_asked_about_an_imported_item(desk: Desk) -> None:
    account, taker = await connected_account(desk)
    await desk.take(file_of([of_item(account.now)]))
    account.now += MONTH
    desk.shop.time = account.now
    account.renew()
    adapter, app = taker.adapter, taker.app
    await taker.take(await adapter.read_again(app, SUB, Environment.SANDBOX), account.now)
    assert sorted(await desk.shop.told("ada")) == ["INVOICE_ISSUANCE", "RENEWAL"]
    ada = await desk.customer("ada")
    assert ada is not None
    (subscription,) = ada.subscriptions
    assert (subscription.id, len(subscription.periods)) == (ITEM, 2)


async def test_an_item_of_a_subscription_that_stripe_has_told_of_is_left_out(desk: Desk) -> None:
    account, taker = await connected_account(desk)
    await taker.take(await taker.adapter.read_again(taker.app, SUB, Environment.SANDBOX), account.now)
    await desk.take(file_of([of_item(account.now)]))
    assert [one.reason for one in desk.skipped] == [KNOWN_AT_STRIPE]
    ada = await desk.customer("ada")
    assert ada is not None
    assert [one.id for one in ada.subscriptions] == [SUB]


async def test_an_imported_subscription_goes_on_under_the_id_of_its_item(desk: Desk) -> None:
    account, taker = await connected_account(desk)
    adapter, app = taker.adapter, taker.app
    await desk.take(file_of([of_item(account.now)]))
    found = await desk.database.pool.fetchrow("select handle, store_id, check_at from store_handles")
    assert found is not None
    assert (found["handle"], found["store_id"], found["check_at"] is None) == (ITEM, ITEM, False)

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
