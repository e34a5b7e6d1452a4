"""The rules as tables: states, verification, identity, and what each event type changes."""

from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from latchkey.consumer.billing_service import VerifyReason, reasons_to_verify
from latchkey.consumer.rules.customer_snapshot import (
    CustomerSnapshot,
    SubscriptionState,
    V1Details,
    snapshot_of,
    state_after_event,
)
from latchkey.consumer.rules.event_handlers import HANDLERS
from latchkey.consumer.rules.received_event import HeldEntitlement, read_event
from latchkey.consumer.rules.record import LocalCopy, Subscription, empty_copy, external_user_id
from latchkey.consumer.rules.sync import apply_event, apply_snapshot, is_late
from latchkey.consumer.rules.timestamps import DAY, HOUR, from_iso, to_iso
from latchkey.wire import v2
from tests.consumer.world import NOW, event, pro, v1_subscription, written

TROUBLED = SubscriptionState("billing_issue", auto_renew=False, billing_issue=True)


@pytest.mark.parametrize(
    ("type", "any_active", "after"),
    [
        ("TRIAL_STARTED", True, SubscriptionState("trial", True, False)),
        ("SUBSCRIPTION_PAUSED", True, SubscriptionState("paused", False, True)),
        ("CANCELLATION", True, SubscriptionState("cancelled", False, True)),
        ("BILLING_ISSUE", True, SubscriptionState("billing_issue", False, True)),
        ("INITIAL_PURCHASE", True, SubscriptionState("active", True, False)),
        ("RENEWAL", True, SubscriptionState("active", True, False)),
        ("UNCANCELLATION", True, SubscriptionState("active", True, False)),
        ("PRODUCT_CHANGE", True, SubscriptionState("active", True, False)),
        ("REFUND_REVERSED", True, SubscriptionState("active", True, False)),
        ("TRIAL_CANCELLED", True, SubscriptionState("active", True, False)),
        ("SOMETHING_NEW", True, SubscriptionState("active", True, False)),
        ("TRIAL_STARTED", False, SubscriptionState("expired", False, True)),
        ("CANCELLATION", False, SubscriptionState("expired", False, True)),
        ("RENEWAL", False, SubscriptionState("expired", False, True)),
        ("SOMETHING_NEW", False, SubscriptionState("expired", False, True)),
    ],
)
def test_the_state_table(type: str, any_active: bool, after: SubscriptionState) -> None:
    assert state_after_event(type, any_active, TROUBLED) == after


@pytest.mark.parametrize("types", [
    ("CANCELLATION",), ("TRIAL_STARTED", "TRIAL_CANCELLED"), ("BILLING_ISSUE",), ("SUBSCRIPTION_PAUSED",),
    ("EXPIRATION",),
])  # fmt: skip
def test_where_v2_agrees_the_status_stays_as_the_events_left_it(types: tuple[str, ...]) -> None:
    before = after_event()
    for type in types:
        before = after_event(type, before=before, entitlements={} if type == "EXPIRATION" else pro())
    held = {"pro": NOW + 40 * DAY} if before.subscription.is_active else {}
    # V1 contradicts all of it.
    said = v1_subscription(period_type="trial", unsubscribe_detected_at=to_iso(1), billing_issues_detected_at=to_iso(1))
    for details in (None, V1Details({"pro": HeldEntitlement("pro_monthly")}, {"pro_monthly": said})):
        after = apply_snapshot(before, CustomerSnapshot("ada", held, {}, details), NOW + 5).subscription
        for name in ("subscription_status", "auto_renew", "billing_issue", "cancelled_at", "product_id", "is_active"):
            assert getattr(after, name) == getattr(before.subscription, name), name
        assert after.last_updated == NOW + 5
        if held:
            assert after.expires_at == NOW + 40 * DAY


def test_where_v2_contradicts_the_record_is_overwritten() -> None:
    cancelled = after_event("CANCELLATION")
    gone = apply_snapshot(cancelled, CustomerSnapshot("ada", {}, {}), NOW)
    assert (gone.subscription.is_active, gone.subscription.subscription_status) == (False, "expired")
    back = apply_snapshot(gone, CustomerSnapshot("ada", {"pro": None}, {}), NOW).subscription
    assert (back.is_active, back.subscription_status, back.auto_renew, back.cancelled_at) == (
        True,
        "active",
        True,
        None,
    )


def test_access_that_v2_denies_has_no_end_in_the_future() -> None:
    for ends, now, after in (
        (NOW + 30 * DAY, NOW + 5, NOW + 5),
        (None, NOW + 5, NOW + 5),
        # It had ended before the check.
        (NOW + HOUR, NOW + DAY, NOW + HOUR),
    ):
        cancelled = after_event("CANCELLATION", expiration_at_ms=ends, entitlements=pro(ends))
        gone = apply_snapshot(cancelled, CustomerSnapshot("ada", {}, {}), now)
        assert (gone.subscription.is_active, gone.subscription.expires_at) == (False, after)
        # Asked again later, the end stays.
        assert apply_snapshot(gone, CustomerSnapshot("ada", {}, {}), now + DAY).subscription.expires_at == after
    # Whoever never had access has no end.
    assert apply_snapshot(empty_copy("ada"), CustomerSnapshot("ada", {}, {}), NOW).subscription.expires_at is None


@pytest.mark.parametrize("type", [*sorted(HANDLERS), "SOMETHING_NEW"])
def test_the_end_follows_every_event_that_names_or_implies_one(type: str) -> None:
    def end_after(**more: Any) -> int | None:
        # A refund of another product, so that `pro` goes on.
        return after_event(type, before=after_event(), product_id="coins", **more).subscription.expires_at

    # What was refunded or expired has ended; `pro` goes on.
    named = after_event().subscription.expires_at if type in ("REFUND", "EXPIRATION") else NOW + HOUR
    assert end_after(expiration_at_ms=NOW + HOUR) == named
    assert end_after(expiration_at_ms=None, entitlements=pro(NOW + 2 * HOUR)) == NOW + 2 * HOUR
    assert end_after(expiration_at_ms=None, entitlements=pro(None)) is None
    assert end_after(expiration_at_ms=None, entitlements={}, event_timestamp_ms=NOW + 5) == NOW + 5
    soon = after_event(
        type, before=after_event(), product_id="coins", expiration_at_ms=None, entitlements=pro(NOW + HOUR)
    )
    assert VerifyReason.ENDS_SOON in reasons_to_verify(soon.subscription, NOW)
    # Whoever never had access has no end.
    assert after_event(type, expiration_at_ms=None, entitlements={}).subscription.expires_at is None


def test_an_end_in_two_hundred_years_is_none() -> None:
    page: v2.Page[Any] = v2.Page(items=[], next_page=None, url="")
    found = v2.Customer(
        id="ada", project_id="p", first_seen_at=1, last_seen_at=1, last_seen_app_version=None, last_seen_country=None,
        last_seen_platform=None, last_seen_platform_version=None, active_entitlements=page, attributes=page,
    )  # fmt: skip
    held = v2.ActiveEntitlement(entitlement_id="pro", expires_at=NOW + 200 * 365 * DAY)
    after = apply_snapshot(empty_copy("ada"), snapshot_of(found, [held], [], now=NOW), NOW)
    assert (after.subscription.expires_at, after.entitlements["pro"].expires_at) == (None, None)
    assert after.subscription.entitlements["pro"]["expires_date"] is None


FRESH = Subscription(app_user_id="ada", expires_at=NOW + 2 * DAY, last_updated=NOW)


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        (None, (VerifyReason.NO_RECORD,)),
        (Subscription(app_user_id="ada"), (VerifyReason.NO_RECORD,)),
        (FRESH, ()),
        (replace(FRESH, expires_at=None), ()),
        (replace(FRESH, expires_at=NOW + DAY), ()),
        (replace(FRESH, expires_at=NOW + DAY - 1), (VerifyReason.ENDS_SOON,)),
        (replace(FRESH, expires_at=NOW - 1), (VerifyReason.ENDS_SOON,)),
        (replace(FRESH, billing_issue=True), (VerifyReason.BILLING_ISSUE,)),
        (replace(FRESH, cancelled_at=NOW - 48 * HOUR + 1), (VerifyReason.JUST_CANCELLED,)),
        (replace(FRESH, cancelled_at=NOW - 48 * HOUR), ()),
        (replace(FRESH, last_updated=NOW - HOUR), ()),
        (replace(FRESH, last_updated=NOW - HOUR - 1), (VerifyReason.TOO_OLD,)),
        (replace(FRESH, billing_issue=True, last_updated=0), (VerifyReason.BILLING_ISSUE, VerifyReason.TOO_OLD)),
    ],
)
def test_the_five_conditions_of_the_verification_rule(
    record: Subscription | None, reasons: tuple[VerifyReason, ...]
) -> None:
    assert reasons_to_verify(record, NOW) == reasons


@pytest.mark.parametrize(("ends", "verify"), [(NOW + 1, True), (NOW, False), (NOW - 1, False), (NOW + DAY, False)])
def test_the_variant_in_which_an_end_that_is_over_is_no_reason(ends: int, verify: bool) -> None:
    record = replace(FRESH, expires_at=ends)
    assert bool(reasons_to_verify(record, NOW, only_if_still_ahead=True)) is verify


@pytest.mark.parametrize(
    ("attributes", "id"),
    [
        ({"$email": "a@b.c", "$displayName": "Ada"}, "a@b.c"),
        ({"$email": "", "$displayName": "Ada"}, "Ada"),
        ({"$displayName": "Ada"}, "Ada"),
        ({"other": "x"}, "ada"),
        ({}, "ada"),
    ],
)
def test_the_external_user_id(attributes: dict[str, str], id: str) -> None:
    assert external_user_id(attributes, "ada") == id


@pytest.mark.parametrize(("ends", "active"), [(None, True), (NOW + 1000, True), (NOW, False), (NOW - 1000, False)])
def test_an_entitlement_is_active_while_its_end_is_missing_or_ahead(ends: int | None, active: bool) -> None:
    assert after_event(entitlements=pro(ends)).subscription.is_active is active
    assert (
        apply_snapshot(empty_copy("ada"), CustomerSnapshot("ada", {"pro": ends}, {}), NOW).subscription.is_active
        is active
    )


def test_cancellation_keeps_access_until_the_end() -> None:
    after = after_event("CANCELLATION", event_timestamp_ms=NOW - 5).subscription
    assert (after.is_active, after.subscription_status, after.auto_renew) == (True, "cancelled", False)
    assert (after.cancelled_at, after.expires_at) == (NOW - 5, NOW + 30 * DAY)
    assert after_event("CANCELLATION", event_timestamp_ms=None).subscription.cancelled_at == NOW


def test_uncancellation_and_renewal_forget_the_cancellation() -> None:
    cancelled = after_event("CANCELLATION")
    for type in ("UNCANCELLATION", "RENEWAL", "INITIAL_PURCHASE"):
        after = after_event(type, before=cancelled).subscription
        assert (after.subscription_status, after.auto_renew, after.cancelled_at) == ("active", True, None)


def test_expiration_clears_everything() -> None:
    after = after_event("EXPIRATION", before=after_event(), entitlements={}, expiration_at_ms=NOW)
    assert (after.subscription.is_active, after.subscription.entitlements) == (False, {})
    assert (after.subscription.subscription_status, after.subscription.auto_renew) == ("expired", False)
    assert not after.entitlements["pro"].is_active


def test_an_expiration_beside_another_purchase_leaves_what_that_one_grants() -> None:
    premium = {"premium": written(NOW + DAY, "premium_monthly")}
    after = after_event("EXPIRATION", before=after_event(entitlements=pro() | premium), entitlements=premium)
    assert after.subscription.is_active
    assert set(after.held(NOW)) == {"premium"}


def test_billing_issue_keeps_access_and_records_the_grace_period() -> None:
    grace = NOW + 16 * DAY
    after = after_event(
        "BILLING_ISSUE", entitlements=pro(grace), grace_period_expires_at_ms=grace, expiration_at_ms=NOW
    )
    one = after.subscription
    assert (one.is_active, one.subscription_status, one.billing_issue) == (True, "billing_issue", True)
    assert (one.grace_period_expires_at, one.expires_at) == (grace, NOW)
    carried = {"pro": {**written(grace), "grace_period_expires_date": to_iso(grace)}}
    assert after_event("BILLING_ISSUE", entitlements=carried).subscription.grace_period_expires_at == grace
    recovered = after_event("RENEWAL", before=after).subscription
    assert (recovered.billing_issue, recovered.grace_period_expires_at) == (False, None)


@pytest.mark.parametrize("type", ["CANCELLATION", "SUBSCRIPTION_PAUSED", "SUBSCRIPTION_EXTENDED", "PRODUCT_CHANGE"])
def test_the_grace_period_of_one_product_is_not_written_to_another(type: str) -> None:
    grace = NOW + 16 * DAY
    late = {"pro": {**written(grace), "grace_period_expires_date": to_iso(grace)}}
    before = after_event("BILLING_ISSUE", entitlements=late, grace_period_expires_at_ms=grace, expiration_at_ms=NOW)
    both = late | {"premium": written(NOW + 30 * DAY, "premium_monthly")}
    after = after_event(type, before=before, entitlements=both, product_id="premium_monthly").subscription
    other = after.subscriptions["premium_monthly"]
    assert (other["grace_period_expires_date"], other["billing_issues_detected_at"]) == (None, None)
    assert (other["unsubscribe_detected_at"] is not None) is (type == "CANCELLATION")
    first = after.subscriptions["pro_monthly"]
    assert first["grace_period_expires_date"] is not None
    assert first["billing_issues_detected_at"] is not None
    # Its own is written.
    troubled = both | {"premium": {**written(grace, "premium_monthly"), "grace_period_expires_date": to_iso(grace)}}
    own = after_event(type, before=before, entitlements=troubled, product_id="premium_monthly").subscription
    assert own.subscriptions["premium_monthly"]["grace_period_expires_date"] == to_iso(grace)


@pytest.mark.parametrize("type", ["CANCELLATION", "UNCANCELLATION", "SUBSCRIPTION_PAUSED", "SUBSCRIPTION_EXTENDED"])
def test_a_billing_issue_stays_in_the_subscription_until_it_is_paid(type: str) -> None:
    before = after_event("BILLING_ISSUE", before=after_event(), grace_period_expires_at_ms=None)
    after = after_event(type, before=before, event_timestamp_ms=NOW + HOUR)
    assert after.subscription.subscriptions["pro_monthly"]["billing_issues_detected_at"] == to_iso(NOW)
    paid = after_event("RENEWAL", before=after, event_timestamp_ms=NOW + 2 * HOUR).subscription
    assert paid.subscriptions["pro_monthly"]["billing_issues_detected_at"] is None


def test_a_cancellation_of_one_product_is_not_written_to_another() -> None:
    both = pro() | {"premium": written(NOW + 30 * DAY, "premium_monthly")}
    before = after_event("CANCELLATION", before=after_event())
    after = after_event(
        "SUBSCRIPTION_EXTENDED", before=before, entitlements=both, product_id="premium_monthly"
    ).subscription
    assert after.subscriptions["premium_monthly"]["unsubscribe_detected_at"] is None
    assert after.subscriptions["pro_monthly"]["unsubscribe_detected_at"] is not None


def test_product_change_takes_the_new_product() -> None:
    after = after_event(
        "PRODUCT_CHANGE", before=after_event(), new_product_id="pro_yearly", entitlements=pro(NOW + 365 * DAY)
    )
    assert (after.subscription.product_id, after.subscription.is_active) == ("pro_yearly", True)
    assert after.entitlements["pro"].expires_at == NOW + 365 * DAY


def test_refund_revokes_at_once_even_if_the_event_still_carries_the_entitlement() -> None:
    refunded = after_event("REFUND", before=after_event(), entitlements={}).subscription
    assert (refunded.is_active, refunded.expires_at) == (False, NOW)
    assert refunded.subscriptions["pro_monthly"]["expires_date"] == to_iso(NOW)
    one = read_event(json.encode(event("REFUND")))
    applied = apply_event(after_event(), one, NOW)
    assert not applied.copy.subscription.is_active
    assert applied.reread == {"ada"}
    assert applied.copy.subscription.stale


def test_refund_leaves_what_another_product_grants() -> None:
    after = after_event("REFUND", before=after_event(), entitlements={"premium": written(None, "premium_monthly")})
    assert (set(after.held(NOW)), after.subscription.subscription_status) == ({"premium"}, "active")
    assert after.subscription.expires_at is None


def test_refund_leaves_what_another_purchase_of_the_same_product_grants() -> None:
    # Bought in one store a day after it was bought in another; then the second one is refunded.
    both = after_event("INITIAL_PURCHASE", before=after_event(), purchased_at_ms=NOW + DAY)
    one = read_event(json.encode(event("REFUND", purchased_at_ms=NOW + DAY)))
    applied = apply_event(both, one, NOW + DAY)
    after = applied.copy.subscription
    assert (set(applied.copy.held(NOW + DAY)), after.subscription_status) == ({"pro"}, "active")
    assert (after.is_active, after.expires_at) == (True, NOW + 30 * DAY)
    assert applied.reread == {"ada"}, "V2 confirms it"


@pytest.mark.parametrize("type", ["REFUND", "EXPIRATION"])
def test_when_one_of_two_purchases_ends_the_record_describes_the_other(type: str) -> None:
    monthly = after_event("CANCELLATION", before=after_event())
    bought: dict[str, Any] = {"product_id": "team_monthly", "store": "play_store", "purchased_at_ms": NOW + DAY}
    team = {"team": written(NOW + 31 * DAY, "team_monthly")}
    both = after_event("INITIAL_PURCHASE", before=monthly, entitlements=pro() | team, **bought)
    assert both.subscription.product_id == "team_monthly"
    one = after_event(type, before=both, entitlements=pro(), **bought).subscription
    first = monthly.subscription
    assert (one.product_id, one.expires_at, one.purchased_at, one.cancelled_at, one.store) == (
        "pro_monthly", first.expires_at, first.purchased_at, first.cancelled_at, first.store,
    )  # fmt: skip
    assert (one.subscription_status, one.auto_renew) == ("active", True)
    assert set(one.subscriptions) == {"pro_monthly", "team_monthly"}
    assert (one.subscriptions["team_monthly"]["refunded_at"] is not None) is (type == "REFUND")
    # A purchase that is no subscription.
    lifetime = {"pro": written(None, "pro_lifetime")}
    left = after_event(type, before=both, entitlements=lifetime, **bought).subscription
    assert (left.product_id, left.expires_at) == ("pro_lifetime", None)


def test_refund_reversed_restores() -> None:
    refunded = after_event("REFUND", before=after_event(), entitlements={})
    after = after_event("REFUND_REVERSED", before=refunded)
    assert (after.subscription.is_active, after.subscription.subscription_status) == (True, "active")
    assert after.entitlements["pro"].is_active


def test_a_trial_has_its_end_and_conversion_keeps_it_on_record() -> None:
    trial = after_event("TRIAL_STARTED", expiration_at_ms=NOW + 7 * DAY, entitlements=pro(NOW + 7 * DAY))
    one = trial.subscription
    assert (one.subscription_status, one.trial_end_at, one.auto_renew) == ("trial", NOW + 7 * DAY, True)
    longer: dict[str, Any] = {"expiration_at_ms": NOW + 9 * DAY, "entitlements": pro(NOW + 9 * DAY)}
    extended = after_event("SUBSCRIPTION_EXTENDED", before=trial, period_type="trial", **longer).subscription
    assert extended.trial_end_at == NOW + 9 * DAY
    converted = after_event("INITIAL_PURCHASE", before=trial, is_trial_conversion=True).subscription
    assert (converted.subscription_status, converted.trial_end_at) == ("active", NOW + 7 * DAY)
    assert after_event("INITIAL_PURCHASE", before=trial).subscription.trial_end_at is None


def test_pausing_turns_renewal_off() -> None:
    after = after_event("SUBSCRIPTION_PAUSED", auto_resume_at_ms=NOW + 60 * DAY).subscription
    assert (after.subscription_status, after.auto_renew) == ("paused", False)
    assert after.subscriptions["pro_monthly"]["auto_resume_date"] == to_iso(NOW + 60 * DAY)


@pytest.mark.parametrize(
    "type", ["INVOICE_ISSUANCE", "EXPERIMENT_ENROLLMENT", "VIRTUAL_CURRENCY_TRANSACTION", "TRANSFER"]
)
def test_types_that_are_not_about_a_period_leave_it_alone(type: str) -> None:
    before = after_event()
    after = after_event(type, before=before, product_id="coins", purchased_at_ms=1, expiration_at_ms=None)
    for name in ("product_id", "purchased_at", "expires_at", "is_active"):
        assert getattr(after.subscription, name) == getattr(before.subscription, name), name


def test_granted_at_stays_while_access_goes_on_and_is_new_when_it_comes_back() -> None:
    first = after_event(event_timestamp_ms=NOW)
    renewed = after_event("RENEWAL", before=first, event_timestamp_ms=NOW + 5)
    assert renewed.entitlements["pro"].granted_at == NOW
    gone = after_event("EXPIRATION", before=renewed, entitlements={}, event_timestamp_ms=NOW + 6)
    back = after_event("INITIAL_PURCHASE", before=gone, event_timestamp_ms=NOW + 7)
    assert back.entitlements["pro"].granted_at == NOW + 7


def test_an_event_without_attributes_keeps_the_email() -> None:
    known = after_event(subscriber_attributes={"$email": {"value": "a@b.c", "updated_at_ms": 1}})
    assert after_event("RENEWAL", before=known).subscription.email == "a@b.c"
    gone = after_event("RENEWAL", before=known, subscriber_attributes={}).subscription
    assert (gone.email, gone.external_user_id) == (None, "ada")


@pytest.mark.parametrize(
    ("sequence", "at", "late"),
    [(4, 0, True), (5, 0, False), (6, 0, False), (None, NOW - 1, True), (None, NOW, False), (None, None, False)],
)
def test_what_is_late(sequence: int | None, at: int | None, late: bool) -> None:
    known = Subscription(app_user_id="ada", last_sequence=5, last_event_at=NOW)
    one = read_event(json.encode(event(sequence=sequence, event_timestamp_ms=at)))
    assert is_late(one, known) is late


def test_v1_gives_the_state_of_the_subscription() -> None:
    for fields, status in (
        ({}, "active"),
        ({"unsubscribe_detected_at": to_iso(NOW)}, "cancelled"),
        ({"billing_issues_detected_at": to_iso(NOW)}, "billing_issue"),
        ({"auto_resume_date": to_iso(NOW)}, "paused"),
        ({"period_type": "trial"}, "trial"),
    ):
        details = V1Details({"pro": HeldEntitlement("pro_monthly")}, {"pro_monthly": v1_subscription(**fields)})
        reading = CustomerSnapshot("ada", {"pro": NOW + DAY}, {"$email": "a@b.c"}, details)
        after = apply_snapshot(empty_copy("ada"), reading, NOW).subscription
        assert (after.subscription_status, after.product_id, after.email) == (status, "pro_monthly", "a@b.c")
        assert (after.environment, after.store) == ("SANDBOX", "test_store")


@pytest.mark.parametrize(
    "text", ["2027-01-15T08:00:00Z", "2027-01-15T08:00:00.000Z", "2027-01-15T09:00:00+01:00", "2027-01-15T08:00:00"]
)
def test_instants_are_read_in_every_iso_form(text: str) -> None:
    assert from_iso(text) == NOW


def after_event(type: str = "INITIAL_PURCHASE", *, before: LocalCopy | None = None, **more: Any) -> LocalCopy:
    """The copy after an event."""
    one = read_event(json.encode(event(type, **more)))
    return apply_event(before or empty_copy("ada"), one, NOW).copy
