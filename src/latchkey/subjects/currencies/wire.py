"""Virtual currencies of V1 and V2."""

from typing import Literal

from msgspec import Struct

from latchkey.subjects.catalog.wire import ProductGrant


class VirtualCurrency(Struct, frozen=True, kw_only=True):
    object: Literal["virtual_currency"] = "virtual_currency"
    code: str
    project_id: str
    name: str
    description: str | None
    product_grants: list[ProductGrant]
    created_at: int


class CurrencyBalance(Struct, frozen=True, kw_only=True):
    object: Literal["virtual_currency_balance"] = "virtual_currency_balance"
    currency_code: str
    balance: int
    name: str
    description: str


class V1Currency(Struct, frozen=True, kw_only=True):
    balance: int
    code: str
    name: str
    description: str


class V1Currencies(Struct, frozen=True, kw_only=True):
    virtual_currencies: dict[str, V1Currency]
