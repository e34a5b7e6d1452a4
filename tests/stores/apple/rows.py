"""The rows of the table of notifications: what Apple says, what was said before and after, and the events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from latchkey.emulators.apple.apple_keys import AppleChain
from tests.stores.apple.app_store import START, notification, one_time, renewal, transaction
from tests.stores.apple.story import Told, day


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

    def told(chain: AppleChain) -> dict[str, Any]:
        if id(chain) not in made:
            made[id(chain)] = notification(
                chain, kind, subtype, about=about, renews=renews, status=status if renews else None, **more
            )
        return made[id(chain)]

    return told


TRIAL: dict[str, Any] = {"offerType": 1, "offerDiscountType": "FREE_TRIAL", "price": 0}
YEARLY: dict[str, Any] = {"productId": "yearly", "price": 49990}
CODE: dict[str, Any] = {"offerType": 3, "offerDiscountType": "PAY_UP_FRONT", "offerIdentifier": "spring", "price": 990}


def bought(**more: Any) -> Told:
    return tells("SUBSCRIBED", "INITIAL_BUY", about=transaction(**more), renews=renewal())


def renewed(id: str = "2", *, on: float = 30, days: float = 30, subtype: str | None = None, **more: Any) -> Told:
    about = transaction(id, day=on, days=days, transactionReason="RENEWAL", **more)
    renews = renewal(told_on=on, productId=about["productId"], autoRenewProductId=about["productId"])
    return tells("DID_RENEW", subtype, about=about, renews=renews)


def status_changed(on: float, auto_renew: int, **more: Any) -> Told:
    subtype = "AUTO_RENEW_ENABLED" if auto_renew else "AUTO_RENEW_DISABLED"
    about = transaction(told_on=on, **more)
    return tells(
        "DID_CHANGE_RENEWAL_STATUS", subtype, about=about, renews=renewal(told_on=on, autoRenewStatus=auto_renew)
    )


def failed(on: float = 30, *, grace_days: float | None = None, auto_renew: int = 1) -> Told:
    retry: dict[str, Any] = {"isInBillingRetryPeriod": True, "expirationIntent": 2, "autoRenewStatus": auto_renew}
    if grace_days is not None:
        retry["gracePeriodExpiresDate"] = day(30 + grace_days)
    return tells(
        "DID_FAIL_TO_RENEW",
        "GRACE_PERIOD" if grace_days is not None else None,
        about=transaction(told_on=on),
        renews=renewal(told_on=on, **retry),
        status=4 if grace_days is not None else 3,
    )


def grace_over(**more: Any) -> Told:
    """Apple documents the date of the grace period only for the time in which it runs."""
    renews = renewal(told_on=46, isInBillingRetryPeriod=True, expirationIntent=2, **more)
    return tells("GRACE_PERIOD_EXPIRED", about=transaction(told_on=46), renews=renews, status=3)


def expired(on: float, subtype: str, intent: int, auto_renew: int = 0, **more: Any) -> Told:
    renews = renewal(told_on=on, autoRenewStatus=auto_renew, expirationIntent=intent)
    return tells("EXPIRED", subtype, about=transaction(told_on=on, **more), renews=renews, status=2)


def refunded(on: float, kind: str = "REFUND", status: int = 5, auto_renew: int = 1, **more: Any) -> Told:
    gone: dict[str, Any] = {"revocationDate": day(on), "revocationReason": 1} if kind == "REFUND" else {}
    about = transaction(told_on=on, **gone, **more)
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
    return tells(
        kind, "UPGRADE", about=about, renews=renewal(told_on=10, productId="yearly", autoRenewProductId="yearly")
    )


def downgraded(kind: str, subtype: str | None = "DOWNGRADE", *, on: float = 10, to: str = "basic") -> Told:
    return tells(kind, subtype, about=transaction(told_on=on), renews=renewal(told_on=on, autoRenewProductId=to))


def silent(kind: str, subtype: str | None = None, **more: Any) -> Row:
    told = tells(kind, subtype, about=transaction(told_on=12), renews=renewal(told_on=12), **more)
    return Row(f"{kind} {subtype or ''}", told, [], before=[bought()], after=renewed())


FAMILY: dict[str, Any] = {"inAppOwnershipType": "FAMILY_SHARED", "appAccountToken": None}
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
        tells("SUBSCRIBED", "RESUBSCRIBE", about=transaction("2", day=50), renews=renewal(told_on=50)),
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
        after=status_changed(40, 1, id="2", day=35, transactionReason="RENEWAL"),
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
        grace_over(gracePeriodExpiresDate=day(46)),
        [("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": day(46)})],
        before=[bought(), failed(grace_days=16)],
        after=renewed(on=50, subtype="BILLING_RECOVERY"),
    ),
    Row(
        "GRACE_PERIOD_EXPIRED without the date",
        grace_over(),
        [("EXPIRATION", {"expiration_reason": "BILLING_ERROR", "at": day(46)})],
        before=[bought(), failed(grace_days=16)],
        after=expired(90, "BILLING_RETRY", 2),
    ),
    Row(
        "EXPIRED BILLING_RETRY after a grace period",
        expired(90, "BILLING_RETRY", 2),
        [],
        before=[bought(), failed(grace_days=16), grace_over()],
        after=tells("SUBSCRIBED", "RESUBSCRIBE", about=transaction("2", day=95), renews=renewal(told_on=95)),
    ),
    Row(
        "EXPIRED VOLUNTARY, cancelled in the grace period",
        expired(46, "VOLUNTARY", 1),
        [("EXPIRATION", {"expiration_reason": "UNSUBSCRIBE", "at": day(46)})],
        before=[bought(), failed(grace_days=16), failed(40, grace_days=16, auto_renew=0)],
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
        "EXPIRED BILLING_RETRY, cancelled while a payment was missing",
        expired(41, "BILLING_RETRY", 2),
        [],
        before=[bought(), failed(30.1), failed(40, auto_renew=0)],
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
        [("REFUND", {"at": day(12)})],
        before=[bought()],
        after=refunded(14, "REFUND_REVERSED", status=1),
    ),
    Row(
        "REFUND of a purchase that nobody told of, and renewal is off",
        refunded(12, auto_renew=0),
        [("INITIAL_PURCHASE", {}), ("REFUND", {})],
    ),
    Row(
        "REFUND within the grace period",
        refunded(40),
        [("REFUND", {"at": day(40)})],
        before=[bought(), failed(grace_days=16)],
    ),
    Row(
        "REFUND_REVERSED, and renewal stays off",
        refunded(14, "REFUND_REVERSED", status=1, auto_renew=0),
        [("CANCELLATION", {}), ("REFUND_REVERSED", {})],
        before=[bought(), refunded(12, auto_renew=0)],
        after=status_changed(16, 1),
    ),
    Row(
        "REFUND_REVERSED of a cancelled subscription",
        refunded(14, "REFUND_REVERSED", status=1, auto_renew=0),
        [("REFUND_REVERSED", {})],
        before=[bought(), status_changed(10, 0), refunded(12, auto_renew=0)],
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
        "REFUND of an older period while a payment is missing",
        tells(
            "REFUND",
            about=transaction(told_on=62, revocationDate=day(62), revocationReason=1),
            renews=renewal(told_on=62, isInBillingRetryPeriod=True, expirationIntent=2),
            status=3,
        ),
        [],
        before=[
            bought(),
            renewed(),
            tells(
                "DID_FAIL_TO_RENEW",
                about=transaction("2", day=30, transactionReason="RENEWAL", told_on=60.1),
                renews=renewal(told_on=60.1, isInBillingRetryPeriod=True, expirationIntent=2),
                status=3,
            ),
        ],
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
        "REVOKE, and Apple turns renewal off with it",
        tells(
            "REVOKE",
            about=transaction(told_on=12, revocationDate=day(12), revocationReason=0, **FAMILY),
            renews=renewal(told_on=12, autoRenewStatus=0),
            status=5,
        ),
        [("EXPIRATION", {"expiration_reason": "UNKNOWN", "at": day(12)})],
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
