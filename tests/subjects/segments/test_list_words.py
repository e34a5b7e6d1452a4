"""Filters of customer lists in words."""

import pytest

from latchkey.subjects.segments.rules.facets import CustomerStatus
from latchkey.subjects.segments.rules.filter import EVERYBODY, NAMES, parse, written
from latchkey.subjects.segments.usecases.customer_lists import STATUSES, conditions, in_words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "everybody"),
        ({"status": "never_bought,trial"}, "Trial or Never bought"),
        ({"product_id": "pro_monthly", "product_active": "true"}, "Product: pro_monthly; Product active now"),
        ({"spent_from": "19.99", "spent_to": "1000"}, "Spent at least $19.99; Spent at most $1,000.00"),
        ({"country": "de", "store": "play_store"}, "Country: DE; Store: Play Store"),
        ({"store": "kiosk", "environment": "sandbox"}, "Store: kiosk; Sandbox"),
        ({"last_seen_after": "30d"}, "Last seen in the last 30 days"),
        ({"first_seen_after": "1d"}, "First seen in the last 1 day"),
        ({"last_seen_before": "7d"}, "Last seen more than 7 days ago"),
        ({"first_seen_after": "2026-10-01"}, "First seen since 2026-10-01"),
        ({"first_seen_before": "2026-11-01"}, "First seen before 2026-11-01"),
        ({"trial_ends_within": "1"}, "Trial ends within 1 day"),
        ({"billing_issue": "true"}, "Has a billing issue"),
    ],
)
def test_a_filter_is_said_in_words(given: dict[str, str], words: str) -> None:
    assert in_words(parse(given)) == words


def test_every_condition_and_every_status_has_words() -> None:
    every = {
        "status": "trial", "product_id": "x", "product_active": "true", "spent_from": "1", "spent_to": "2",
        "country": "DE", "store": "stripe", "environment": "production", "last_seen_after": "3d",
        "last_seen_before": "2d", "first_seen_after": "3d", "first_seen_before": "2d", "trial_ends_within": "3",
        "billing_issue": "true",
    }  # fmt: skip
    assert every.keys() == set(NAMES) == written(parse(every)).keys()
    assert [name for _, name in conditions(parse(every))] == list(every)
    assert list(conditions(EVERYBODY)) == []
    assert STATUSES.keys() == set(CustomerStatus)
