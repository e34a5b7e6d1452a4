"""Without a change there is no event."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.customers.customer import let_time_pass
from latchkey.domain.customers.intake import take_in
from latchkey.domain.events.diff import diff
from latchkey.usecases.engine.passing_time import steps
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG


@given(lives(), st.data())
def test_what_was_seen_before_changes_nothing_and_tells_nothing(life: Life, data: st.DataObject) -> None:
    if not life.snapshots:
        return
    customer = life.book.customer
    _, snapshot = data.draw(st.sampled_from(life.snapshots))

    after = take_in(customer, snapshot, life.ended_at)

    assert after == customer
    assert diff(customer, after) == ()


@given(lives())
def test_time_that_has_passed_already_changes_nothing(life: Life) -> None:
    customer = life.book.customer

    assert list(steps(customer, CATALOG, life.ended_at)) == []
    assert let_time_pass(customer, life.ended_at) is customer


@given(lives())
def test_sequence_has_no_gap_in_a_life_with_everything_in_it(life: Life) -> None:
    assert [one.wire.sequence for one in life.book.told] == list(range(1, len(life.book.told) + 1))
