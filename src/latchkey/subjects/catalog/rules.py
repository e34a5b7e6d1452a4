from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.catalog import Credit, ProductKind, ProductType
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTerms:
    """The checked fields of a product that an operator sets."""

    display_name: str
    kind: ProductKind
    price: Price
    duration: str | None
    trial_duration: str | None
    credits: Credit | None
    # None: only the kind is known.
    type: ProductType


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(ProductTerms):
    id: str
    # The apps in which it is sold; empty means in every app. An app may have been deleted since.
    app_ids: tuple[str, ...]
    # The first of these that exists, else the project's oldest app. None: the project has no app.
    app_id: str | None
    entitlement_ids: tuple[str, ...]
    created_at: Ms
    # A deleted product is off sale; its owners keep it.
    deleted_at: Ms | None

    @property
    def on_sale(self) -> bool:
        return self.deleted_at is None


@dataclass(frozen=True, slots=True)
class Entitlement:
    id: str
    display_name: str
    created_at: Ms
