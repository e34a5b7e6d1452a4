"""Which stored sums answer a question."""

from __future__ import annotations

import pytest

from latchkey.domain.charts.cuboids import CUBOIDS, FULL, PARENTS, cuboid_for
from latchkey.domain.charts.fact import Filter, Kind, Question, Resolution

REVENUE = (Kind.PAYMENT, Kind.REFUND)
RETENTION = (Kind.RETAINED, Kind.RETAINED_SOON)
BY_MONTH = {"duration": "P1M"}


def question(kinds: tuple[Kind, ...], only: dict[str, str], segment: str | None) -> Question:
    filters = tuple(Filter(dimension, (value,)) for dimension, value in only.items())
    return Question("PRODUCTION", kinds, 0, 1, Resolution.DAY, filters, segment)


@pytest.mark.parametrize(
    ("kinds", "only", "segment", "dimensions"),
    [
        (REVENUE, {}, None, set()),
        (REVENUE, {"platform": "ios"}, "country", {"platform", "country"}),
        (REVENUE, {"experiment:paywall": "a"}, "country", {"country", "variants"}),
        # Sums of retention are by duration everywhere.
        (RETENTION, BY_MONTH, None, set()),
        (RETENTION, BY_MONTH, "country", {"country"}),
        (RETENTION, BY_MONTH | {"platform": "ios"}, "country", {"platform", "country"}),
        (RETENTION, BY_MONTH | {"experiment:paywall": "a"}, "country", {"country", "variants"}),
        # Those of other kinds in the same question are not.
        ((*RETENTION, Kind.ACTIVE), BY_MONTH, "country", {"duration", "country"}),
    ],
)
def test_the_smallest_cuboid_with_the_dimensions_answers(
    kinds: tuple[Kind, ...], only: dict[str, str], segment: str | None, dimensions: set[str]
) -> None:
    assert cuboid_for(question(kinds, only, segment)).dimensions == dimensions


@pytest.mark.parametrize(
    ("only", "segment"),
    [
        ({"app_version": "1.0", "product": "monthly"}, "country"),
        ({"experiment:paywall": "a", "store": "app_store"}, "country"),
        # A row of another cuboid has one variant.
        ({"experiment:paywall": "a", "experiment:price": "b"}, None),
    ],
)
def test_the_rest_is_answered_from_sums_by_all_dimensions(only: dict[str, str], segment: str | None) -> None:
    assert cuboid_for(question(REVENUE, only, segment)) is FULL


@pytest.mark.parametrize("kind", [Kind.PAYMENT, *RETENTION])
def test_a_cuboid_can_be_computed_from_its_parent(kind: Kind) -> None:
    for one in CUBOIDS:
        assert one.dimensions_of(kind) <= PARENTS[one.number].dimensions_of(kind)
