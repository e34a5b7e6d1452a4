"""A project's catalog as purchases and reads need it, and what decides which offering a customer sees."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.catalog import Catalog, Former, Offerings, Package, PackageProduct
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import Ms
from latchkey.domain.money.pinned_rates import Tariff
from latchkey.domain.stores.store import TEST_STORE
from latchkey.engine.storage import state
from latchkey.engine.storage.catalog import offering_rows, product_rows
from latchkey.engine.storage.catalog.offering_rows import EXPERIMENTS, OFFERINGS, PLACEMENTS, TARGETING_RULES
from latchkey.engine.storage.catalog.rates import KnownRates, fees_of
from latchkey.engine.storage.records import last_seen_of


async def load_offerings(connection: Any, project_id: str) -> Offerings:
    stored = await OFFERINGS.page(connection, project_id)
    packed = await offering_rows.of_offerings(connection, project_id, [offering.id for offering in stored])
    ids = [package.id for packages in packed.values() for package in packages]
    attached = await offering_rows.products(connection, project_id, ids)

    def filled(package: Package) -> Package:
        sold = (PackageProduct(one.product.id, one.eligibility) for one in attached[package.id])
        return replace(package, products=tuple(sold))

    return Offerings(
        offerings=tuple(
            replace(offering, packages=tuple(filled(package) for package in packed[offering.id])) for offering in stored
        ),
        placements=tuple(await PLACEMENTS.page(connection, project_id)),
        targeting=tuple(await TARGETING_RULES.page(connection, project_id)),
        of_variants={
            (experiment.id, variant.id): variant.offering_id
            for experiment in await EXPERIMENTS.page(connection, project_id)
            for variant in experiment.variants
            if variant.offering_id is not None
        },
    )


_LOAD = query("load_catalog")


async def _load(connection: Any, project_id: str, row: Record) -> Catalog:
    known = await product_rows.page_products(connection, project_id, with_deleted=True)
    return Catalog(
        {product.id: product for product in known},
        frozenset(row["entitlements"]),
        former=_former(await connection.fetch(query("former_grants"), project_id)),
        closed_stores=frozenset() if row["test_store"] == "open" else frozenset({TEST_STORE}),
        offerings=await load_offerings(connection, project_id),
        tariff=Tariff(fees_of(row["fees"])),
        lists_prices=row["lists_prices"],
        sequence_floor=row["sequence_floor"],
        chart_attributes=tuple(row["chart_attributes"]),
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


async def announce(connection: Connection, project_id: str) -> bool:
    """Increments the version and locks the project's row until the transaction ends. False: there is no such
    project."""
    return await connection.execute(query("announce_catalog"), project_id) != "UPDATE 0"


async def load_version(connection: Connection, project_id: str) -> int | None:
    row = await connection.fetchrow(query("project_settings"), [project_id])
    return None if row is None else row["catalog_version"]


class OfferingChoice(Struct, frozen=True):
    """What decides which offering a customer sees."""

    catalog: Catalog
    # The id of the offering that was assigned to the customer.
    override: str | None = None
    # None: there is none, or nothing depends on it.
    customer: Customer | None = None
    last_seen: LastSeen | None = None
    # The time of the customer's test clock.
    clock_now: Ms | None = None

    @property
    def enrolled(self) -> tuple[tuple[str, str], ...]:
        """Experiments and variants, oldest first."""
        enrollments = self.customer.enrollments if self.customer is not None else ()
        return tuple((enrollment.experiment_id, enrollment.variant_id) for enrollment in enrollments)


async def load_offering_choice(
    connection: Connection, catalogs: Catalogs, project_id: str, app_user_id: str, *, whole: bool = False
) -> OfferingChoice:
    """The customer need not exist. `whole`: with the customer even if nothing depends on it."""
    row = await connection.fetchrow(query("offering_choice"), project_id, app_user_id)
    if row is None:
        return OfferingChoice(Catalog())
    return _choice(await catalogs.at(connection, project_id, row["catalog_version"]), row, whole)


async def load_offering_choices(
    connection: Connection, catalog: Catalog, project_id: str, keys: Sequence[int]
) -> list[OfferingChoice]:
    """Of the customers with these keys that still exist."""
    return [
        _choice(catalog, row, whole=False)
        for row in await connection.fetch(query("offering_choices"), project_id, keys)
    ]


def _choice(catalog: Catalog, row: Record, whole: bool) -> OfferingChoice:
    if row["state"] is None or not (whole or catalog.offerings.depend_on_customer):
        return OfferingChoice(catalog, row["offering_id"])
    return OfferingChoice(catalog, row["offering_id"], state.decode(row["state"]), last_seen_of(row), row["now_ms"])
