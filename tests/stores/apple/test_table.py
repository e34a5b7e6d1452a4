"""Apple's table: what happens in the App Store, and what Latchkey tells of its notifications; also heard twice and in
any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, takewhile
from typing import Any

import pytest

from latchkey.domain.events.customer_event import Event
from latchkey.domain.instants import DAY
from latchkey.emulators.apple.apple_keys import AppleChain
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.apple.adapter import AppleAdapter
from tests.stores.apple.app_store import APP_APPLE_ID, BUNDLE_ID, START
from tests.stores.apple.emulated_app_store import (
    AppStore,
    Step,
    altered,
    decoded,
    says,
    sends,
    unheard,
    without_renewal,
)
from tests.stores.apple.story import Story


@dataclass(frozen=True)
class Row:
    # Begins with the type and the subtype of what the App Store sends last.
    name: str
    steps: Sequence[Step]
    # Types of the events of the last step, with what matters of each. Moments are days from the start.
    events: Sequence[tuple[str, dict[str, Any]]]
    # What happens next.
    after: Sequence[Step] = ()


TRIAL: Step = ("buy", {"trial": True})
COINS: Step = ("buy", {"product_id": "coins"})
FAMILY: dict[str, Any] = {"family": True}
CODE: dict[str, Any] = {
    "offer": {"kind": "code", "discount": "pay_up_front", "price": 0.99, "duration": "P30D", "id": "SPRING"}
}
FREE_CODE: dict[str, Any] = {"offer": {"kind": "code", "discount": "free", "duration": "P30D"}}
GRACE: Step = ("fail_billing", {"grace_days": 16})
YEARLY, BASIC, MONTHLY = ({"product_id": product} for product in ("yearly", "basic", "monthly"))
TO_YEARLY = ("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "yearly", "at": 10})
TO_BASIC = ("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "basic", "at": 10})
UNPAID = ("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": 30})
BUY_AGAIN: Sequence[Step] = ("P5D", "buy")
RENEW: Sequence[Step] = ("P30D",)


def silent(name: str, step: Step) -> Row:
    return Row(name, ["buy", "P12D", step], [], ["P18D"])


ROWS = [
    Row(
        "SUBSCRIBED INITIAL_BUY",
        ["buy"],
        [("INITIAL_PURCHASE", {"is_trial_conversion": False, "price.micros": 4_990_000})],
        ["P5D", "cancel"],
    ),
    Row(
        "SUBSCRIBED INITIAL_BUY with a trial",
        [TRIAL],
        [("TRIAL_STARTED", {"period_type": "trial", "price.micros": 0})],
        ["P7D"],
    ),
    Row(
        "SUBSCRIBED RESUBSCRIBE",
        ["buy", "P10D", "cancel", "P40D", "buy"],
        [("INITIAL_PURCHASE", {"transaction_id": "2", "is_trial_conversion": False})],
        RENEW,
    ),
    Row(
        "SUBSCRIBED RESUBSCRIBE to another product after a refund",
        ["buy", "P12D", "refund", "P2D", ("buy", YEARLY)],
        [("INITIAL_PURCHASE", {"transaction_id": "2", "product_id": "yearly"})],
        ["P1D", "cancel"],
    ),
    Row("DID_RENEW", ["buy", "P30D"], [("RENEWAL", {"renewal_number": 1})], RENEW),
    Row("DID_RENEW BILLING_RECOVERY", ["buy", GRACE, "P30D", "P5D", "recover"], [("RENEWAL", {})], ["P5D", "cancel"]),
    Row("DID_RENEW BILLING_RECOVERY, retried", ["buy", "fail_billing", "P30D", "P20D", "recover"], [("RENEWAL", {})]),
    Row("DID_RENEW, the card replaced in time", ["buy", "fail_billing", "recover", "P30D"], [("RENEWAL", {})]),
    Row("DID_RENEW after a trial", [TRIAL, "P7D"], [("INITIAL_PURCHASE", {"is_trial_conversion": True})], RENEW),
    Row(
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED",
        ["buy", "P10D", "cancel"],
        [("CANCELLATION", {"cancellation_reason": "UNSUBSCRIBE"})],
        ["P1D", "uncancel"],
    ),
    Row(
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED in a trial",
        [TRIAL, "P2D", "cancel"],
        [("TRIAL_CANCELLED", {})],
        ["P5D"],
    ),
    Row(
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_ENABLED",
        ["buy", "P10D", "cancel", "P2D", "uncancel"],
        [("UNCANCELLATION", {})],
        ["P18D"],
    ),
    Row("DID_CHANGE_RENEWAL_PREF UPGRADE", ["buy", "P10D", ("change", YEARLY)], [TO_YEARLY], ["P365D"]),
    Row(
        "DID_CHANGE_RENEWAL_PREF DOWNGRADE, to another length of the same level",
        ["buy", "P10D", ("change", {"product_id": "quarterly"})],
        [("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "quarterly"})],
    ),
    Row("DID_CHANGE_RENEWAL_PREF DOWNGRADE", ["buy", "P10D", ("change", BASIC)], [TO_BASIC], ["P20D"]),
    Row(
        "DID_CHANGE_RENEWAL_PREF, back",
        ["buy", "P10D", ("change", BASIC), "P1D", ("change", MONTHLY)],
        [("PRODUCT_CHANGE", {"product_id": "basic", "new_product_id": "monthly"})],
        ["P19D"],
    ),
    silent("DID_CHANGE_RENEWAL_PREF, nothing pending", says("DID_CHANGE_RENEWAL_PREF")),
    Row("OFFER_REDEEMED", ["buy", "P9D", ("redeem", CODE)], [], ["P21D"]),
    Row(
        "OFFER_REDEEMED INITIAL_BUY",
        [("buy", CODE)],
        [("INITIAL_PURCHASE", {"period_type": "intro", "price.micros": 990_000, "offer_code": "SPRING"})],
        RENEW,
    ),
    Row("OFFER_REDEEMED INITIAL_BUY with a trial", [("buy", FREE_CODE)], [("TRIAL_STARTED", {})], RENEW),
    Row(
        "OFFER_REDEEMED RESUBSCRIBE",
        ["buy", "P10D", "cancel", "P40D", ("buy", CODE)],
        [("RENEWAL", {"transaction_id": "2"})],
        RENEW,
    ),
    Row("OFFER_REDEEMED UPGRADE", ["buy", "P10D", ("change", YEARLY | CODE)], [TO_YEARLY], RENEW),
    Row("OFFER_REDEEMED DOWNGRADE", ["buy", "P10D", ("change", BASIC | CODE)], [TO_BASIC], ["P20D"]),
    Row(
        "DID_FAIL_TO_RENEW GRACE_PERIOD",
        ["buy", GRACE, "P30D"],
        [("BILLING_ISSUE", {"grace_period_expires_at": 46})],
        ["P10D", "recover"],
    ),
    Row(
        "DID_FAIL_TO_RENEW",
        ["buy", "fail_billing", "P30D"],
        [("BILLING_ISSUE", {"grace_period_expires_at": None}), UNPAID],
        ["P10D", "recover"],
    ),
    *(
        Row(
            f"GRACE_PERIOD_EXPIRED {name}",
            ["buy", GRACE, "P30D", step],
            [("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": 46})],
            ["P4D", "recover"],
        )
        # Apple documents the date of the grace period only for the time in which it runs.
        for name, step in (
            ("without the date", "P16D"),
            ("with the date", altered("P16D", gracePeriodExpiresDate=START + 46 * DAY + 1)),
        )
    ),
    Row("EXPIRED BILLING_RETRY after a grace period", ["buy", GRACE, "P30D", "P16D", "P44D"], [], BUY_AGAIN),
    Row(
        "EXPIRED VOLUNTARY, cancelled in the grace period",
        ["buy", GRACE, "P30D", "P10D", "cancel", "P6D"],
        [("EXPIRATION", {"expiration_reason": "UNSUBSCRIBE", "at": 46})],
    ),
    *(
        Row(
            f"EXPIRED {name}",
            ["buy", "P10D", step, "P20D"],
            [("EXPIRATION", {"expiration_reason": reason, "at": 30})],
            BUY_AGAIN,
        )
        for name, step, reason in (
            ("VOLUNTARY", "cancel", "UNSUBSCRIBE"),
            ("PRICE_INCREASE", ("expire", {"reason": "price_increase"}), "PRICE_INCREASE"),
            ("PRODUCT_NOT_FOR_SALE", ("expire", {"reason": "not_for_sale"}), "UNKNOWN"),
        )
    ),
    Row(
        "EXPIRED BILLING_RETRY without a word before",
        ["buy", "fail_billing", unheard("P30D"), "P60D"],
        [("BILLING_ISSUE", {}), UNPAID],
        BUY_AGAIN,
    ),
    Row("EXPIRED BILLING_RETRY, already expired", ["buy", "fail_billing", "P30D", "P60D"], [], BUY_AGAIN),
    Row(
        "EXPIRED BILLING_RETRY, cancelled while a payment was missing",
        ["buy", "fail_billing", "P30D", "P10D", "cancel"],
        [("CANCELLATION", {})],
        BUY_AGAIN,
    ),
    Row(
        "REFUND",
        ["buy", "P12D", "refund"],
        [("REFUND", {"transaction_id": "1", "at": 12})],
        ["P2D", "reverse_refund"],
    ),
    Row(
        "REFUND, and Apple turns renewal off with it",
        ["buy", "P12D", without_renewal("refund")],
        [("REFUND", {"at": 12})],
        ["P2D", "reverse_refund"],
    ),
    Row(
        "REFUND of a purchase that nobody told of, and renewal is off",
        [unheard("buy"), "P12D", without_renewal("refund")],
        [("INITIAL_PURCHASE", {}), ("REFUND", {})],
    ),
    Row("REFUND within the grace period", ["buy", GRACE, "P30D", "P10D", "refund"], [("REFUND", {"at": 40})]),
    Row(
        "REFUND_REVERSED, and renewal stays off",
        ["buy", "P12D", without_renewal("refund"), "P2D", without_renewal("reverse_refund")],
        [("REFUND_REVERSED", {}), ("CANCELLATION", {})],
    ),
    Row(
        "REFUND_REVERSED of a cancelled subscription",
        ["buy", "P10D", "cancel", "P2D", "refund", "P2D", "reverse_refund"],
        [("REFUND_REVERSED", {})],
    ),
    Row("REFUND of a cancelled subscription", ["buy", "P10D", "cancel", "P2D", "refund"], [("REFUND", {})]),
    Row("REFUND of an older period", ["buy", "P30D", "P10D", ("refund", {"transaction": "1"})], [], ["P20D"]),
    Row(
        "REFUND of an older period while a payment is missing",
        ["buy", "P30D", "fail_billing", "P30D", "P2D", ("refund", {"transaction": "1"})],
        [],
    ),
    Row(
        "REFUND_REVERSED",
        ["buy", "P12D", "refund", "P2D", "reverse_refund"],
        [("REFUND_REVERSED", {})],
        ["P16D"],
    ),
    Row(
        "REFUND_REVERSED too late",
        ["buy", "P12D", "refund", "P40D", "reverse_refund"],
        [("EXPIRATION", {}), ("REFUND_REVERSED", {})],
    ),
    Row(
        "REVOKE",
        [("buy", FAMILY), "P12D", "end_family_sharing"],
        [("EXPIRATION", {"expiration_reason": "UNKNOWN", "at": 12, "is_family_share": True})],
    ),
    Row(
        "REVOKE, and Apple turns renewal off with it",
        [("buy", FAMILY), "P12D", without_renewal("end_family_sharing")],
        [("EXPIRATION", {"expiration_reason": "UNKNOWN", "at": 12})],
    ),
    *(
        Row(f"REVOKE {name}", [("buy", FAMILY), failed, "P30D", "P10D", "end_family_sharing"], [("EXPIRATION", ended)])
        for name, failed, ended in (
            ("within the grace period", GRACE, {"expiration_reason": "UNKNOWN", "at": 40}),
            # The end of access is not moved. Its event keeps its id, so nobody gets it twice.
            ("after the grace period", ("fail_billing", {"grace_days": 6}), {"at": 36}),
            ("while a payment is missing", "fail_billing", {"at": 30}),
        )
    ),
    Row(
        "RENEWAL_EXTENDED",
        ["buy", "P12D", ("extend", {"days": 15})],
        [("SUBSCRIPTION_EXTENDED", {"expiration_at": 45})],
        ["P33D"],
    ),
    Row(
        "ONE_TIME_CHARGE",
        [COINS],
        [("NON_RENEWING_PURCHASE", {"transaction_id": "1", "product_id": "coins", "price.micros": 4_990_000})],
        ["P2D", "refund"],
    ),
    Row("REFUND of a one-time purchase", [COINS, "P2D", "refund"], [("REFUND", {})], ["P2D", "reverse_refund"]),
    Row(
        "REFUND_REVERSED of a one-time purchase",
        [COINS, "P2D", "refund", "P2D", "reverse_refund"],
        [("REFUND_REVERSED", {})],
    ),
    Row(
        "REVOKE of a one-time purchase",
        [("buy", {"product_id": "lifetime", **FAMILY}), "P2D", "end_family_sharing"],
        [("EXPIRATION", {"at": 2})],
    ),
    silent("PRICE_INCREASE PENDING", "price_increase"),
    silent("PRICE_INCREASE ACCEPTED", ("price_increase", {"agreed": True})),
    silent("REFUND_DECLINED", "decline_refund"),
    silent("CONSUMPTION_REQUEST", "request_consumption"),
    silent("METADATA_UPDATE", says("METADATA_UPDATE")),
    silent("MIGRATION", says("MIGRATION")),
    silent("PRICE_CHANGE", says("PRICE_CHANGE")),
    silent("SOMETHING_NEW AND_UNHEARD_OF", says("SOMETHING_NEW", "AND_UNHEARD_OF")),
    Row("TEST", [says("TEST")], []),
    Row(
        "RENEWAL_EXTENSION SUMMARY",
        [
            sends(
                "RENEWAL_EXTENSION",
                "SUMMARY",
                summary={"environment": "Production", "appAppleId": APP_APPLE_ID, "bundleId": BUNDLE_ID},
            )
        ],
        [],
    ),
    Row(
        "EXTERNAL_PURCHASE_TOKEN UNREPORTED",
        [
            sends(
                "EXTERNAL_PURCHASE_TOKEN",
                "UNREPORTED",
                externalPurchaseToken={
                    "externalPurchaseId": "b2158121-7af9-49d4-9561-1f588205523e",
                    "tokenCreationDate": START,
                    "appAppleId": APP_APPLE_ID,
                    "bundleId": BUNDLE_ID,
                },
            )
        ],
        [],
    ),
]
MOMENTS = {"at", "expiration_at", "grace_period_expires_at"}


@pytest.fixture
def story(adapter: AppleAdapter, app: ConnectedApp) -> Story:
    return Story(adapter, app)


@pytest.fixture
def store(chain: AppleChain) -> AppStore:
    return AppStore(chain)


def found(event: Event, name: str) -> object:
    value: Any = event
    for part in name.split("."):
        value = getattr(value, part)
    return round((value - START) / DAY, 3) if name in MOMENTS and value is not None else value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_notification_becomes_its_events(story: Story, store: AppStore, row: Row) -> None:
    happened: list[Event] = []
    sent: dict[str, Any] = {}
    for step in row.steps:
        happened = []
        for signed in await store.do(step):
            sent = decoded(signed)
            happened += await story.hears(signed)
            known = story.customer
            assert await story.hears(signed) == [], "the same again tells nothing"
            assert story.customer == known, "and changes nothing"
    named = " ".join(takewhile(lambda word: word.strip(",").isupper(), row.name.split())).strip(",")
    assert " ".join([sent["notificationType"], *([sent["subtype"]] if "subtype" in sent else [])]) == named
    assert [event.type for event in happened] == [type for type, _ in row.events]
    for event, (_, wanted) in zip(happened, row.events, strict=True):
        assert {name: found(event, name) for name in wanted} == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_neighbours_in_any_order_lead_to_the_same_state(story: Story, store: AppStore, row: Row) -> None:
    heard = [signed for step in row.steps for signed in await store.do(step)]
    later = [signed for step in row.after for signed in await store.do(step)]
    earlier, neighbours = heard[:-2], [*heard[-2:], *later[:1]]
    states = []
    for order in permutations(neighbours):
        other = Story(story.adapter, story.app)
        for signed in (*earlier, *order):
            await other.hears(signed)
        other.waits_until(2_000)
        states.append(other.state())
    assert all(state == states[0] for state in states)


async def test_a_payment_recovered_within_the_grace_period_leaves_no_gap(story: Story, store: AppStore) -> None:
    steps: Sequence[Step] = ("buy", GRACE, "P30D", "P5D", "recover")
    for signed in [signed for step in steps for signed in await store.do(step)]:
        await story.hears(signed)
    first, second = story.customer.subscriptions[0].periods
    assert second.starts_at == first.ends_at < second.purchased_at
