"""Receipts are limited by address, and by user from that address."""

from __future__ import annotations

from latchkey.domain.instants import DAY, MINUTE
from latchkey.usecases.stores.receipt_limit import ReceiptLimit

NOW = 1_800_000_000_000


def test_nobody_uses_up_the_receipts_of_a_user_at_another_address() -> None:
    limit = ReceiptLimit(0, per_user=2, per_address=5)
    assert [limit.takes("p", "victim", "192.0.2.66", NOW) for _ in range(3)] == [True, True, False]
    assert limit.takes("p", "victim", "192.0.2.1", NOW)


def test_an_address_has_a_limit_of_its_own_and_a_new_minute_begins_anew() -> None:
    limit = ReceiptLimit(0, per_user=2, per_address=3)
    assert [limit.takes("p", f"user{number}", "192.0.2.1", NOW) for number in range(4)] == [True, True, True, False]
    assert limit.takes("p", "user9", "192.0.2.1", NOW + MINUTE)


def test_what_nobody_has_verified_has_a_budget_for_each_app_and_address_and_day() -> None:
    limit = ReceiptLimit(unverified_bytes=10_000)
    here = ("app", "192.0.2.1")
    assert [limit.keeps(*here, 4_000, NOW) for _ in range(3)] == [True, True, False]
    # What does not fit counts nothing.
    assert not limit.keeps(*here, 4_000, NOW)
    assert limit.keeps("app", "192.0.2.2", 4_000, NOW)
    assert limit.keeps("other", "192.0.2.1", 4_000, NOW)
    limit.verified(*here, 4_000, NOW)
    assert [limit.keeps(*here, 4_000, NOW) for _ in range(2)] == [True, False]
    assert limit.keeps(*here, 4_000, NOW + DAY)
