"""Sample events of every type, on every day of the year, have the fields that the specification lists."""

from __future__ import annotations

import pytest
from msgspec import UNSET, json

from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.usecases.events.samples import TYPES, event_for_test, sample
from latchkey.wire.event import Event

NOW = 1_800_000_000_123
# What the consumer reads of each type, as the specification lists it.
CARRIES = {
    "INITIAL_PURCHASE": "product_id price currency purchased_at_ms expiration_at_ms store is_trial_conversion",
    "RENEWAL": "expiration_at_ms price currency",
    "NON_RENEWING_PURCHASE": "product_id expiration_at_ms",
    "CANCELLATION": "expiration_at_ms cancellation_reason",
    "UNCANCELLATION": "expiration_at_ms",
    "TRIAL_STARTED": "expiration_at_ms product_id",
    "TRIAL_CANCELLED": "cancellation_reason",
    "BILLING_ISSUE": "grace_period_expires_at_ms",
    "EXPIRATION": "expiration_reason expiration_at_ms",
    "REFUND": "product_id price currency",
    "REFUND_REVERSED": "entitlements",
    "PRODUCT_CHANGE": "product_id new_product_id expiration_at_ms",
    "SUBSCRIPTION_PAUSED": "auto_resume_at_ms",
    "SUBSCRIPTION_EXTENDED": "expiration_at_ms",
    "TRANSFER": "transferred_from transferred_to",
    "INVOICE_ISSUANCE": "product_id price currency",
    "TEMPORARY_ENTITLEMENT_GRANT": "expiration_at_ms",
    "VIRTUAL_CURRENCY_TRANSACTION": "amount currency transaction_type",
    "EXPERIMENT_ENROLLMENT": "experiment_id variant_id",
    "SUBSCRIBER_ALIAS": "aliases merged_sequences",
}


@pytest.mark.parametrize("type", EventType)
def test_a_sample_carries_what_a_consumer_reads_of_its_type(type: EventType) -> None:
    body = json.decode(json.encode(sample(type, NOW)))
    assert body["type"] == type
    assert all(body[name] is not None for name in CARRIES[type].split())
    ends = type in (EventType.EXPIRATION, EventType.REFUND)
    buys_coins = type is EventType.VIRTUAL_CURRENCY_TRANSACTION
    assert set(body["entitlements"]) == (set() if ends or buys_coins else {"pro"})


@pytest.mark.parametrize("type", EventType)
def test_a_sample_happened_just_now_whatever_the_day(type: EventType) -> None:
    for day in range(366):
        # From summer 2027 on, so that the 29th of February is among them.
        now = NOW + (150 + day) * DAY
        assert now - 4 * DAY <= sample(type, now).event_timestamp_ms <= now


@pytest.mark.parametrize("type", TYPES)
def test_a_test_event_is_marked_and_has_no_place_in_a_sequence(type: str) -> None:
    event = event_for_test(type, NOW, "123", environment=Environment.PRODUCTION, app_id="app_1")
    assert event.id == "test_123"
    assert event.type == type
    assert event.sequence is UNSET
    assert event.environment == "PRODUCTION"
    assert json.decode(json.encode(event), type=Event) == event


def test_the_samples_are_one_of_each() -> None:
    assert set(CARRIES) == {type.value for type in EventType} == set(TYPES) - {"TEST"}
