"""An import takes only what has happened."""

from __future__ import annotations

from tests.importing.conftest import Desk
from tests.importing.vendor_rows import file_of, month


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
    assert [await desk.customer(one) is not None for one in ("ada", "bob", "cleo")] == [True, False, False]


async def test_a_renewal_that_was_charged_up_to_a_day_before_its_period_is_imported(desk: Desk) -> None:
    await desk.take(
        file_of([month("ada", start_time="2026-01-10 11:59:00"), month("bob", 2, start_time="2026-01-10 12:01:00")])
    )
    assert [one.reason for one in desk.skipped] == ["The purchase is dated in the future."]
    assert await desk.customer("ada") is not None


async def test_rows_changed_in_the_future_count_as_changed_now(desk: Desk) -> None:
    """Otherwise everything that the store tells until then would be older."""
    await desk.take(file_of([month("ada", updated_at="2029-01-01 08:00:00")]))
    ada = await desk.customer("ada")
    assert ada is not None
    assert ada.subscriptions[0].status.as_of.at == desk.shop.time


async def test_payments_of_the_future_are_refused_in_the_own_format_too(desk: Desk) -> None:
    lines = (
        "app_user_id,store,kind,transaction_id,product_id,purchased_at,price,currency\n"
        "ada,paddle,one_time,1,pro_lifetime,2026-01-01T08:00:00Z,10,USD\n"
        "bob,paddle,one_time,2,pro_lifetime,2027-01-01T08:00:00Z,10,USD\n"
    )
    await desk.take(lines, format="latchkey")
    assert [(one.line, one.reason) for one in desk.skipped] == [(3, "The purchase is dated in the future.")]
