"""Events in the vendor's dialect: the names and values that a receiver written for the vendor reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec import json, structs

from latchkey.delivery.dialect import as_vendor, body_of
from latchkey.domain.events.event import EventType
from latchkey.domain.webhooks.dialect import Dialect, selected, vendor_type
from latchkey.usecases.events.samples import TYPES, event_for_test, sample
from latchkey.wire.event import Event, continues
from tests.domain.lives import Life, lives

NOW = 1_800_000_000_123
EVERYWHERE = {
    "id",
    "type",
    "event_timestamp_ms",
    "app_user_id",
    "original_app_user_id",
    "aliases",
    "environment",
    "store",
    "app_id",
    "subscriber_attributes",
    "entitlements",
}
# The fields of every event about a purchase, as the vendor documents them.
PURCHASE = {
    "product_id",
    "entitlement_id",
    "entitlement_ids",
    "period_type",
    "purchased_at_ms",
    "expiration_at_ms",
    "original_purchase_date_ms",
    "price",
    "price_in_purchased_currency",
    "currency",
    "takehome_percentage",
    "tax_percentage",
    "commission_percentage",
    "transaction_id",
    "original_transaction_id",
    "is_family_share",
    "country_code",
    "offer_code",
    "presented_offering_id",
    "renewal_number",
}
CURRENCY = {
    "adjustments",
    "product_id",
    "product_display_name",
    "purchase_environment",
    "source",
    "transaction_id",
    "virtual_currency_transaction_id",
}
ENROLLMENT = {"experiment_id", "experiment_variant", "offering_id", "enrolled_at_ms", "experiment_enrolled_at_ms"}
# Our type: the vendor's type, the fields that only this type has, and some values.
TABLE: dict[str, tuple[str, set[str], dict[str, Any]]] = {
    "INITIAL_PURCHASE": ("INITIAL_PURCHASE", PURCHASE, {"period_type": "NORMAL", "price": 9.99, "renewal_number": 1}),
    "RENEWAL": ("RENEWAL", PURCHASE | {"is_trial_conversion"}, {"is_trial_conversion": False, "renewal_number": 2}),
    "NON_RENEWING_PURCHASE": ("NON_RENEWING_PURCHASE", PURCHASE, {"renewal_number": None, "price": 4.99}),
    "CANCELLATION": ("CANCELLATION", PURCHASE | {"cancel_reason"}, {"cancel_reason": "UNSUBSCRIBE", "price": 0}),
    "UNCANCELLATION": ("UNCANCELLATION", PURCHASE, {"price": 0}),
    "TRIAL_STARTED": ("INITIAL_PURCHASE", PURCHASE, {"period_type": "TRIAL", "price": 0}),
    "TRIAL_CANCELLED": (
        "CANCELLATION",
        PURCHASE | {"cancel_reason"},
        {"period_type": "TRIAL", "cancel_reason": "UNSUBSCRIBE"},
    ),
    "BILLING_ISSUE": (
        "BILLING_ISSUE",
        PURCHASE | {"grace_period_expiration_at_ms"},
        {"grace_period_expiration_at_ms": 1_801_728_000_123},
    ),
    "EXPIRATION": ("EXPIRATION", PURCHASE | {"expiration_reason"}, {"expiration_reason": "UNSUBSCRIBE"}),
    "REFUND": (
        "CANCELLATION",
        PURCHASE | {"cancel_reason"},
        {
            "cancel_reason": "CUSTOMER_SUPPORT",
            "price": -9.99,
            "price_in_purchased_currency": -9.99,
            # No EXPIRATION follows: this is when the access ended.
            "expiration_at_ms": NOW,
        },
    ),
    "REFUND_REVERSED": ("REFUND_REVERSED", PURCHASE, {"price": 9.99}),
    "PRODUCT_CHANGE": (
        "PRODUCT_CHANGE",
        PURCHASE | {"new_product_id"},
        {"product_id": "pro_monthly", "new_product_id": "pro_yearly"},
    ),
    "SUBSCRIPTION_PAUSED": (
        "SUBSCRIPTION_PAUSED",
        PURCHASE | {"auto_resume_at_ms"},
        {"auto_resume_at_ms": 1_805_184_000_123},
    ),
    "SUBSCRIPTION_EXTENDED": ("SUBSCRIPTION_EXTENDED", PURCHASE, {}),
    "TRANSFER": (
        "TRANSFER",
        {"transferred_from", "transferred_to"},
        {"transferred_from": ["sample_previous_user"]},
    ),
    "INVOICE_ISSUANCE": ("INVOICE_ISSUANCE", PURCHASE, {"price": 9.99}),
    "TEMPORARY_ENTITLEMENT_GRANT": ("TEMPORARY_ENTITLEMENT_GRANT", PURCHASE, {"period_type": "PROMOTIONAL"}),
    "VIRTUAL_CURRENCY_TRANSACTION": (
        "VIRTUAL_CURRENCY_TRANSACTION",
        CURRENCY,
        {
            "adjustments": [{"amount": 100, "currency": {"code": "COIN", "name": "COIN", "description": ""}}],
            "source": "in_app_purchase",
        },
    ),
    "EXPERIMENT_ENROLLMENT": (
        "EXPERIMENT_ENROLLMENT",
        ENROLLMENT,
        {"experiment_id": "exp_paywall", "experiment_variant": "b", "enrolled_at_ms": NOW},
    ),
    "SUBSCRIBER_ALIAS": ("SUBSCRIBER_ALIAS", {"merged_sequences"}, {}),
}


def sent(event: Event) -> dict[str, Any]:
    body: dict[str, Any] = json.decode(body_of(json.encode(event), Dialect.REVENUECAT))
    assert body["api_version"] == "1.0"
    inner: dict[str, Any] = body["event"]
    return inner


@pytest.mark.parametrize("type", EventType)
def test_every_type_has_the_vendors_name_and_fields(type: EventType) -> None:
    told_as, fields, values = TABLE[type]
    body = sent(sample(type, NOW, app_id="app_demo"))
    assert body["type"] == told_as
    assert set(body) - {"sequence"} == EVERYWHERE | fields
    assert {name: body[name] for name in values} == values
    assert (body["store"], body["app_id"]) == ("TEST_STORE", "app_demo")
    if "period_type" in fields:
        assert body["entitlement_ids"] == ["pro"]


def test_a_trial_that_converts_is_a_renewal() -> None:
    bought = sample(EventType.INITIAL_PURCHASE, NOW)
    body = sent(structs.replace(bought, is_trial_conversion=True, renewal_number=1))
    assert (body["type"], body["is_trial_conversion"], body["renewal_number"]) == ("RENEWAL", True, 2)
    assert "is_trial_conversion" not in sent(bought)


def test_who_comes_back_after_a_lapse_renews() -> None:
    again = structs.replace(sample(EventType.INITIAL_PURCHASE, NOW), renewal_number=3)
    body = sent(again)
    assert (body["type"], body["is_trial_conversion"], body["renewal_number"]) == ("RENEWAL", False, 4)


@pytest.mark.parametrize("type", TYPES)
def test_every_event_has_a_store_and_an_app_and_numbers_where_money_could_move(type: str) -> None:
    body = sent(event_for_test(type, NOW, "1"))
    assert (body["store"], body["app_id"]) == ("TEST_STORE", "")
    if "price" in body:
        shares = [body[f"{share}_percentage"] for share in ("takehome", "commission", "tax")]
        assert (body["currency"], shares) == ("USD", [1, 0, 0])
    assert sent(structs.replace(event_for_test(type, NOW, "1"), store=None))["store"] == "PROMOTIONAL"


def test_coins_that_were_spent_are_negative_and_a_movement_by_hand_has_its_source() -> None:
    credited = sample(EventType.VIRTUAL_CURRENCY_TRANSACTION, NOW)
    body = sent(structs.replace(credited, transaction_type="debit", product_id=None))
    assert body["adjustments"][0]["amount"] == -100
    assert body["source"] == "admin_api"


def test_a_reason_that_nobody_gave_is_unknown() -> None:
    cancelled = structs.replace(sample(EventType.CANCELLATION, NOW), cancellation_reason=None)
    assert sent(cancelled)["cancel_reason"] == "UNKNOWN"
    expired = structs.replace(sample(EventType.EXPIRATION, NOW), expiration_reason=None)
    assert sent(expired)["expiration_reason"] == "UNKNOWN"


def test_a_test_event_and_a_type_of_the_future_are_told_too() -> None:
    assert sent(event_for_test("TEST", NOW, "1"))["type"] == "TEST"
    bought = sample(EventType.INITIAL_PURCHASE, NOW)
    assert sent(structs.replace(bought, type="SOMETHING_NEW"))["type"] == "SOMETHING_NEW"


@pytest.mark.parametrize("type", TYPES)
def test_the_default_dialect_is_the_stored_event_itself(type: str) -> None:
    event = json.encode(event_for_test(type, NOW, "1"))
    assert body_of(event, None) == body_of(event, Dialect.LATCHKEY) == b'{"api_version":"1.0","event":' + event + b"}"


@given(lives())
def test_every_event_of_every_life_is_told_and_loses_no_id_time_or_entitlement(life: Life) -> None:
    for told in life.book.told:
        event = told.wire
        body = sent(event)
        ours = json.decode(json.encode(event))
        for name in ("id", "app_user_id", "original_app_user_id", "event_timestamp_ms", "environment", "entitlements"):
            assert body[name] == ours[name]
        assert body["sequence"] == event.sequence
        assert {*body["aliases"]} == {event.app_user_id, *event.aliases}
        assert body["type"] in {one for one, _, _ in TABLE.values()}
        assert body["store"] == (event.store or "promotional").upper()
        assert body.get("period_type") in (None, str(ours["period_type"]).upper())
        for name in ("purchased_at_ms", "original_purchase_date_ms", "transaction_id", "original_transaction_id"):
            assert body.get(name) in (None, ours.get(name))
        if event.type == EventType.REFUND:
            assert body["expiration_at_ms"] <= event.event_timestamp_ms
        elif "expiration_at_ms" in body:
            assert body["expiration_at_ms"] == event.expiration_at_ms
        # Rendered again, the bytes are the same.
        stored = json.encode(event)
        assert body_of(stored, Dialect.REVENUECAT) == body_of(stored, Dialect.REVENUECAT)


def test_types_of_a_webhook_are_the_dialects_own() -> None:
    def gets(types: str, type: str, *, converts: bool = False, dialect: str = Dialect.REVENUECAT) -> bool:
        return selected(tuple(types.split()), type, continues=converts, dialect=dialect)

    assert gets("", "REFUND")
    assert gets("INITIAL_PURCHASE", "TRIAL_STARTED")
    assert not gets("INITIAL_PURCHASE", "INITIAL_PURCHASE", converts=True)
    assert gets("RENEWAL", "INITIAL_PURCHASE", converts=True)
    assert gets("CANCELLATION", "REFUND")
    assert gets("REFUND", "REFUND")
    assert not gets("REFUND", "CANCELLATION")
    assert not gets("INITIAL_PURCHASE", "TRIAL_STARTED", dialect=Dialect.LATCHKEY)
    assert gets("INITIAL_PURCHASE", "INITIAL_PURCHASE", converts=True, dialect=Dialect.LATCHKEY)


@pytest.mark.parametrize("type", EventType)
def test_the_type_of_the_body_is_the_type_that_filters_see(type: EventType) -> None:
    event = sample(type, NOW)
    assert as_vendor(event)["type"] == vendor_type(type, continues=continues(event))
