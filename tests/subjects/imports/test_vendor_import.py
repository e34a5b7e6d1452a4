"""The vendor's export is imported, what has not happened yet is refused, and our own export comes back the same."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import PurchaseKind
from latchkey.domain.purchases.subscription import Cause
from latchkey.engine.due_transitions import at_present
from latchkey.subjects.imports.rules import latchkey_format as own
from latchkey.subjects.imports.rules.person import new_customer, person, taken_in
from latchkey.subjects.offerings.usecases import create_offering
from tests.domain.book import Book
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG, someone
from tests.subjects.imports.conftest import Desk
from tests.subjects.imports.own_rows import transactions_of
from tests.subjects.imports.vendor_rows import file_of, month, row


async def test_a_month_and_its_renewal_become_a_subscription_without_an_event(desk: Desk) -> None:
    renewal = row(
        store_transaction_id="2000002",
        renewal_number="2",
        start_time="2026-01-05 08:00:00",
        end_time="2026-02-05 08:00:00",
        updated_at="2026-01-05 08:00:01",
    )
    first = row(start_time="2025-12-05 08:00:00", end_time="2026-01-05 08:00:00")
    result = await desk.take(file_of([renewal, first]))
    assert result.counts["new customers"] == 1
    ada = await desk.customer("ada")
    (subscription,) = ada.subscriptions
    assert (subscription.id, subscription.store) == ("2000001", "app_store")
    assert subscription.app_id == desk.apps["app_store"]
    assert [(one.id, one.number, one.cause) for one in subscription.periods] == [
        ("2000001", 0, Cause.PURCHASE),
        ("2000002", 1, Cause.RENEWAL),
    ]
    assert await desk.shop.told("ada") == []
    await desk.shop.wait(60 * DAY)
    assert await desk.shop.told("ada") == ["EXPIRATION"]


async def test_the_offering_is_kept_if_the_project_has_it(desk: Desk) -> None:
    await create_offering(desk.database, desk.shop.project_id, "spring", "Spring", now=desk.shop.time)
    await desk.take(file_of([month("ada", presented_offering="spring"), month("bob", presented_offering="anything")]))
    ada, bob = await desk.customer("ada"), await desk.customer("bob")
    assert [one.subscriptions[0].current.offering for one in (ada, bob)] == ["spring", None]


async def test_what_has_not_happened_yet_is_refused_with_its_line_and_the_rest_is_imported(desk: Desk) -> None:
    later = {"end_time": "2030-01-01 08:00:00", "effective_end_time": "2030-01-01 08:00:00"}
    text = file_of(
        [
            month("ada", **later),
            month("bob", start_time="2029-01-01 08:00:00", **later),
            # All of it was given back, and access ended with it.
            month("cleo", price_in_purchased_currency="0", price_in_usd="0",
                  refunded_at="2026-01-20 08:00:00", effective_end_time="2026-01-20 08:00:00"),
        ]
    )  # fmt: skip
    result = await desk.take(text)
    assert [(one.line, one.reason) for one in desk.skipped] == [
        (3, "The purchase is dated in the future."),
        (4, "The refund is dated in the future."),
    ]
    assert result.counts["skipped"] == 2
    assert [await desk.find(one) is not None for one in ("ada", "bob", "cleo")] == [True, False, False]


async def test_a_renewal_that_was_charged_up_to_a_day_before_its_period_is_imported(desk: Desk) -> None:
    await desk.take(
        file_of([month("ada", start_time="2026-01-10 11:59:00"), month("bob", 2, start_time="2026-01-10 12:01:00")])
    )
    assert [one.reason for one in desk.skipped] == ["The purchase is dated in the future."]
    assert await desk.find("ada") is not None


async def test_rows_changed_in_the_future_count_as_changed_now(desk: Desk) -> None:
    """Otherwise everything that the store tells until then would be older."""
    await desk.take(file_of([month("ada", updated_at="2029-01-01 08:00:00")]))
    ada = await desk.customer("ada")
    assert ada.subscriptions[0].status.as_of.at == desk.shop.time


async def test_payments_of_the_future_are_refused_in_the_own_format_too(desk: Desk) -> None:
    lines = (
        "app_user_id,store,kind,transaction_id,product_id,purchased_at,price,currency\n"
        "ada,paddle,one_time,1,pro_lifetime,2026-01-01T08:00:00Z,10,USD\n"
        "bob,paddle,one_time,2,pro_lifetime,2027-01-01T08:00:00Z,10,USD\n"
    )
    await desk.take(lines, format="latchkey")
    assert [(one.line, one.reason) for one in desk.skipped] == [(3, "The purchase is dated in the future.")]


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


def test_a_renewal_that_was_missed_while_refunded_is_not_made_up_by_an_import() -> None:
    life = Life(book=Book(someone("ann")))
    life.act("buy pro_monthly as p0")
    life.act("refund p0")
    life.wait(40 * DAY)
    life.act("reverse refund p0")
    customer = life.book.customer
    assert transactions_of(imported(customer, life.ended_at, 0), CATALOG) == transactions_of(customer, CATALOG)
