"""The vendor's export knows a subscription of Stripe by its item only. Stripe tells the rest."""

from dataclasses import replace

from latchkey.domain.instants import to_iso
from latchkey.domain.purchases.purchase import Environment
from latchkey.emulators.stripe.stripe_books import StripeItem
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.subjects.imports.usecases.apply import KNOWN_AT_STRIPE
from latchkey.subjects.projects.usecases import create_app
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups as StoreDesk
from latchkey.subjects.purchase_intake.usecases.purchase_intake import Taker
from tests.stores.stripe.emulated_stripe import EmulatedStripe, connected
from tests.subjects.imports.conftest import Desk
from tests.subjects.imports.vendor_rows import file_of, row


def written(at: int) -> str:
    return to_iso(at).replace("T", " ").rstrip("Z")


def item_of(stripe: EmulatedStripe) -> StripeItem:
    return stripe.books.subscriptions[stripe.purchase].items[0]


def exported(stripe: EmulatedStripe) -> str:
    """The first period, as the vendor's export has it."""
    item = item_of(stripe)
    begins, ends = written(item.starts * 1000), written(item.ends * 1000)
    period = row(
        store="stripe",
        store_transaction_id=item.id,
        original_store_transaction_id=item.id,
        product_identifier="pro_monthly",
        start_time=begins,
        end_time=ends,
        effective_end_time=ends,
        updated_at=begins,
        is_sandbox="true",
    )
    return file_of([period])


async def connected_account(desk: Desk) -> tuple[EmulatedStripe, Taker]:
    """An account with one subscription, connected to an app of the project."""
    made = await create_app(desk.database, desk.shop.project_id, "stripe", "stripe", desk.shop.time)
    account = EmulatedStripe()
    await account.do("buy")
    desk.shop.time = account.now + 1_000
    adapter = StripeAdapter(lambda: account.now, account)
    app = replace(connected(adapter), project_id=desk.shop.project_id, app_id=made.id)
    return account, Taker(desk.shop.changes, StoreDesk(desk.database), adapter, app)


async def test_stripe_may_speak_before_it_is_asked_about_an_imported_item(desk: Desk) -> None:
    account, taker = await connected_account(desk)
    await desk.take(exported(account))
    await account.do("P1M")
    desk.shop.time = account.now
    adapter, app = taker.adapter, taker.app
    await taker.take(await adapter.read_again(app, account.purchase, Environment.SANDBOX), account.now)
    assert sorted(await desk.shop.told("ada")) == ["INVOICE_ISSUANCE", "RENEWAL"]
    ada = await desk.customer("ada")
    (subscription,) = ada.subscriptions
    assert (subscription.id, len(subscription.periods)) == (item_of(account).id, 2)


async def test_an_item_of_a_subscription_that_stripe_has_told_of_is_left_out(desk: Desk) -> None:
    account, taker = await connected_account(desk)
    await taker.take(await taker.adapter.read_again(taker.app, account.purchase, Environment.SANDBOX), account.now)
    await desk.take(exported(account))
    assert [skipped.reason for skipped in desk.skipped] == [KNOWN_AT_STRIPE]
    ada = await desk.customer("ada")
    assert [subscription.id for subscription in ada.subscriptions] == [account.purchase]


async def test_an_imported_subscription_goes_on_under_the_id_of_its_item(desk: Desk) -> None:
    account, taker = await connected_account(desk)
    adapter, app = taker.adapter, taker.app
    await desk.take(exported(account))
    found = await desk.database.pool.fetchrow("select handle, store_id, check_at from store_handles")
    assert found is not None
    item = item_of(account).id
    assert (found["handle"], found["store_id"], found["check_at"] is None) == (item, item, False)

    await taker.take(await adapter.read_again(app, item_of(account).id, Environment.SANDBOX), account.now)
    assert await desk.shop.told("ada") == []

    # From then on Stripe speaks of the subscription by its own id.
    await account.do("P1M")
    desk.shop.time = account.now
    await taker.take(await adapter.read_again(app, account.purchase, Environment.SANDBOX), account.now)
    assert sorted(await desk.shop.told("ada")) == ["INVOICE_ISSUANCE", "RENEWAL"]
    ada = await desk.customer("ada")
    (subscription,) = ada.subscriptions
    assert subscription.id == item
    first, second = subscription.periods
    assert first.id == f"{item}.0"
    assert second.id.startswith("in_")
