"""Stripe's table: what happens at Stripe, and what Latchkey tells of it; also heard twice and in any order."""

from itertools import permutations

import pytest
from msgspec import structs

from latchkey.domain.events.customer_event import EventType
from latchkey.domain.purchases.purchase import Reason
from latchkey.domain.purchases.subscription import Moment, Status
from latchkey.emulators.stripe import stripe_acts, stripe_billing, stripe_due_events
from latchkey.emulators.stripe.stripe_books import StripeStatus
from latchkey.emulators.stripe.stripe_writes import change_subscription
from latchkey.stores.adapter import ConnectedApp, Incoming
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.adapter_life import Life
from tests.stores.stripe.emulated_stripe import EmulatedStripe, Json, Step

PRO, TEAM, BASIC = (f"{name}_monthly:price_{name}_monthly" for name in ("pro", "team", "basic"))
FIRST = ["INITIAL_PURCHASE", "INVOICE_ISSUANCE"]
RENEWAL = ["INVOICE_ISSUANCE", "RENEWAL"]
ENDED, FAILED, REMOVED = ["EXPIRATION UNSUBSCRIBE"], ["BILLING_ISSUE", "INVOICE_ISSUANCE"], ["EXPIRATION UNSUBSCRIBE"]
UNCOLLECTED = ["EXPIRATION BILLING_ERROR"]
CHANGED_TO_TEAM = [f"PRODUCT_CHANGE {PRO}>{TEAM}"]

TRIAL: Step = ("buy", {"trial": True})
INCOMPLETE: Step = ("buy", {"incomplete": True})
DRAFT: Step = ("buy", {"draft_minutes": 60})
COINS: Step = ("buy", {"product_id": "coins_100"})
BOTH: Step = ("buy", {"also": ["basic_monthly"]})
UNPAID: Step = ("fail_billing", {"then": "unpaid"})
UPGRADE: Step = ("change", {"product_id": "team_monthly"})
UPGRADE_PAID_LATER: Step = ("change", {"product_id": "team_monthly", "proration": "create_prorations"})
BACK_PAID_LATER: Step = ("change", {"product_id": "pro_monthly", "proration": "create_prorations"})
BASIC_BOUGHT: Step = ("buy", {"product_id": "basic_monthly"})
BASIC_PAID_LATER: Step = ("change", {"product_id": "basic_monthly", "proration": "create_prorations"})
SCHEDULE: Step = ("change", {"product_id": "basic_monthly", "deferred": True})
REMOVE_PAID_LATER: Step = ("remove_item", {"proration": "create_prorations"})


def asked(form: Json) -> Step:
    """An update of the subscription over the API."""
    return lambda stripe: stripe.emulator.do(lambda changes: change_subscription(changes, stripe.purchase, form))


def nothing(stripe: EmulatedStripe) -> None:
    """Stripe says again how the subscription stands."""
    subscription = stripe.books.subscriptions[stripe.purchase]
    stripe.emulator.do(lambda changes: changes.emit("customer.subscription.updated", subscription))


def begin_with_a_trial(stripe: EmulatedStripe) -> None:
    before = stripe.books.subscriptions[stripe.purchase]
    stripe.emulator.books = structs.replace(stripe.books, invoices={}, charges={})
    trial = {"trial_start": before.created, "trial_end": before.ends, "latest_invoice": None}
    stripe.emulator.do(lambda changes: changes.put(before, status=StripeStatus.TRIALING, **trial))
    nothing(stripe)


def sell_with_an_unpaid_trial(stripe: EmulatedStripe) -> None:
    """What is sold with the trial has to be paid first."""
    stripe.purchase = stripe.emulator.sell(product_id="pro_monthly", buyer="ada", account_token="ada", incomplete=True)
    before = stripe.books.subscriptions[stripe.purchase]
    trial = {"trial_start": before.created, "trial_end": before.ends}
    stripe.emulator.do(lambda changes: changes.put(before, **trial))
    nothing(stripe)


def end_without_a_reason(stripe: EmulatedStripe) -> None:
    subscription = stripe.books.subscriptions[stripe.purchase]
    stripe.emulator.do(lambda changes: stripe_due_events.end(changes, subscription, None))


def release_schedule(stripe: EmulatedStripe) -> None:
    before = stripe.books.subscriptions[stripe.purchase]
    stripe.emulator.do(lambda changes: changes.put(before, **stripe_acts._released(changes, before)))


def never_charge(stripe: EmulatedStripe) -> None:
    """Stripe does not finalize the draft when it is due."""
    invoice = [*stripe.books.invoices.values()][-1]
    stripe.emulator.do(lambda changes: changes.put(invoice, automatically_finalizes_at=None))


def buy_a_week(stripe: EmulatedStripe) -> None:
    stripe.emulator.add_product({"id": "pro_weekly", "price": 2.99, "period": "P1W"})
    stripe.purchase = stripe.emulator.sell(
        product_id="pro_weekly", buyer="ada", account_token="ada", draft_minutes=1440
    )


def charge_by_debit(stripe: EmulatedStripe) -> None:
    """The renewal's invoice is charged. The bank answers days later."""
    stripe.emulator.act(stripe.purchase, "finalize")
    intent = [*stripe.books.intents.values()][-1]
    stripe.emulator.do(lambda changes: stripe_billing._charge(changes, intent, succeeded=False))
    stripe.edit["charges"] = lambda charges: charges["data"][0].update(status="pending")
    nothing(stripe)


def debit_settles(stripe: EmulatedStripe) -> None:
    stripe.edit.clear()
    stripe.emulator.act(stripe.purchase, "pay")


def refund_the_first(stripe: EmulatedStripe) -> None:
    stripe.emulator.act(stripe.purchase, "refund", payment=next(iter(stripe.books.charges)))


def end_and_refund(stripe: EmulatedStripe) -> None:
    stripe.emulator.act(stripe.purchase, "cancel_now")
    stripe.emulator.act(stripe.purchase, "refund")


def check_out_unpaid(stripe: EmulatedStripe) -> None:
    """The payment comes by bank transfer, days later."""
    stripe.purchase = stripe.emulator.sell(product_id="coins_100", buyer="ada", account_token="ada")
    stripe.edit[f"checkout/sessions/{stripe.purchase}"] = lambda session: session.update(payment_status="unpaid")


def transfer_arrives(stripe: EmulatedStripe) -> None:
    stripe.edit.clear()
    session = stripe.books.sessions[stripe.purchase]
    stripe.emulator.do(lambda changes: changes.emit("checkout.session.async_payment_succeeded", session))


def replace_item(position: int = 0, proration: str = "create_prorations", price: str = "price_team_monthly") -> Step:
    """In one request, as some shops change a plan."""

    def it(stripe: EmulatedStripe) -> None:
        gone = stripe.books.subscriptions[stripe.purchase].items[position].id
        items = {"0": {"price": price}, "1": {"id": gone, "deleted": "true"}}
        form = {"items": items, "proration_behavior": proration}
        stripe.emulator.do(lambda changes: change_subscription(changes, stripe.purchase, form))

    return it


def remove_first(stripe: EmulatedStripe) -> None:
    item = stripe.books.subscriptions[stripe.purchase].items[0].id
    stripe.emulator.act(stripe.purchase, "remove_item", item=item)


def add(proration: str) -> Step:
    return asked({"items": {"0": {"price": "price_basic_monthly"}}, "proration_behavior": proration})


ROWS: dict[str, tuple[list[Step], list[str], bool]] = {
    # What happens; what is told of the last step; whether there is access afterwards.
    "created active": (["buy"], FIRST, True),
    "created in a checkout": ([("buy", {"checkout": True})], FIRST, True),
    "created trialing": ([TRIAL], ["TRIAL_STARTED"], True),
    "created incomplete": ([INCOMPLETE], [], False),
    "incomplete, then active": ([INCOMPLETE, "PT1H", "pay"], FIRST, True),
    "incomplete, then trialing": ([INCOMPLETE, begin_with_a_trial], ["TRIAL_STARTED"], True),
    "incomplete, then expired": ([INCOMPLETE, "P1D"], [], False),
    "incomplete with a trial": ([sell_with_an_unpaid_trial], [], False),
    "incomplete with a trial, then expired": ([sell_with_an_unpaid_trial, "P1D"], [], False),
    "paid for a cycle": (["buy", "P1M"], RENEWAL, True),
    "paid after a trial": ([TRIAL, "P7D"], ["INITIAL_PURCHASE CONVERSION", "INVOICE_ISSUANCE"], True),
    "past_due, then active": (["buy", "fail_billing", "P1M", "P2D", "recover"], ["RENEWAL"], True),
    "unpaid, then active": (["buy", UNPAID, "P1M", "P20D", "P1D", "recover"], ["RENEWAL"], True),
    "cancel_at_period_end set": (["buy", "P10D", "cancel"], ["CANCELLATION UNSUBSCRIBE"], True),
    "cancel_at_period_end set in a trial": ([TRIAL, "P1D", "cancel"], ["TRIAL_CANCELLED UNSUBSCRIBE"], True),
    "cancel_at_period_end cleared": (["buy", "P10D", "cancel", "P1D", "uncancel"], ["UNCANCELLATION"], True),
    "cancel_at in this period": (
        ["buy", "P10D", asked({"cancel_at": "1768500000"})],
        ["CANCELLATION UNSUBSCRIBE"],
        True,
    ),
    "cancel_at in a later period": (["buy", "P10D", asked({"cancel_at": "1772300000"})], [], True),
    "past_due": (["buy", "fail_billing", "P1M"], FAILED, True),
    # Nothing was ever paid, so there is no grace.
    "past_due after a trial": ([TRIAL, "fail_billing", "P7D"], [*FAILED, *UNCOLLECTED], False),
    "past_due after a trial, then active": (
        [TRIAL, "fail_billing", "P7D", "P1D", "recover"],
        ["INITIAL_PURCHASE CONVERSION"],
        True,
    ),
    "past_due, tried again": (["buy", "fail_billing", "P1M", "P3D"], [], True),
    "unpaid": (["buy", UNPAID, "P1M", "P20D"], UNCOLLECTED, False),
    "deleted, payment_failed": (["buy", "fail_billing", "P1M", "P20D"], UNCOLLECTED, False),
    "deleted, payment_failed, after unpaid": (
        ["buy", UNPAID, "P1M", "P20D", "P1D", ("cancel_now", {"reason": "payment_failed"})],
        [],
        False,
    ),
    "deleted, cancellation_requested, after unpaid": (["buy", UNPAID, "P1M", "P20D", "P1D", "cancel_now"], [], False),
    "deleted, cancellation_requested, at once": (["buy", "P10D", "cancel_now"], ENDED, False),
    "deleted, cancellation_requested, at the end": (["buy", "P10D", "cancel", "P1M"], ENDED, False),
    "deleted, payment_disputed": (
        ["buy", "P10D", ("cancel_now", {"reason": "payment_disputed"})],
        ["EXPIRATION CUSTOMER_SUPPORT"],
        False,
    ),
    "deleted, no reason": (["buy", "P10D", end_without_a_reason], ["EXPIRATION UNKNOWN"], False),
    "price changed, charged at once": (["buy", "P10D", UPGRADE], ["INVOICE_ISSUANCE", *CHANGED_TO_TEAM], True),
    "price changed, charged later": (["buy", "P10D", UPGRADE_PAID_LATER], CHANGED_TO_TEAM, True),
    "price changed, charged with the renewal": (["buy", "P10D", UPGRADE_PAID_LATER, "P1M"], RENEWAL, True),
    "price changed and changed back, charged later": (
        ["buy", "P10D", UPGRADE_PAID_LATER, "P1D", BACK_PAID_LATER],
        [f"PRODUCT_CHANGE {TEAM}>{PRO}"],
        True,
    ),
    "price changed and changed back, charged with the renewal": (
        ["buy", "P10D", UPGRADE_PAID_LATER, "P1D", BACK_PAID_LATER, "P1M"],
        RENEWAL,
        True,
    ),
    "price changed and charged at once, changed back and charged later": (
        [BASIC_BOUGHT, "P10D", ("change", {"product_id": "pro_monthly"}), "P1D", BASIC_PAID_LATER, "P1M"],
        RENEWAL,
        True,
    ),
    "price changed, charged later, and the renewal fails": (
        ["buy", "P10D", UPGRADE_PAID_LATER, "fail_billing", "P1M"],
        FAILED,
        True,
    ),
    "price changed in a trial": ([TRIAL, "P1D", UPGRADE_PAID_LATER], CHANGED_TO_TEAM, True),
    "change scheduled": (["buy", "P10D", SCHEDULE], [f"PRODUCT_CHANGE {PRO}>{BASIC}"], True),
    "scheduled change called off": (
        ["buy", "P10D", SCHEDULE, "P1D", release_schedule],
        [f"PRODUCT_CHANGE {BASIC}>{PRO}"],
        True,
    ),
    "pause_collection set": (["buy", "P10D", "pause"], ["SUBSCRIPTION_PAUSED"], True),
    "pause_collection set until a day": (["buy", "P10D", ("pause", {"for": "P30D"})], ["SUBSCRIPTION_PAUSED"], True),
    "pause_collection cleared": (["buy", "P10D", "pause", "P1D", "resume"], ["UNCANCELLATION"], True),
    "paused beyond the end": (
        ["buy", "P10D", ("pause", {"behavior": "keep_as_draft"}), "P1M"],
        ["EXPIRATION SUBSCRIPTION_PAUSED"],
        False,
    ),
    "paused beyond the end, and the invoice voided": (
        ["buy", "P10D", "pause", "P1M"],
        ["EXPIRATION SUBSCRIPTION_PAUSED", "INVOICE_ISSUANCE"],
        False,
    ),
    "trial ended without a card": (
        [("buy", {"trial": True, "no_card": "pause"}), "P7D"],
        ["EXPIRATION SUBSCRIPTION_PAUSED", "SUBSCRIPTION_PAUSED"],
        False,
    ),
    "trial_end moved later": ([TRIAL, "P1D", "extend_trial"], ["SUBSCRIPTION_EXTENDED"], True),
    "trial_end given to who has paid": (["buy", "P10D", "extend_trial"], ["SUBSCRIPTION_EXTENDED"], True),
    "trial_end given while the money was back": (
        ["buy", "P10D", "refund", "P1D", "extend_trial", "P1D", "fail_refund", "P1D", "refund", "P1D", nothing],
        [],
        True,
    ),
    "invoice finalized": ([DRAFT, "P1M", "finalize"], ["INVOICE_ISSUANCE"], True),
    "a period begins with a draft": ([DRAFT, "P1M"], [], True),
    "a draft that nobody charges": ([DRAFT, "P1M", never_charge, "P3D", nothing], ["EXPIRATION UNKNOWN"], False),
    "a debit that settles": ([DRAFT, "P1M", charge_by_debit, "P13D", nothing], [], True),
    "a debit that has settled": ([DRAFT, "P1M", charge_by_debit, "P13D", debit_settles], ["RENEWAL"], True),
    "a debit that settles, and cancelled": (
        [DRAFT, "P1M", charge_by_debit, "P10D", "cancel"],
        ["CANCELLATION UNSUBSCRIBE"],
        True,
    ),
    # The next period has begun.
    "a debit that settles, of a week": ([buy_a_week, "P7D", charge_by_debit, "P7D", nothing], [], True),
    # Nothing was ever paid.
    "a debit that settles, after a trial": (
        [("buy", {"trial": True, "draft_minutes": 60}), "P7D", charge_by_debit, "P2D", nothing],
        ["EXPIRATION UNKNOWN"],
        False,
    ),
    "an invoice is sent": ([("buy", {"send_invoice": True}), "pay", "P1M", "P9D", nothing], [], True),
    "checkout of a payment": ([COINS], ["NON_RENEWING_PURCHASE"], True),
    "checkout that is paid later": ([check_out_unpaid, "P1D", transfer_arrives], ["NON_RENEWING_PURCHASE"], True),
    "checkout not paid": ([check_out_unpaid], [], False),
    "charge.refunded": (["buy", "P10D", "refund"], ["REFUND"], False),
    "charge.refunded, in part": (["buy", "P10D", ("refund", {"amount": 1.0})], [], True),
    "charge.refunded, of a purchase": ([COINS, "P10D", "refund"], ["REFUND"], False),
    "charge.refunded, of an earlier invoice": (["buy", "P1M", "P1D", refund_the_first], [], True),
    "refund.failed": (["buy", "P10D", "refund", "P1D", "fail_refund"], ["REFUND_REVERSED"], True),
    "refund.failed, of a purchase": ([COINS, "P10D", "refund", "P1D", "fail_refund"], ["REFUND_REVERSED"], True),
    "refunded and deleted at once": (["buy", "P10D", end_and_refund], ["REFUND"], False),
    "price changed, charged later, then refunded": (
        ["buy", "P10D", UPGRADE_PAID_LATER, "P1D", "refund"],
        ["REFUND"],
        False,
    ),
    "refunded, then price changed, charged later": (
        ["buy", "P10D", "refund", "P1D", UPGRADE_PAID_LATER],
        CHANGED_TO_TEAM,
        False,
    ),
    "price changed, charged later, refunded, and the refund fails": (
        ["buy", "P10D", UPGRADE_PAID_LATER, "P1D", "refund", "P1D", "fail_refund"],
        ["REFUND_REVERSED"],
        True,
    ),
    "refunded, price changed, charged later, and the refund fails": (
        ["buy", "P10D", "refund", "P1D", UPGRADE_PAID_LATER, "P1D", "fail_refund"],
        ["REFUND_REVERSED"],
        True,
    ),
    "price changed, charged later, then disputed": (
        ["buy", "P10D", UPGRADE_PAID_LATER, "P1D", "dispute"],
        ["REFUND"],
        False,
    ),
    "dispute.funds_withdrawn": (["buy", "P10D", "dispute"], ["REFUND"], False),
    "dispute.funds_reinstated": (["buy", "P10D", "dispute", "P1D", "win_dispute"], ["REFUND_REVERSED"], True),
    "bought with an add-on": ([BOTH], [*FIRST, "INITIAL_PURCHASE"], True),
    "an add-on removed, credited later": ([BOTH, "P10D", REMOVE_PAID_LATER], REMOVED, True),
    "the first item removed, credited at once": ([BOTH, "P10D", remove_first], REMOVED, True),
    "an add-on removed, and the rest renewed": ([BOTH, "P10D", REMOVE_PAID_LATER, "P1M"], RENEWAL, True),
    "an add-on removed while its renewal is not paid": (
        [BOTH, "fail_billing", "P1M", "P1D", REMOVE_PAID_LATER],
        REMOVED,
        True,
    ),
    "an add-on removed and added again, charged at once": (
        [BOTH, "P10D", "remove_item", "P1D", add("always_invoice")],
        FIRST,
        True,
    ),
    "an add-on removed, added again and renewed": (
        [BOTH, "P10D", REMOVE_PAID_LATER, "P1D", add("create_prorations"), "P1M"],
        ["INITIAL_PURCHASE", *RENEWAL],
        True,
    ),
    "an item replaced by another, charged later": (["buy", "P10D", replace_item()], CHANGED_TO_TEAM, True),
    "one of two items replaced by another": (
        [BOTH, "P10D", replace_item(proration="always_invoice")],
        ["INVOICE_ISSUANCE", *CHANGED_TO_TEAM],
        True,
    ),
    "an event about nothing": (["buy", lambda stripe: stripe.emulator.send_test()], [], True),
}
# Stripe does not date a change that costs nothing: the event that is heard first does.
UNDATED = {"price changed in a trial"}


async def hear(life: Life, incoming: Incoming) -> list[str]:
    """From the signed body to what is told."""
    filed = await life.adapter.verify(life.app, incoming)
    return await life.take(await life.adapter.read(life.app, filed.payload))


async def hear_all(life: Life, stripe: EmulatedStripe, *steps: Step) -> list[str]:
    """What is told of the last step."""
    heard: list[str] = []
    for step in steps:
        notifications = await stripe.do(step)
        heard = [told for sent in notifications for told in await hear(life, stripe.incoming(sent))]
    return heard


@pytest.mark.parametrize(("steps", "told", "access"), ROWS.values(), ids=ROWS)
async def test_a_row_of_the_table(
    life: Life, stripe: EmulatedStripe, steps: list[Step], told: list[str], access: bool
) -> None:
    heard: list[str] = []
    for step in steps:
        heard = []
        for notification in await stripe.do(step):
            heard += await hear(life, stripe.incoming(notification))
            known = life.customer
            assert await hear(life, stripe.incoming(notification)) == [], "the same again tells nothing"
            assert life.customer == known, "and changes nothing"
    assert sorted(heard) == sorted(told)
    assert life.has_access() is access
    assert await life.read_again(stripe.purchase) == [], "nor does the safety net"


@pytest.mark.parametrize("row", [row for row in ROWS if row not in UNDATED])
async def test_events_that_come_late_and_in_any_order_lead_to_the_same_state(
    adapter: StripeAdapter, stripe: EmulatedStripe, app: ConnectedApp, row: str
) -> None:
    """All of it has happened before the first is heard: every order ends as Stripe has it, with the same money."""
    notifications = [notification for step in ROWS[row][0] for notification in await stripe.do(step)]
    ends = []
    # The three neighbours that came last.
    for order in permutations(notifications[-3:]):
        life = Life(adapter, app, lambda: stripe.now)
        for notification in order:
            await hear(life, stripe.incoming(notification))
        standing = [
            (known.id, known.periods, undated(known.status), known.expired) for known in life.customer.subscriptions
        ]
        told = sorted((event.type, event.transaction_id, event.at) for event in life.told.values())
        ends.append((standing, life.customer.purchases, told))
    assert all(end == ends[0] for end in ends)


async def test_a_change_that_nothing_dates_ends_with_the_money_that_paid_for_its_time(
    life: Life, stripe: EmulatedStripe
) -> None:
    """In later free time. No row of the table: the change is dated by the event that is heard first."""
    await hear_all(life, stripe, "buy", "P10D", "extend_trial", "P1D")
    assert await hear_all(life, stripe, UPGRADE) == CHANGED_TO_TEAM
    assert await hear_all(life, stripe, "P1D", "refund") == ["REFUND"]
    assert await hear_all(life, stripe, "P1D", nothing) == []
    assert not life.has_access()
    assert await hear_all(life, stripe, "P1D", "fail_refund") == ["REFUND_REVERSED"]
    assert life.has_access()


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("proration", ["create_prorations", "always_invoice", "none"])
async def test_an_item_that_is_removed_ends_there_and_its_credit_lowers_what_the_rest_costs(
    life: Life, stripe: EmulatedStripe, position: int, proration: str
) -> None:
    await hear_all(life, stripe, BOTH, "P10D")
    removed_at = stripe.now // 1000 * 1000
    item = stripe.books.subscriptions[stripe.purchase].items[position].id
    await hear_all(life, stripe, ("remove_item", {"item": item, "proration": proration}), "P1D", nothing, "P1M")
    gone, kept = (PRO, BASIC) if position == 0 else (BASIC, PRO)
    paid_until = stripe.emulator.known(stripe.purchase).ends_at
    ends = {
        known.current.product_id: (known.access_ends_at, known.status.ended) for known in life.customer.subscriptions
    }
    assert ends == {gone: (removed_at, Reason.UNSUBSCRIBE), kept: (paid_until, None)}
    money = sum(period.price.micros for known in life.customer.subscriptions for period in known.periods)
    assert money == sum(charge.amount for charge in stripe.books.charges.values()) * 10_000
    told = [event.type for event in life.told.values()]
    issued = sum(invoice.total > 0 for invoice in stripe.books.invoices.values())
    assert (told.count(EventType.INVOICE_ISSUANCE), told.count(EventType.EXPIRATION)) == (issued, 1)


@pytest.mark.parametrize("proration", ["create_prorations", "none"])
async def test_an_item_that_replaces_another_in_one_request_is_the_same_subscription(
    life: Life, stripe: EmulatedStripe, proration: str
) -> None:
    again = replace_item(0, proration, "price_basic_monthly")
    await hear_all(life, stripe, "buy", "P10D", replace_item(0, proration), "P1M", "P1D", again)
    assert [period.product_id for period in life.subscription.periods] == [PRO, TEAM, TEAM, BASIC]
    assert life.subscription.status.ended is None


def undated(status: Status) -> Status:
    """Without the moment of the reading, of which several may fall into one millisecond."""
    return structs.replace(status, as_of=Moment(0))
