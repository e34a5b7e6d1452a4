"""The vendor's export becomes customers of the project."""

from __future__ import annotations

from msgspec import msgpack

from latchkey.domain.importing.row import RowKind, TransactionRow
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.subscription import Cause
from latchkey.usecases.catalog.offerings import create_offering
from latchkey.usecases.importing.packing import pack, unpack_transaction
from tests.importing.conftest import Desk
from tests.importing.vendor_rows import file_of, month, row


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


async def test_the_offering_is_kept_if_the_project_has_it(desk: Desk) -> None:
    await create_offering(desk.database, desk.shop.project_id, "spring", "Spring", None, desk.shop.time)
    await desk.take(file_of([month("ada", presented_offering="spring"), month("bob", presented_offering="anything")]))
    ada, bob = await desk.customer("ada"), await desk.customer("bob")
    assert ada is not None
    assert bob is not None
    assert [one.subscriptions[0].current.offering for one in (ada, bob)] == ["spring", None]


def test_a_row_that_the_release_before_has_staged_is_read() -> None:
    row = TransactionRow(
        app_user_id="ada",
        store="app_store",
        kind=RowKind.ONE_TIME,
        chain="1",
        id="1",
        product_id="pro_lifetime",
        purchased_at=1,
        updated_at=1,
        offering="spring",
    )
    packed = pack(0, 1, row)
    assert unpack_transaction(packed).row.offering == "spring"
    file, line, values = msgpack.decode(packed[1:])
    assert unpack_transaction(packed[:1] + msgpack.encode((file, line, values[:-1]))).row.offering is None
