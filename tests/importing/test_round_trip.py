"""What was exported and is imported again is the same."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.importing import own
from latchkey.domain.importing.person import new_customer, person, taken_in
from latchkey.domain.purchases.purchase import PurchaseKind
from latchkey.usecases.engine.passing_time import at_present
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG
from tests.importing.own_rows import transactions_of


def imported(customer: Customer, now: int, number: int) -> Customer:
    cells = transactions_of(customer, CATALOG)
    Random(number).shuffle(cells)
    rows = [own.transaction(one, {}) for one in cells]
    who = person(customer.app_user_id, rows, ())
    return at_present(taken_in(new_customer(who, customer.project_id, "", now), who, who.bought, now), CATALOG, now)


@given(lives(), st.integers(0, 1_000))
def test_any_life_is_exported_and_imported_with_the_same_rows(life: Life, number: int) -> None:
    now = life.ended_at
    before = at_present(life.book.customer, CATALOG, now)
    # Temporary access stands in for a purchase, and is not imported.
    lasting = tuple(one for one in before.purchases if one.kind is not PurchaseKind.TEMPORARY)
    before = replace(before, purchases=lasting)
    after = imported(before, now, number)
    assert transactions_of(after, CATALOG) == transactions_of(before, CATALOG)
    assert at_present(after, CATALOG, now) == after
