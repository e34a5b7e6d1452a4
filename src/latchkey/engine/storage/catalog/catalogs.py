"""A project's offerings, placements and variants, as part of its catalog."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from msgspec import json

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.catalog import Catalog, Former, Offering, Offerings, Package, PackageProduct, Placement, Product
from latchkey.domain.instants import parse_duration
from latchkey.domain.money.pinned_rates import Tariff
from latchkey.domain.stores.store import TEST_STORE
from latchkey.engine.storage.catalog import experiment_rows, offering_rows, product_rows
from latchkey.engine.storage.catalog.rates import KnownRates, fees_of


async def load_offerings(connection: Any, project_id: str) -> Offerings:
    stored = await offering_rows.page_offerings(connection, project_id, None, None)
    packed = await offering_rows.of_offerings(connection, project_id, [offering.id for offering in stored])
    ids = [package.id for found in packed.values() for package in found]
    attached = await offering_rows.products(connection, project_id, ids)

    def package_of(package: offering_rows.Package) -> Package:
        sold = (PackageProduct(one.product.id, one.eligibility) for one in attached[package.id])
        return Package(package.lookup_key, tuple(sold))

    return Offerings(
        offerings=tuple(
            Offering(
                id=offering.id,
                lookup_key=offering.lookup_key,
                display_name=offering.display_name,
                metadata=offering.metadata,
                is_current=offering.is_current,
                packages=tuple(package_of(package) for package in packed[offering.id]),
            )
            for offering in stored
        ),
        placements=tuple(
            Placement(id=placement.id, offering_id=placement.offering_id, is_fallback=placement.is_fallback)
            for placement in await offering_rows.page_placements(connection, project_id, None, None)
        ),
        of_variants={
            (experiment.id, variant.id): variant.offering_id
            for experiment in await experiment_rows.page(connection, project_id, None, None)
            for variant in experiment.variants
            if variant.offering_id is not None
        },
    )


_LOAD = query("load_catalog")
_FORMER = query("former_grants")


async def _load(connection: Any, project_id: str, row: Record) -> Catalog:
    known = await product_rows.page_products(connection, project_id, with_deleted=True)
    return Catalog(
        {product.id: _product(product) for product in known},
        frozenset(row["entitlements"]),
        former=_former(await connection.fetch(_FORMER, project_id)),
        closed_stores=frozenset() if row["test_store"] == "open" else frozenset({TEST_STORE}),
        offerings=await load_offerings(connection, project_id),
        tariff=Tariff(fees_of(row["fees"])),
        lists_prices=row["lists_prices"],
        sequence_floor=row["sequence_floor"],
        chart_attributes=tuple(row["chart_attributes"]),
    )


def _product(stored: product_rows.Product) -> Product:
    return Product(
        id=stored.id,
        display_name=stored.display_name,
        kind=stored.kind,
        price=stored.price,
        duration=parse_duration(stored.duration) if stored.duration else None,
        trial=parse_duration(stored.trial_duration) if stored.trial_duration else None,
        grants=stored.entitlement_ids,
        credits=stored.credits,
        on_sale=stored.on_sale,
        type=stored.type,
        apps=frozenset(stored.app_ids),
    )


def _former(rows: Iterable[Record]) -> dict[str | None, dict[str, tuple[Former, ...]]]:
    """By the customer's test clock, and by product."""
    found: dict[str | None, dict[str, tuple[Former, ...]]] = {}
    for row in rows:
        on_clocks = json.decode(row["detached_on_clocks"], type=dict[str, int])
        for clock_id, at in ((None, row["detached_at"]), *on_clocks.items()):
            of_clock = found.setdefault(clock_id, {})
            of_clock[row["product_id"]] = (*of_clock.get(row["product_id"], ()), Former(row["entitlement_id"], at))
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
        while row is not None:
            catalog = await _load(connection, project_id, row)
            before, row = row, await connection.fetchrow(_LOAD, project_id)
            # Otherwise it was changed meanwhile, and has something of two versions.
            if row is not None and row["catalog_version"] == before["catalog_version"]:
                break
        else:
            return Catalog()
        if known is None or row["catalog_version"] > known[0]:
            self._known[project_id] = row["catalog_version"], catalog
        return catalog


_ANNOUNCE = query("announce_catalog")
_SETTINGS = query("project_settings")


async def announce(connection: Connection, project_id: str) -> bool:
    """Increments the version and locks the project's row until the transaction ends. False: there is no such
    project."""
    return await connection.execute(_ANNOUNCE, project_id) != "UPDATE 0"


async def load_version(connection: Connection, project_id: str) -> int | None:
    row = await connection.fetchrow(_SETTINGS, [project_id])
    return None if row is None else row["catalog_version"]
