"""The vendor's export becomes customers of the project."""

from __future__ import annotations

from latchkey.domain.instants import DAY
from latchkey.domain.purchases.subscription import Cause
from tests.importing.conftest import Desk
from tests.importing.vendor_rows import file_of, row


async def test_a_month_and_its_renewal_become_a_subscription_without_an_event(desk: Desk) -> None:
    renewal = row(
        store_transaction_id="2000002",
        renewal_number="2",
        start_time="2026-01-05 08:00:00",
        end_time="2026-02-05 08:00:00",
        effective_end_time="2026-02-05 08:00:00",
        updated_at="2026-01-05 08:00:01",
    )
    first = row(
        start_time="2025-12-05 08:00:00", end_time="2026-01-05 08:00:00", effective_end_time="2026-01-05 08:00:00"
    )
    result = await desk.take(file_of([renewal, first]))
    assert result.counts["new customers"] == 1
    ada = await desk.customer("ada")
    assert ada is not None
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
