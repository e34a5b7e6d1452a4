"""Catalogs, parsed once per version. The version is read with every request, so the cache is never stale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import Struct, json

from latchkey.domain.catalog import Catalog, Credit, Former, Product, ProductKind, ProductType
from latchkey.domain.instants import parse_duration
from latchkey.domain.money import Price
from latchkey.domain.stores.store import TEST_STORE
from latchkey.domain.tariff.pinning import Tariff
from latchkey.storage.catalog.shelf import offerings_of
from latchkey.storage.database import Connection
from latchkey.storage.money.fees import fees_of
from latchkey.storage.money.known_rates import KnownRates
from latchkey.storage.sql import query

_LOAD = query("load_catalog")


class _ProductRow(Struct):
    id: str
    display_name: str
    kind: ProductKind
    price_micros: int
    currency: str
    duration: str | None
    trial_duration: str | None
    credits_code: str | None
    credits_amount: int | None
    grants: list[str]
    on_sale: bool
    type: ProductType | None
    apps: list[str]

    def product(self) -> Product:
        return Product(
            id=self.id,
            display_name=self.display_name,
            kind=self.kind,
            price=Price(self.price_micros, self.currency),
            duration=parse_duration(self.duration) if self.duration else None,
            trial=parse_duration(self.trial_duration) if self.trial_duration else None,
            grants=tuple(self.grants),
            credits=Credit(self.credits_code, self.credits_amount)
            if self.credits_code and self.credits_amount
            else None,
            on_sale=self.on_sale,
            type=self.type,
            apps=frozenset(self.apps),
        )


class _FormerRow(Struct):
    product_id: str
    entitlement_id: str
    detached_at: int
    on_clocks: dict[str, int]


_ROWS = json.Decoder(list[_ProductRow])
_FORMER_ROWS = json.Decoder(list[_FormerRow])


def _former(rows: list[_FormerRow]) -> dict[str | None, dict[str, tuple[Former, ...]]]:
    """By the customer's test clock, and by product."""
    found: dict[str | None, dict[str, tuple[Former, ...]]] = {}
    for row in rows:
        for clock_id, at in ((None, row.detached_at), *row.on_clocks.items()):
            products = found.setdefault(clock_id, {})
            products[row.product_id] = (*products.get(row.product_id, ()), Former(row.entitlement_id, at))
    return found


class Catalogs:
    """The newest catalog of each project that this process has used."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Catalog]] = {}
        self._rates = KnownRates()

    async def priced(self, connection: Any, project_id: str, version: int, rates_version: int) -> Catalog:
        """The same with the exchange rates, for changes: reads convert nothing."""
        catalog = await self.at(connection, project_id, version)
        rates = await self._rates.at(connection, rates_version)
        if catalog.tariff.rates is rates:
            return catalog
        priced = replace(catalog, tariff=replace(catalog.tariff, rates=rates))
        known = self._known.get(project_id)
        if known is not None and known[1] is catalog:
            self._known[project_id] = known[0], priced
        return priced

    async def at(self, connection: Any, project_id: str, version: int) -> Catalog:
        """The catalog of a project, at least as new as `version`, which the caller has just read."""
        known = self._known.get(project_id)
        if known is not None and known[0] == version:
            return known[1]
        row = await connection.fetchrow(_LOAD, project_id)
        if row is None:
            return Catalog()
        products = (one.product() for one in _ROWS.decode(row["products"]))
        catalog = Catalog(
            {one.id: one for one in products},
            frozenset(row["entitlements"]),
            former=_former(_FORMER_ROWS.decode(row["former"])),
            closed_stores=frozenset() if row["test_store"] == "open" else frozenset({TEST_STORE}),
            offerings=offerings_of(row["offerings"], row["placements"], row["variants"]),
            tariff=Tariff(fees_of(row["fees"])),
            lists_prices=row["lists_prices"],
            sequence_floor=row["sequence_floor"],
            chart_attributes=tuple(row["chart_attributes"]),
        )
        if known is None or row["catalog_version"] > known[0]:
            self._known[project_id] = row["catalog_version"], catalog
        return catalog


_ANNOUNCE = query("announce_catalog")
_LOAD_VERSION = query("catalog_version")


async def announce(connection: Connection, project_id: str) -> bool:
    """Increments the version and locks the project's row until the transaction ends. False: there is no such
    project."""
    return await connection.execute(_ANNOUNCE, project_id) != "UPDATE 0"


async def load_version(connection: Connection, project_id: str) -> int | None:
    version: int | None = await connection.fetchval(_LOAD_VERSION, project_id)
    return version
