"""Sample events of every type, on every day of the year. The contract's examples hold their fields."""

from __future__ import annotations

import pytest
from msgspec import UNSET, json

from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.usecases.events.samples import TYPES, event_for_test, sample
from latchkey.wire.event import Event

NOW = 1_800_000_000_123


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
    assert {type.value for type in EventType} == set(TYPES) - {"TEST"}
