from collections import Counter

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.enrollment import Experiment, Variant, assign, enroll
from latchkey.domain.customers.identity import add_id
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.events.diff import diff
from tests.domain.shop import NOON, someone

PAYWALL = Experiment("paywall", "Paywall", (Variant("control", 2), Variant("a", 1), Variant("b", 1)))


def test_the_same_user_always_sees_the_same_variant() -> None:
    # Fixed for ever: another hash would move every enrolled user.
    assert [assign(PAYWALL, f"user {number}") for number in range(8)] == [
        "control",
        "a",
        "control",
        "b",
        "control",
        "a",
        "b",
        "a",
    ]


def test_the_weights_are_respected_over_many_users() -> None:
    many = 20_000
    seen = Counter(assign(PAYWALL, f"user {number}") for number in range(many))

    # Four standard deviations of a fair draw.
    for variant, share in {"control": 0.5, "a": 0.25, "b": 0.25}.items():
        assert seen[variant] / many == pytest.approx(share, abs=4 * (share * (1 - share) / many) ** 0.5)


def test_a_variant_without_weight_is_never_seen() -> None:
    lopsided = Experiment("x", "X", (Variant("off", 0), Variant("on", 1), Variant("also off", 0)))
    assert {assign(lopsided, f"user {number}") for number in range(500)} == {"on"}


def test_two_experiments_divide_the_same_users_differently() -> None:
    other = replace(PAYWALL, id="other")
    users = [f"user {number}" for number in range(200)]
    assert [assign(PAYWALL, one) for one in users] != [assign(other, one) for one in users]


def test_enrolling_is_told_once() -> None:
    before = someone()
    after = enroll(before, PAYWALL, NOON)
    (event,) = diff(before, after)

    assert event.type is EventType.EXPERIMENT_ENROLLMENT
    assert (event.experiment_id, event.variant_id) == ("paywall", assign(PAYWALL, "ann"))
    assert enroll(after, PAYWALL, NOON + 1) is after


def test_a_user_keeps_the_variant_when_weights_change_or_an_id_is_added() -> None:
    enrolled = enroll(someone(), PAYWALL, NOON)
    turned = replace(PAYWALL, variants=(Variant("new", 1),))

    assert enroll(add_id(enrolled, "ann@work"), turned, NOON + 1).enrollments == enrolled.enrollments
