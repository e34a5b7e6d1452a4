"""Customers of V2, and replies to what is done with them."""

from typing import Literal

from msgspec import Struct

from latchkey.wire.v2 import Customer


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
