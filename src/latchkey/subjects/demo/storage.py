"""The catalog of the demo project, and the events of its history."""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, json
from msgspec.structs import replace

from latchkey.database.pool import Connection
from latchkey.database.sql import query
from latchkey.domain.catalog import Credit, Eligibility, Offering, Package, Placement, Product, ProductKind
from latchkey.domain.instants import Ms, parse_duration
from latchkey.domain.money.amounts import Price
from latchkey.engine.storage.catalog import currency_rows as currencies_storage
from latchkey.engine.storage.catalog import offering_rows as offerings_storage
from latchkey.engine.storage.catalog import product_rows as catalog_storage
from latchkey.wire.event import Event


def _product(id: str, name: str, micros: int, *grants: str, credits: Credit | None = None) -> Product:
    price = Price(micros, "USD")
    return Product(id=id, kind=ProductKind.ONE_TIME, price=price, display_name=name, grants=grants, credits=credits)


def _subscription(id: str, name: str, micros: int, lasts: str, *grants: str, trial: str | None = None) -> Product:
    return replace(
        _product(id, name, micros, *grants),
        kind=ProductKind.SUBSCRIPTION,
        duration=parse_duration(lasts),
        trial=parse_duration(trial) if trial else None,
    )


_ENTITLEMENTS: Final = {"pro": "Pro", "team": "Team"}
_PRODUCTS: Final = (
    _subscription("pro_monthly", "Pro, monthly", 9_990_000, "P1M", "pro", trial="P7D"),
    _subscription("pro_yearly", "Pro, yearly", 79_990_000, "P1Y", "pro"),
    _subscription("team_monthly", "Team, monthly", 29_990_000, "P1M", "pro", "team"),
    _product("pro_lifetime", "Pro, for ever", 199_990_000, "pro"),
    _product("coins_100", "100 coins", 1_990_000, credits=Credit("COIN", 100)),
)
# By lookup key. The first becomes the current one, unless the project has one.
_OFFERINGS: Final = {
    "default": ("Pro plans", {"headline": "Do more with Pro", "highlight": "$rc_annual"}),
    "team": ("Team plans", {"headline": "Pro for all of you"}),
    "coins": ("Coins", None),
}
# By id: the offering, the lookup key, the name and the product.
_PACKAGES: Final = {
    "pkge_demo_monthly": ("default", "$rc_monthly", "Monthly", "pro_monthly"),
    "pkge_demo_annual": ("default", "$rc_annual", "Yearly", "pro_yearly"),
    "pkge_demo_lifetime": ("default", "$rc_lifetime", "For ever", "pro_lifetime"),
    "pkge_demo_team": ("team", "$rc_monthly", "Team, monthly", "team_monthly"),
    "pkge_demo_coins": ("coins", "coins_100", "100 coins", "coins_100"),
}
_PLACEMENTS: Final = {
    "onboarding": ("At the first start", "default"),
    "team_settings": ("In the settings of a team", "team"),
}
# Subscriptions as Google Play sells them: each base plan is a product.
_BASE_PLANS: Final = {"pro_monthly": "monthly", "pro_yearly": "yearly", "team_monthly": "monthly"}


async def has_catalog(connection: Connection, project_id: str) -> bool:
    return bool(
        await catalog_storage.page_products(connection, project_id, limit=1, with_deleted=True)
        or await catalog_storage.ENTITLEMENTS.page(connection, project_id, None, 1)
    )


async def add_catalog(connection: Connection, project_id: str, now: Ms) -> None:
    """Existing entries stay as they are."""
    for id, name in _ENTITLEMENTS.items():
        await catalog_storage.create_entitlement(connection, project_id, catalog_storage.Entitlement(id, name, now))
    coins = currencies_storage.Currency("COIN", "Coins", "Spent inside the demo app", now)
    await currencies_storage.create(connection, project_id, coins)
    known = await catalog_storage.load_some_products(connection, project_id, [product.id for product in _PRODUCTS])
    for product in _PRODUCTS:
        if product.id not in known:
            await catalog_storage.save_product(connection, project_id, replace(product, created_at=now))
    for id in _ENTITLEMENTS:
        granting = [product.id for product in _PRODUCTS if id in product.grants]
        await catalog_storage.attach(connection, project_id, id, granting)
    is_first = not any(
        offering.is_current for offering in await offerings_storage.OFFERINGS.page(connection, project_id)
    )
    for place, (key, (name, metadata)) in enumerate(_OFFERINGS.items()):
        id = f"ofrng_demo_{key}"
        offering = Offering(
            id=id,
            lookup_key=key,
            display_name=name,
            metadata=metadata,
            is_current=is_first and key == "default",
            created_at=now + place,
        )
        if not await offerings_storage.create_offering(connection, project_id, offering):
            continue
        chosen = [(package_id, *rest) for package_id, (within, *rest) in _PACKAGES.items() if within == key]
        for position, (package_id, lookup_key, title, product_id) in enumerate(chosen, start=1):
            package = Package(lookup_key, (), package_id, id, title, position, now)
            await offerings_storage.create_package(connection, project_id, package)
            await offerings_storage.attach(connection, project_id, package_id, {product_id: Eligibility.ALL})
        for placement_id, (title, shows) in _PLACEMENTS.items():
            if shows == key:
                placement = Placement(id=placement_id, offering_id=id, display_name=title, created_at=now)
                await offerings_storage.create_placement(connection, project_id, placement)


async def add_base_plans(connection: Connection, project_id: str, app_id: str, now: Ms) -> None:
    """The demo's subscriptions as Google Play sells them, in this app alone."""
    for product_id, plan in _BASE_PLANS.items():
        like = await catalog_storage.load_product(connection, project_id, product_id)
        if like is None or not like.on_sale:
            continue
        id = f"{product_id}:{plan}"
        await catalog_storage.save_product(connection, project_id, replace(like, id=id, apps=(app_id,), created_at=now))
        for entitlement_id in like.grants:
            await catalog_storage.attach(connection, project_id, entitlement_id, [id])
        for package_id, (*_, packed) in _PACKAGES.items():
            if (
                packed == product_id
                and await offerings_storage.load_package(connection, project_id, package_id) is not None
            ):
                await offerings_storage.attach(connection, project_id, package_id, {id: Eligibility.ALL})


_ENCODER = json.Encoder()


async def add_events(connection: Connection, project_id: str, events: Sequence[tuple[int, Event]], now: Ms) -> None:
    """Adds them to the feed in this order, each with its customer's key. No webhook gets a delivery. Call it last in a
    transaction: it holds the feed's lock until the commit."""
    if not events:
        return
    await connection.execute(
        query("add_past_events"),
        project_id,
        now,
        [key for key, _ in events],
        [event.id for _, event in events],
        [event.sequence for _, event in events],
        [event.type for _, event in events],
        [event.environment for _, event in events],
        [None if event.app_id is UNSET else event.app_id for _, event in events],
        [event.event_timestamp_ms for _, event in events],
        [_ENCODER.encode(event) for _, event in events],
    )
