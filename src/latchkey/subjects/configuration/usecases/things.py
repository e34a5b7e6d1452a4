"""The things of a project: loaded in the form of the file, saved and deleted with the use cases of their subjects."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import json, structs

from latchkey.database.pool import Database
from latchkey.domain.catalog import Credit, Eligibility, Offerings, ProductType
from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Invalid, NotFound, Refusal, found
from latchkey.domain.stores.store import store_of
from latchkey.engine.storage.catalog.catalogs import load_offerings
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog
from latchkey.subjects.configuration.rules import INNER, Names, Secret, Things, shown, webhook_names
from latchkey.subjects.configuration.usecases.document import SECTIONS
from latchkey.subjects.currencies import usecases as currencies
from latchkey.subjects.experiments import usecases as experiments
from latchkey.subjects.offerings import usecases as offerings
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.projects.wire import DETAILS
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.subjects.targeting import usecases as targeting
from latchkey.subjects.webhooks.delivery.destination import DestinationSetup, presets
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.usecases.registry import Registry

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Desk:
    """A project in one transaction."""

    database: Database
    webhooks: Registry
    project_id: str
    now: Ms
    # By lookup key; by name in the file, which stays the same whatever is created and deleted.
    offering_ids: dict[str, str] = field(default_factory=dict)
    webhook_ids: dict[str, str] = field(default_factory=dict)

    def run(self, usecase: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Awaitable[Any]:
        return usecase(self.database, self.project_id, *arguments, **named)

    async def offerings(self) -> Offerings:
        async with self.database.acquire() as connection:
            return await load_offerings(connection, self.project_id)

    async def offering_id(self, key: str | None, param: str = "offering") -> str | None:
        if key is not None and key not in self.offering_ids:
            known = await self.run(offerings.list_offerings, limit=None)
            self.offering_ids.update({one.lookup_key: one.id for one in known})
            found(self.offering_ids.get(key), f"There is no offering {key!r} in the file or in the project.", param)
        return None if key is None else self.offering_ids[key]

    async def package(self, offering: str, key: str) -> Any:
        listed = await self.run(offerings.list_packages, await self.offering_id(offering))
        return next(one for one in listed if one.lookup_key == key)

    async def webhooks_by_name(self, asked: Iterable[str]) -> dict[str, Webhook]:
        """Without those that others create meanwhile."""
        listed = {one.id: one for one in await self.webhooks.page(self.project_id, None, None)}
        if not self.webhook_ids:
            self.webhook_ids.update(webhook_names({id: one.name for id, one in listed.items()}, asked))
        return {name: listed[id] for name, id in self.webhook_ids.items() if id in listed}


async def load(at: Desk, asked: Iterable[str] = ()) -> Things:
    """In the order in which they can be saved: later things refer to earlier ones. `asked`: webhooks of the file."""
    things: Things = {}

    def add(section: str, id: str, item: object, **others: Any) -> None:
        """The fields of the section in their order: of the item, if they are not given."""
        names = [field for field in SECTIONS[section]["fields"] if field != INNER.get(section)]
        fields = {field: getattr(item, field) for field in names if hasattr(item, field)} | others
        things[section, id] = {field: fields[field] for field in names if field in fields}

    apps = await at.run(projects.list_apps, limit=None)
    connected = await at.run(store_connections.load_shown, [app.id for app in apps])
    for app in apps:
        known = {**app.details, **connected.get(app.id, {})}
        add("apps", app.id, app, **{field: known.get(field) for field in _details(app.store)})
    for currency in await at.run(currencies.list_currencies, limit=None):
        add("currencies", currency.code, currency)
    for entitlement in await at.run(entitlement_catalog.list_entitlements, limit=None):
        add("entitlements", entitlement.id, entitlement)
    products = await at.run(product_catalog.list_products, limit=None)
    for product in products:
        terms = structs.asdict(product_catalog.terms_of(product))
        others = {"app_ids": sorted(product.apps), "entitlement_ids": sorted(product.grants)}
        credits = None if product.credits is None else structs.asdict(product.credits)
        type = (product.type or ProductType(product.kind)).value
        add("products", product.id, None, **terms | others | {"type": type, "credits": credits})
        for price in await at.run(product_catalog.list_prices, product.id):
            things["products", product.id, "prices", price.id] = {"price": price.price.amount}
    shop, on_sale = await at.offerings(), {product.id for product in products}
    keys: dict[str | None, str] = {one.id: one.lookup_key for one in shop.offerings}
    for offering in shop.offerings:
        add("offerings", offering.lookup_key, offering)
        for position, package in enumerate(offering.packages, 1):
            sold = [[one.product_id, one.eligibility.value] for one in package.products if one.product_id in on_sale]
            fields = {"display_name": package.display_name, "products": sold, "position": position}
            things["offerings", offering.lookup_key, "packages", package.lookup_key] = fields
    for placement in shop.placements:
        add("placements", placement.id, placement, offering=keys.get(placement.offering_id))
    for position, rule in enumerate(shop.targeting, 1):
        add("targeting_rules", rule.id, rule, offering=keys[rule.offering_id])
        things["targeting_rules", rule.id]["position"] = position
    for experiment in await at.run(experiments.list_experiments, limit=None):
        of = {one.id: {"weight": one.weight, "offering": keys.get(one.offering_id)} for one in experiment.variants}
        add("experiments", experiment.id, experiment, variants=of)
    for name, webhook in (await at.webhooks_by_name(asked)).items():
        things["webhooks", name] = _address(webhook) | {
            "environment": webhook.environment,
            "event_types": list(webhook.event_types),
            "app_id": webhook.app_id,
            "retry_schedule_seconds": list(webhook.retry_seconds),
            "in_flight_limit": webhook.in_flight_limit,
            "enabled": webhook.enabled and webhook.health.paused_at is None,
        }
    return things


def _details(store: str) -> set[str]:
    """The fields that an app in this store has."""
    shape = DETAILS.get(store_of(store).app_details)
    return set(shape.__struct_fields__) & SECTIONS["apps"]["fields"].keys() if shape is not None else set()


def _address(webhook: Webhook) -> Fields:
    """Where it sends what: to a URL, or to a destination by a preset."""
    if webhook.destination is None:
        header = None if webhook.authorization is None else Secret(webhook.authorization)
        return {"url": webhook.url, "authorization_header": header, "dialect": str(webhook.dialect)}
    setup, secret = json.decode(webhook.destination, type=DestinationSetup), secret_settings()
    hidden = secret.get(setup.preset, ())
    settings = {name: Secret(value) if name in hidden else value for name, value in setup.settings.items()}
    template = {} if setup.template is None else {"template": setup.template}
    return {"destination": {"preset": setup.preset, "settings": settings, **template}}


def secret_settings() -> dict[str, set[str]]:
    """By preset."""
    return {name: {field.name for field in preset.fields if field.is_secret} for name, preset in presets().items()}


# By section: how to create, change and delete a thing, where that needs only its name and its fields.
_USECASES: dict[str, tuple[Callable[..., Awaitable[Any]], ...]] = {
    "currencies": (currencies.create_currency, currencies.update_currency, currencies.delete_currency),
    "entitlements": (
        entitlement_catalog.create_entitlement,
        entitlement_catalog.rename_entitlement,
        entitlement_catalog.delete_entitlement,
    ),
    "placements": (offerings.create_placement, offerings.update_placement, offerings.delete_placement),
    "targeting_rules": (targeting.create_rule, targeting.update_rule, targeting.delete_rule),
}


async def save(at: Desk, names: Names, fields: Fields, before: Fields | None) -> None:
    """Creates a thing, or changes the given fields of it."""
    new = before is None
    match names:
        case "apps", id:
            await _save_app(at, id, fields, before)
        case "products", id:
            await _save_product(at, id, fields, new=new)
        case "products", id, _, price:
            parts = price.split(".")
            if len(parts) != 3:
                raise Refusal("A price is named `store.country.currency`, with `-` for any: `-.DE.EUR`.")
            store, country = (None if part == "-" else part for part in parts[:2])
            await at.run(product_catalog.set_price, id, fields["price"], parts[2], store, country)
        case "offerings", key:
            if new:
                named = {field: fields[field] for field in ("display_name", "metadata") if field in fields}
                await at.run(offerings.create_offering, key, **named, now=at.now)
            await at.run(offerings.update_offering, await at.offering_id(key), **fields)
        case "offerings", key, _, package:
            await _save_package(at, key, package, fields, before)
        case "experiments", id:
            await _save_experiment(at, id, fields, before)
        case "webhooks", name if new:
            made = await at.webhooks.create(at.project_id, {"name": checked_name(name), **shown(fields, str)}, at.now)
            at.webhook_ids[name] = made.id
        case "webhooks", name:
            await at.webhooks.update(at.project_id, at.webhook_ids[name], shown(fields, str), at.now)
        case section, id:
            create, update, _ = _USECASES[section]
            chosen = {field: value for field, value in fields.items() if field != "offering"}
            if "offering" in fields:
                chosen["offering_id"] = await at.offering_id(fields["offering"])
            try:
                await (at.run(create, id, **chosen, now=at.now) if new else at.run(update, id, **chosen))
            except Invalid as refusal:
                if section != "targeting_rules" or refusal.param in fields:
                    raise
                raise Invalid(refusal.message, param=f"conditions.{refusal.param}") from None


async def _save_app(at: Desk, id: str, fields: Fields, before: Fields | None) -> None:
    store = fields["store"] if before is None else before["store"]
    if fields.get("store", store) != store:
        raise Refusal(f"The app is in {store}, and an app stays in its store. Create another app.", param="store")
    details = {field: value for field, value in fields.items() if field not in ("name", "store")}
    if unknown := details.keys() - _details(store):
        raise Refusal(f"An app in {store} has no such field.", param=min(unknown))
    if before is None:
        named = fields["name"], store, at.now
        app = await at.run(projects.create_app, *named, app_id=checked_id(id), details=details)
        await at.run(api_keys.create_public_key, app.id, app.name, at.now)
        return
    for name in details.keys() & {"bundle_id", "package_name"}:
        if before[name] is not None and details[name] != before[name]:
            message = "It is part of the app's credentials. Change it with `latchkey app`, or in the dashboard."
            raise Refusal(message, param=name)
    await at.run(projects.update_app, id, name=fields.get("name"), details=details)


async def _save_product(at: Desk, id: str, fields: Fields, *, new: bool) -> None:
    terms = {field: value for field, value in fields.items() if field != "entitlement_ids"}
    if terms.get("credits") is not None:
        terms["credits"] = Credit(**terms["credits"])
    if "app_ids" in terms:
        terms["app_ids"] = tuple(terms["app_ids"])
    if "type" in terms:
        terms["type"] = ProductType(terms["type"])
    if "duration" in terms:
        terms["store_decides_duration"] = terms["duration"] is None
    if new:
        made = product_catalog.ProductTerms(kind=terms["type"].kind, **terms)
        await at.run(product_catalog.create_product, id, made, at.now)
    elif terms:
        await at.run(product_catalog.update_product, id, **terms)
    granted = set((await at.run(product_catalog.load_product, id)).grants)
    wanted = set(fields.get("entitlement_ids", granted))
    for entitlement_id in sorted(wanted - granted):
        try:
            await at.run(entitlement_catalog.attach_products, entitlement_id, [id])
        except NotFound as missing:
            raise NotFound(missing.message, param="entitlement_ids") from None
    for entitlement_id in sorted(granted - wanted):
        await at.run(entitlement_catalog.detach_products, entitlement_id, [id], at.now)


async def _save_package(at: Desk, offering_key: str, key: str, fields: Fields, before: Fields | None) -> None:
    if before is None:
        named = await at.offering_id(offering_key), key, fields.get("display_name", key)
        package = await at.run(offerings.create_package, *named, now=at.now)
    else:
        package = await at.package(offering_key, key)
        await at.run(offerings.update_package, package.id, display_name=fields.get("display_name"))
    wanted = {product_id: Eligibility(criteria) for product_id, criteria in fields.get("products", ())}
    if "products" in fields and fields["products"] != (before or {}).get("products", []):
        if before is not None:
            # All of them anew, because their order counts.
            there = await at.run(offerings.list_products, package.id)
            await at.run(offerings.detach_products, package.id, [one.product.id for one in there])
        await at.run(offerings.attach_products, package.id, wanted)


async def arrange(at: Desk, wanted: Things) -> None:
    """Rules and the packages of each offering in the order of the file, before those that it does not name."""
    orders: dict[Names, list[str]] = {}
    for *place, name in wanted:
        orders.setdefault(tuple(place), []).append(name)
    shop = await at.offerings()
    rules = {rule.id: rule.id for rule in shop.targeting}
    await _arrange(at, rules, orders.get(("targeting_rules",), ()), targeting.update_rule)
    for offering in shop.offerings:
        packages = {one.lookup_key: one.id for one in offering.packages}
        order = orders.get(("offerings", offering.lookup_key, "packages"), ())
        await _arrange(at, packages, order, offerings.update_package)


async def _arrange(
    at: Desk, ids: Mapping[str, str], order: Sequence[str], update: Callable[..., Awaitable[Any]]
) -> None:
    there = list(ids)
    for place, name in enumerate(order):
        if there[place] != name:
            await at.run(update, ids[name], position=place + 1)
            there.remove(name)
            there.insert(place, name)


async def _save_experiment(at: Desk, id: str, fields: Fields, before: Fields | None) -> None:
    variants: dict[str, Fields] = fields.get("variants", {})
    chosen = {
        variant: await at.offering_id(entry["offering"], f"variants.{variant}.offering")
        for variant, entry in variants.items()
        if "offering" in entry
    }
    if before is None:
        made = [Variant(variant, entry.get("weight", 1), chosen.get(variant)) for variant, entry in variants.items()]
        await at.run(experiments.create_experiment, fields["name"], made, at.now, experiment_id=id)
        return
    known = {variant: entry["weight"] for variant, entry in before["variants"].items()}
    same = all(entry.get("weight", known.get(variant)) == known.get(variant) for variant, entry in variants.items())
    if not same or fields.get("name", before["name"]) != before["name"]:
        message = "Of an experiment only the offerings of its variants can be changed. Create another one."
        raise Refusal(message, param="name" if same else "variants")
    await at.run(experiments.set_offerings, id, chosen)


async def delete(at: Desk, names: Names) -> None:
    match names:
        case "apps", id:
            await at.run(projects.delete_app, id)
        case "products", id:
            await at.run(product_catalog.delete_product, id, at.now)
        case "products", id, _, price:
            await at.run(product_catalog.delete_price, id, price)
        case "offerings", key:
            await at.run(offerings.delete_offering, await at.offering_id(key))
        case "offerings", key, _, name:
            await at.run(offerings.delete_package, (await at.package(key, name)).id)
        case "experiments", _:
            raise Refusal("An experiment cannot be deleted.")
        case "webhooks", name:
            await at.webhooks.delete(at.project_id, at.webhook_ids[name], at.now)
        case section, id:
            await at.run(_USECASES[section][2], id)
