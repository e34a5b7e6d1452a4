"""Events in the vendor's dialect: the names and values that a receiver written for the vendor reads."""

from typing import Any

import pytest
from hypothesis import given
from msgspec import json, structs

from latchkey.domain.events.customer_event import Dialect, EventType, selected, vendor_type
from latchkey.subjects.webhooks.delivery.event_body import as_vendor, body_of
from latchkey.subjects.webhooks.usecases.samples import TYPES, event_for_test, sample
from latchkey.wire.event import Event, continues
from tests.domain.lives import Life, lives

NOW = 1_800_000_000_123
# Types that the vendor calls otherwise. The contract's examples (events_revenuecat) hold the fields of each.
RENAMED = {"TRIAL_STARTED": "INITIAL_PURCHASE", "TRIAL_CANCELLED": "CANCELLATION", "REFUND": "CANCELLATION"}


def sent(event: Event) -> dict[str, Any]:
    body: dict[str, Any] = json.decode(body_of(json.encode(event), Dialect.REVENUECAT))
    assert body["api_version"] == "1.0"
    inner: dict[str, Any] = body["event"]
    return inner


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
        assert body["type"] in {*EventType} - RENAMED.keys()
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
