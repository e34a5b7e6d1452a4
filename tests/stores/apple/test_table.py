"""Every row of the table of notifications, from the signed payload to the events; duplicated and in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import pytest

from latchkey.domain.customers.customer import Customer, let_time_pass, newcomer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.events.diff import diff
from latchkey.domain.events.event import Event
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.settling import settle, settle_purchase
from latchkey.domain.purchases.subscription import Moment, Subscription
from latchkey.emulators.apple.certificates import Chain
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.apple.adapter import AppleAdapter
from tests.stores.apple.app_store import START, incoming, notification, one_time, renewal, transaction

Told = Callable[[Chain], dict[str, Any]]


@dataclass
class Story:
    """A customer as Apple's notifications make it."""

    adapter: AppleAdapter
    app: ConnectedApp
    chain: Chain
    customer: Customer = field(default_factory=lambda: newcomer("proj_1", "ann", START))

    async def hears(self, told: Told, on: float | None = None) -> list[Event]:
        """Takes in what Apple sends, `on` a day or as soon as it was signed, and returns what happened."""
        payload = told(self.chain)
        kept = await self.adapter.verify(self.app, incoming(self.chain.sign(payload)))
        reading = await self.adapter.read(self.app, kept.payload)
        now = kept.occurred_at if on is None else day(on)
        before = self.customer
        for seen in reading.seen:
            snapshot: Subscription | Purchase
            if isinstance(seen.snapshot, Subscription):
                known = self.customer.subscription("app_store", seen.snapshot.id)
                snapshot = settle(known, seen.snapshot, now, unordered=seen.unordered)
            else:
                snapshot = settle_purchase(self.customer.purchase("app_store", seen.snapshot.id), seen.snapshot)
            self.customer = take_in(self.customer, snapshot, now)
        self.customer = let_time_pass(self.customer, now)
        return list(diff(before, self.customer))

    async def waits_until(self, on: float) -> list[Event]:
        before, self.customer = self.customer, let_time_pass(self.customer, day(on))
        return list(diff(before, self.customer))

    def state(self) -> tuple[object, ...]:
        """How things stand, without the moments at which each was told."""
        quiet = Moment(0)
        return (
            *(
                replace(
                    one,
                    status=replace(one.status, as_of=quiet, renewal_off_at=None),
                    periods=tuple(
                        replace(p, as_of=quiet, money_back=()) if p.refunded_at is None else replace(p, as_of=quiet)
                        for p in one.periods
                    ),
                )
                for one in self.customer.subscriptions
            ),
            *(replace(one, told_at=None) for one in self.customer.purchases),
        )


def day(number: float) -> Ms:
    return START + round(number * DAY)


@pytest.fixture
def story(adapter: AppleAdapter, app: ConnectedApp, chain: Chain) -> Story:
    return Story(adapter, app, chain)


def tells(
    kind: str,
    subtype: str | None = None,
    *,
    about: dict[str, Any] | None = None,
    renews: dict[str, Any] | None = None,
    status: int | None = 1,
    **more: Any,
) -> Told:
    # The same notification each time: a duplicate has the same id.
    made: dict[int, dict[str, Any]] = {}

    def told(chain: Chain) -> dict[str, Any]:
        if id(chain) not in made:
            made[id(chain)] = notification(
                chain, kind, subtype, about=about, renews=renews, status=status if renews else None, **more
            )
        return made[id(chain)]

    return told


TRIAL = {"offerType": 1, "offerDiscountType": "FREE_TRIAL", "price": 0}
YEARLY = {"productId": "yearly", "price": 49990}
CODE = {"offerType": 3, "offerDiscountType": "PAY_UP_FRONT", "offerIdentifier": "spring", "price": 990}


def bought(**more: Any) -> Told:
    return tells("SUBSCRIBED", "INITIAL_BUY", about=transaction(**more), renews=renewal())


def renewed(id: str = "2", *, on: float = 30, days: float = 30, subtype: str | None = None, **more: Any) -> Told:
    about = transaction(id, day=on, days=days, transactionReason="RENEWAL", **more)
    renews = renewal(told_on=on, productId=about["productId"], autoRenewProductId=about["productId"])
    return tells("DID_RENEW", subtype, about=about, renews=renews)


def status_changed(on: float, auto_renew: int, **more: Any) -> Told:
    subtype = "AUTO_RENEW_ENABLED" if auto_renew else "AUTO_RENEW_DISABLED"
    about = transaction(told_on=on, **more)
    return tells("DID_CHANGE_RENEWAL_STATUS", subtype, about=about, renews=renewal(told_on=on, autoRenewStatus=auto_renew))


def failed(on: float = 30, *, grace_days: float | None = None) -> Told:
    retry = {"isInBillingRetryPeriod": True, "expirationIntent": 2}
    if grace_days is not None:
        retry["gracePeriodExpiresDate"] = day(30 + grace_days)
    return tells(
        "DID_FAIL_TO_RENEW",
        "GRACE_PERIOD" if grace_days is not None else None,
        about=transaction(told_on=on),
        renews=renewal(told_on=on, **retry),
        status=4 if grace_days is not None else 3,
    )


def expired(on: float, subtype: str, intent: int, auto_renew: int = 0, **more: Any) -> Told:
    renews = renewal(told_on=on, autoRenewStatus=auto_renew, expirationIntent=intent)
    return tells("EXPIRED", subtype, about=transaction(told_on=on, **more), renews=renews, status=2)


def refunded(on: float, kind: str = "REFUND", status: int = 5, auto_renew: int = 1, **more: Any) -> Told:
    about = transaction(told_on=on, **({"revocationDate": day(on), "revocationReason": 1} if kind == "REFUND" else {}), **more)
    return tells(kind, about=about, renews=renewal(told_on=on, autoRenewStatus=auto_renew), status=status)


@dataclass(frozen=True)
class Row:
    name: str
    told: Told
    # Types of the events, with what matters of each.
    events: Sequence[tuple[str, dict[str, Any]]]
    before: Sequence[Told] = ()
    # What Apple says next.
    after: Told | None = None
    # When the notification arrives, if not as soon as it was signed.
    on: float | None = None


def upgraded(kind: str, **more: Any) -> Told:
    about = transaction("2", day=10, days=365, **YEARLY, **more)
    return tells(kind, "UPGRADE", about=about, renews=renewal(told_on=10, productId="yearly", autoRenewProductId="yearly"))


def downgraded(kind: str, subtype: str | None = "DOWNGRADE", *, on: float = 10, to: str = "basic") -> Told:
    return tells(kind, subtype, about=transaction(told_on=on), renews=renewal(told_on=on, autoRenewProductId=to))


def silent(kind: str, subtype: str | None = None, **more: Any) -> Row:
    told = tells(kind, subtype, about=transaction(told_on=12), renews=renewal(told_on=12), **more)
    return Row(f"{kind} {subtype or ''}", told, [], before=[bought()], after=renewed())


FAMILY = {"inAppOwnershipType": "FAMILY_SHARED", "appAccountToken": None}
coins = one_time(day=3)

ROWS = [
    Row(
        "SUBSCRIBED INITIAL_BUY",
        bought(),
        [("INITIAL_PURCHASE", {"is_trial_conversion": False, "price.micros": 4_990_000})],
        after=status_changed(5, 0),
    ),
    Row(
        "SUBSCRIBED INITIAL_BUY with a trial",
        bought(days=7, **TRIAL),
        [("TRIAL_STARTED", {"period_type": "trial", "price.micros": 0})],
        after=renewed(on=7),
    ),
    Row(
        "SUBSCRIBED RESUBSCRIBE",
        tells(
            "SUBSCRIBED", "RESUBSCRIBE", about=transaction("2", day=50), renews=renewal(told_on=50)
        ),
        [("INITIAL_PURCHASE", {"transaction_id": "2", "is_trial_conversion": False})],
        before=[bought(), status_changed(10, 0), expired(30.1, "VOLUNTARY", 1)],
        after=renewed("3", on=80),
    ),
    Row("DID_RENEW", renewed(), [("RENEWAL", {"renewal_number": 1})], before=[bought()], after=renewed("3", on=60)),
    Row(
        "DID_RENEW BILLING_RECOVERY",
        renewed(on=35, subtype="BILLING_RECOVERY"),
        [("RENEWAL", {})],
        before=[bought(), failed(grace_days=16)],
        after=status_changed(40, 1, id="2", day=35),
    ),
    Row(
        "DID_RENEW after a trial",
        renewed(on=7),
        [("INITIAL_PURCHASE", {"is_trial_conversion": True})],
        before=[bought(days=7, **TRIAL)],
        after=renewed("3", on=37),
    ),
    Row(
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED",
        status_changed(10, 0),
        [("CANCELLATION", {"cancellation_reason": "UNSUBSCRIBE"})],
        before=[bought()],
        after=status_changed(11, 1),
    ),
    Row(
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED in a trial",
        status_changed(2, 0, days=7, **TRIAL),
        [("TRIAL_CANCELLED", {})],
        before=[bought(days=7, **TRIAL)],
        after=expired(7.1, "VOLUNTARY", 1, days=7, **TRIAL),
    ),
    Row(
        "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_ENABLED",
        status_changed(12, 1),
        [("UNCANCELLATION", {})],
        before=[bought(), status_changed(10, 0)],
        after=renewed(),
    ),
    Row(
        "DID_CHANGE_RENEWAL_PREF UPGRADE",
        upgraded("DID_CHANGE_RENEWAL_PREF"),
        [("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "yearly", "at": day(10)})],
        before=[bought()],
        after=renewed("3", on=375, days=365, **YEARLY),
    ),
    Row(
        "DID_CHANGE_RENEWAL_PREF DOWNGRADE",
        downgraded("DID_CHANGE_RENEWAL_PREF"),
        [("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "basic", "at": day(10)})],
        before=[bought()],
        after=renewed(productId="basic"),
    ),
    Row(
        "DID_CHANGE_RENEWAL_PREF, back",
        downgraded("DID_CHANGE_RENEWAL_PREF", None, on=11, to="monthly"),
        [("PRODUCT_CHANGE", {"product_id": "basic", "new_product_id": "monthly"})],
        before=[bought(), downgraded("DID_CHANGE_RENEWAL_PREF")],
        after=renewed(),
    ),
    Row(
        "DID_CHANGE_RENEWAL_PREF, nothing pending",
        downgraded("DID_CHANGE_RENEWAL_PREF", None, on=11, to="monthly"),
        [],
        before=[bought()],
        after=renewed(),
    ),
    Row(
        "OFFER_REDEEMED",
        tells("OFFER_REDEEMED", about=transaction(told_on=9), renews=renewal(told_on=9, offerType=3)),
        [],
        before=[bought()],
        after=renewed(**CODE),
    ),
    Row(
        "OFFER_REDEEMED INITIAL_BUY",
        tells("OFFER_REDEEMED", "INITIAL_BUY", about=transaction(**CODE), renews=renewal()),
        [("INITIAL_PURCHASE", {"period_type": "intro", "price.micros": 990_000})],
        after=renewed(),
    ),
    Row(
        "OFFER_REDEEMED INITIAL_BUY with a trial",
        tells("OFFER_REDEEMED", "INITIAL_BUY", about=transaction(**TRIAL | {"offerType": 3}), renews=renewal()),
        [("TRIAL_STARTED", {})],
        after=renewed(),
    ),
    Row(
        "OFFER_REDEEMED RESUBSCRIBE",
        tells("OFFER_REDEEMED", "RESUBSCRIBE", about=transaction("2", day=50, **CODE), renews=renewal(told_on=50)),
        [("RENEWAL", {"transaction_id": "2"})],
        before=[bought(), status_changed(10, 0), expired(30.1, "VOLUNTARY", 1)],
        after=renewed("3", on=80),
    ),
    Row(
        "OFFER_REDEEMED UPGRADE",
        upgraded("OFFER_REDEEMED", offerType=3, offerDiscountType="PAY_UP_FRONT"),
        [("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "yearly"})],
        before=[bought()],
        after=renewed("3", on=375, days=365, **YEARLY),
    ),
    Row(
        "OFFER_REDEEMED DOWNGRADE",
        downgraded("OFFER_REDEEMED"),
        [("PRODUCT_CHANGE", {"product_id": "monthly", "new_product_id": "basic"})],
        before=[bought()],
        after=renewed(productId="basic"),
    ),
    Row(
        "DID_FAIL_TO_RENEW GRACE_PERIOD",
        failed(grace_days=16),
        [("BILLING_ISSUE", {"grace_period_expires_at": day(46)})],
        before=[bought()],
        after=renewed(on=40, subtype="BILLING_RECOVERY"),
    ),
    Row(
        "DID_FAIL_TO_RENEW",
        failed(30.1),
        [
            ("BILLING_ISSUE", {"grace_period_expires_at": None}),
            ("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": day(30)}),
        ],
        before=[bought()],
        after=renewed(on=40, subtype="BILLING_RECOVERY"),
    ),
    Row(
        "GRACE_PERIOD_EXPIRED",
        tells(
            "GRACE_PERIOD_EXPIRED",
            about=transaction(told_on=46),
            renews=renewal(
                told_on=46, isInBillingRetryPeriod=True, expirationIntent=2, gracePeriodExpiresDate=day(46)
            ),
            status=3,
        ),
        [("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": day(46)})],
        before=[bought(), failed(grace_days=16)],
        after=renewed(on=50, subtype="BILLING_RECOVERY"),
    ),
    *(
        Row(
            f"EXPIRED {subtype}",
            expired(30.1, subtype, intent),
            [("EXPIRATION", {"expiration_reason": reason, "at": day(30)})],
            before=before,
            after=tells("SUBSCRIBED", "RESUBSCRIBE", about=transaction("2", day=50), renews=renewal(told_on=50)),
        )
        for subtype, intent, reason, before in (
            ("VOLUNTARY", 1, "UNSUBSCRIBE", [bought(), status_changed(10, 0)]),
            ("PRICE_INCREASE", 3, "PRICE_INCREASE", [bought()]),
            ("PRODUCT_NOT_FOR_SALE", 4, "UNKNOWN", [bought()]),
        )
    ),
    Row(
        "EXPIRED BILLING_RETRY without a word before",
        expired(90, "BILLING_RETRY", 2),
        [
            ("BILLING_ISSUE", {}),
            ("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": day(30)}),
        ],
        before=[bought()],
        after=tells("SUBSCRIBED", "RESUBSCRIBE", about=transaction("2", day=95), renews=renewal(told_on=95)),
    ),
    Row(
        "EXPIRED BILLING_RETRY, already expired",
        expired(90, "BILLING_RETRY", 2),
        [],
        before=[bought(), failed(30.1)],
        after=tells("SUBSCRIBED", "RESUBSCRIBE", about=transaction("2", day=95), renews=renewal(told_on=95)),
    ),
    Row(
        "REFUND",
        refunded(12),
        [("REFUND", {"transaction_id": "1", "at": day(12)})],
        before=[bought()],
        after=refunded(14, "REFUND_REVERSED", status=1),
    ),
    Row(
        "REFUND, and Apple turns renewal off with it",
        refunded(12, auto_renew=0),
        [("REFUND", {})],
        before=[bought()],
        after=refunded(14, "REFUND_REVERSED", status=1),
    ),
    Row(
        "REFUND of a cancelled subscription",
        refunded(12, auto_renew=0),
        [("REFUND", {})],
        before=[bought(), status_changed(10, 0)],
    ),
    Row(
        "REFUND of an older period",
        refunded(40, status=1),
        [],
        before=[bought(), renewed()],
        after=renewed("3", on=60),
    ),
    Row(
        "REFUND_REVERSED",
        refunded(14, "REFUND_REVERSED", status=1),
        [("REFUND_REVERSED", {})],
        before=[bought(), refunded(12)],
        after=renewed(),
    ),
    Row(
        "REVOKE",
        tells(
            "REVOKE",
            about=transaction(told_on=12, revocationDate=day(12), revocationReason=0, **FAMILY),
            renews=renewal(told_on=12),
            status=5,
        ),
        [("EXPIRATION", {"expiration_reason": "UNKNOWN", "at": day(12), "is_family_share": True})],
        before=[tells("SUBSCRIBED", "INITIAL_BUY", about=transaction(**FAMILY), renews=renewal())],
    ),
    Row(
        "RENEWAL_EXTENDED",
        tells("RENEWAL_EXTENDED", about=transaction(days=45, told_on=12), renews=renewal(told_on=12)),
        [("SUBSCRIPTION_EXTENDED", {"expiration_at": day(45)})],
        before=[bought()],
        after=renewed(on=45),
    ),
    Row(
        "ONE_TIME_CHARGE",
        tells("ONE_TIME_CHARGE", about=coins),
        [("NON_RENEWING_PURCHASE", {"transaction_id": "900", "product_id": "coins", "price.micros": 4_990_000})],
        after=tells("REFUND", about=one_time(day=3, told_on=5, revocationDate=day(5))),
    ),
    Row(
        "REFUND of a one-time purchase",
        tells("REFUND", about=one_time(day=3, told_on=5, revocationDate=day(5))),
        [("REFUND", {})],
        before=[tells("ONE_TIME_CHARGE", about=coins)],
        after=tells("REFUND_REVERSED", about=one_time(day=3, told_on=7)),
    ),
    Row(
        "REFUND_REVERSED of a one-time purchase",
        tells("REFUND_REVERSED", about=one_time(day=3, told_on=7)),
        [("REFUND_REVERSED", {})],
        before=[
            tells("ONE_TIME_CHARGE", about=coins),
            tells("REFUND", about=one_time(day=3, told_on=5, revocationDate=day(5))),
        ],
    ),
    Row(
        "REVOKE of a one-time purchase",
        tells("REVOKE", about=one_time(day=3, told_on=5, type="Non-Consumable", revocationDate=day(5), **FAMILY)),
        [("EXPIRATION", {"at": day(5)})],
        before=[tells("ONE_TIME_CHARGE", about=one_time(day=3, type="Non-Consumable", **FAMILY))],
    ),
    silent("PRICE_INCREASE", "PENDING"),
    silent("PRICE_INCREASE", "ACCEPTED"),
    silent("REFUND_DECLINED"),
    silent("CONSUMPTION_REQUEST", data={"consumptionRequestReason": "UNINTENDED_PURCHASE"}),
    silent("METADATA_UPDATE"),
    silent("MIGRATION"),
    silent("PRICE_CHANGE"),
    silent("SOMETHING_NEW", "AND_UNHEARD_OF"),
    Row("TEST", tells("TEST"), []),
    Row(
        "RENEWAL_EXTENSION SUMMARY",
        tells(
            "RENEWAL_EXTENSION",
            "SUMMARY",
            summary={"environment": "Production", "appAppleId": 1_234_567_890, "bundleId": "com.example.shop"},
        ),
        [],
    ),
    Row(
        "EXTERNAL_PURCHASE_TOKEN",
        tells(
            "EXTERNAL_PURCHASE_TOKEN",
            "UNREPORTED",
            externalPurchaseToken={
                "externalPurchaseId": "b2158121-7af9-49d4-9561-1f588205523e",
                "tokenCreationDate": START,
                "appAppleId": 1_234_567_890,
                "bundleId": "com.example.shop",
            },
        ),
        [],
    ),
]


def found(event: Event, name: str) -> object:
    value: object = event
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_notification_becomes_its_events(story: Story, row: Row) -> None:
    for told in row.before:
        await story.hears(told)
    happened = await story.hears(row.told, row.on)
    assert [event.type for event in happened] == [type for type, _ in row.events]
    for event, (_, wanted) in zip(happened, row.events, strict=True):
        assert {name: found(event, name) for name in wanted} == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_the_same_again_changes_nothing(story: Story, row: Row) -> None:
    for told in (*row.before, row.told):
        await story.hears(told)
        was = story.customer
        assert await story.hears(told) == []
        assert story.customer == was


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_neighbours_in_any_order_lead_to_the_same_state(story: Story, row: Row) -> None:
    *earlier, previous = row.before or [tells("TEST")]
    three = [previous, row.told, *([row.after] if row.after else [])]
    states = []
    for order in permutations(three):
        other = Story(story.adapter, story.app, story.chain)
        for told in earlier:
            await other.hears(told)
        for told in order:
            await other.hears(told)
        await other.waits_until(2_000)
        states.append(other.state())
    assert all(state == states[0] for state in states)
