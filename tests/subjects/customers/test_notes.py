"""Notes about a customer, what they spent, what their events say of the past, and the remedies for a purchase."""

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer, with_purchase, with_subscription
from latchkey.domain.customers.promotion import grant
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.stores.test_store import actions
from latchkey.engine.storage import state as customer_state
from latchkey.subjects.customers import storage
from latchkey.subjects.customers.rules.spend import spend_of
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.customers.usecases.identities import log_in
from latchkey.subjects.customers.usecases.profile import (
    LONGEST_NOTE,
    Remedies,
    add_note,
    change_note,
    delete_note,
    read_past,
    remedies,
)
from tests.domain.shop import NOON, bought, someone, subscribed
from tests.engine.fixtures import Core
from tests.engine.random_lives import ANONYMOUS


async def key_of(core: Core, user: str = "alice") -> int:
    found: int = await core.database.pool.fetchval("select customer_id from aliases where app_user_id = $1", user)
    return found


async def customer_of(core: Core, user: str = "alice") -> Customer:
    async with core.database.acquire() as connection:
        found = await customer_state.load(connection, core.project_id, user)
    assert found is not None
    return found


async def test_a_note_is_changed_and_deleted_by_its_author_alone(core: Core) -> None:
    await core.act("purchase", product="pro_monthly")
    database, project, key = core.database, core.project_id, await key_of(core)
    id = await add_note(database, project, key, "acc_1", "ann@example.com", " Called.\r\nWants a refund. ", core.time)
    [note] = await storage.notes_of(database, project, key, 9)
    assert (note.body, note.author, note.edited_at) == ("Called.\nWants a refund.", "ann@example.com", None)
    with pytest.raises(NotFound):
        await change_note(database, project, key, id, "acc_2", "Not mine", core.time)
    with pytest.raises(NotFound):
        await delete_note(database, project, key, id, "acc_2")
    await change_note(database, project, key, id, "acc_1", "Refunded.", core.time + 1)
    [note] = await storage.notes_of(database, project, key, 9)
    assert (note.body, note.created_at, note.edited_at) == ("Refunded.", core.time, core.time + 1)
    await delete_note(database, project, key, id, "acc_1")
    assert await storage.notes_of(database, project, key, 9) == []


@pytest.mark.parametrize("text", ["", "  \n ", "x" * (LONGEST_NOTE + 1), "a\x00b", "a\x1b[31m"])
async def test_a_note_is_short_plain_text(core: Core, text: str) -> None:
    await core.act("purchase", product="pro_monthly")
    with pytest.raises(Invalid):
        await add_note(core.database, core.project_id, await key_of(core), "acc_1", "ann@example.com", text, core.time)


async def test_notes_follow_a_merge_and_are_erased_with_the_customer(core: Core) -> None:
    await core.act("purchase", user=ANONYMOUS[0], product="pro_monthly")
    await core.act("purchase", user="alice", product="coins_100")
    for user in (ANONYMOUS[0], "alice"):
        key = await key_of(core, user)
        await add_note(core.database, core.project_id, key, "acc_1", "ann@example.com", f"Of {user}", core.time)
    await log_in(core.changes, core.project_id, ANONYMOUS[0], "alice")
    assert len(await storage.notes_of(core.database, core.project_id, await key_of(core), 9)) == 2
    gone = await key_of(core)
    await erase(core.changes, core.project_id, "alice")
    assert not await core.database.pool.fetchval("select count(*) from customer_notes")
    with pytest.raises(NotFound):
        await add_note(core.database, core.project_id, gone, "acc_1", "ann@example.com", "Too late", core.time)


async def test_events_say_when_payments_failed_and_pauses_began(core: Core) -> None:
    await core.act("purchase", product="pro_monthly")
    await core.act("fail_billing", grace_days=6)
    failed = core.time
    await core.wait(50 * DAY)
    await core.act("recover_billing")
    await core.act("pause", resumes_at=core.time + 60 * DAY)
    await core.wait(31 * DAY)
    past = read_past(await storage.past(core.database, core.project_id, await key_of(core), 9))
    [subscription] = (await customer_of(core)).subscriptions
    place = subscription.store, subscription.id
    [issue] = past.failed[place]
    assert issue.at == failed
    assert issue.grace_until == subscription.periods[0].ends_at + 6 * DAY
    [began] = past.paused[place]
    assert began == subscription.current.ends_at


async def test_lifetime_spend_is_what_was_paid_and_what_was_given_back(core: Core) -> None:
    await core.act("purchase", product="pro_monthly", environment=Environment.PRODUCTION)
    await core.wait(32 * DAY)
    await core.act("refund")
    await core.act("purchase", product="coins_100", environment=Environment.SANDBOX)
    customer = await customer_of(core)
    spent = spend_of(customer, Environment.PRODUCTION)
    assert spent is not None
    [usd] = spent.by_currency
    assert (usd.paid, usd.returned, usd.kept, usd.payments) == (19_980_000, 9_990_000, 9_990_000, 2)
    assert spent.usd == usd
    sandbox = spend_of(customer, Environment.SANDBOX)
    assert sandbox is not None
    assert sandbox.usd.paid == 1_990_000


SUB = ("test_store", "sub")


def test_a_running_subscription_of_the_test_store_can_be_refunded_and_extended() -> None:
    customer = with_subscription(someone(), subscribed())
    assert remedies(customer, NOON)[SUB] == Remedies(refund=True, cancel=True, extend=True)
    assert remedies(customer, NOON + 99 * DAY)[SUB] == Remedies(refund=True)


def test_a_trial_has_no_money_to_give_back_and_a_refund_is_given_once() -> None:
    assert remedies(with_subscription(someone(), subscribed(trial=True)), NOON)[SUB] == Remedies(
        cancel=True, extend=True
    )
    customer = with_subscription(someone(), subscribed())
    done = actions.refund(customer.subscriptions[0], NOON)
    assert remedies(replace(customer, subscriptions=(done,)), NOON)[SUB] == Remedies()


def test_google_and_stripe_are_asked_and_apples_customers_ask_apple() -> None:
    customer = with_subscription(someone(), replace(subscribed(), store="app_store"))
    customer = with_subscription(customer, replace(subscribed(), store="stripe"))
    customer = with_purchase(customer, replace(bought(), store="play_store"))
    found = remedies(customer, NOON)
    assert found["stripe", "sub"] == Remedies(refund=True, cancel=True, extend=True)
    assert found["play_store", "one"] == Remedies(refund=True)
    elsewhere = found["app_store", "sub"].elsewhere
    assert elsewhere is not None
    assert elsewhere.refund_url is not None


def test_a_running_grant_can_be_revoked() -> None:
    customer = grant(someone(), "team", NOON + DAY, NOON)
    [one] = remedies(customer, NOON).values()
    [later] = remedies(customer, NOON + DAY).values()
    assert (one, later) == (Remedies(revoke=True), Remedies())
