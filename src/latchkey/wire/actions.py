"""V2: response bodies of the endpoints other than the two customer reads."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from latchkey.wire.v2 import Customer


class EventReference(Struct, frozen=True, kw_only=True):
    id: str
    type: str


class TestStoreResult(Struct, frozen=True, kw_only=True):
    """The events that a test-store action caused."""

    __test__ = False  # pytest would collect it because of its name

    events: list[EventReference]
    customer: Customer


class TestClock(Struct, frozen=True, kw_only=True):
    __test__ = False

    object: Literal["test_clock"] = "test_clock"
    id: str
    project_id: str
    name: str
    now_ms: int
    created_at: int


class TestClockAdvanced(TestClock, frozen=True, kw_only=True):
    """The clock's new time, and how many events fell due on the way."""

    events_count: int


class Deleted(Struct, frozen=True, kw_only=True):
    object: str
    id: str
    deleted_at: int


class Transferred(Struct, frozen=True, kw_only=True):
    source_customer: Customer
    target_customer: Customer


class Alias(Struct, frozen=True, kw_only=True):
    object: Literal["customer.alias"] = "customer.alias"
    id: str
    created_at: int


class CurrencyBalance(Struct, frozen=True, kw_only=True):
    object: Literal["virtual_currency_balance"] = "virtual_currency_balance"
    currency_code: str
    balance: int
    name: str
    description: str


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a customer has, or lacks, an entitlement."""

    object: Literal["entitlement_explanation"] = "entitlement_explanation"
    customer_id: str
    entitlement_id: str
    has_access: bool
    reason: str
    since: int | None
    until: int | None
    product_id: str | None
    store: str | None
    transaction_id: str | None
    renews: bool | None
    granting_products: list[str]
    would_change: list[str]
    sentence: str


class V1Deleted(Struct, frozen=True, kw_only=True):
    app_user_id: str
    deleted: bool


class V1Currency(Struct, frozen=True, kw_only=True):
    balance: int
    code: str
    name: str
    description: str


class V1Currencies(Struct, frozen=True, kw_only=True):
    virtual_currencies: dict[str, V1Currency]
