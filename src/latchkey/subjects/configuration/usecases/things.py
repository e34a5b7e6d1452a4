"""The things of a project: loaded in the form of the file, saved and deleted with the use cases of their subjects."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import json

from latchkey.database.pool import Database
from latchkey.domain.catalog import Credit, Eligibility, Offering, Offerings, ProductType
from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Invalid, NotFound, Refusal, found
from latchkey.domain.stores.store import store_of
from latchkey.engine.storage.catalog.catalogs import load_offerings
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.catalog.usecases import entitlement_catalog, product_catalog
from latchkey.subjects.configuration.rules import Names, Secret, Things, revealed
from latchkey.subjects.currencies import usecases as currencies
from latchkey.subjects.experiments import usecases as experiments
from latchkey.subjects.offerings import usecases as offerings
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.targeting import usecases as targeting
from latchkey.subjects.webhooks.delivery.destination import DestinationSetup, presets
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.usecases.registry import Registry

Fields = dict[str, Any]

# What a new thing must have.
NEEDED = {
    "apps": ("name", "store"),
    "products": ("type", "price", "currency"),
    "targeting_rules": ("offering",),
    "experiments": ("name", "variants"),
}
_DETAILS: dict[str | None, tuple[str, ...]] = {
    "bundle": ("bundle_id",),
    "package": ("package_name",),
    "stripe_account": ("stripe_account_id", "deep_link"),
    "web_billing": ("app_name", "stripe_account_id", "support_email", "default_currency", "deep_link"),
    "paddle_account": ("paddle_is_sandbox",),
}


@dataclass(frozen=True, slots=True)
class Desk:
    """A project in one transaction."""

    database: Database
    webhooks: Registry
    project_id: str
    now: Ms

    def run(self, usecase: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Awaitable[Any]:
        return usecase(self.database, self.project_id, *arguments, **named)

    async def offerings(self) -> Offerings:
        async with self.database.acquire() as connection:
            return await load_offerings(connection, self.project_id)

    async def offering(self, key: str, param: str = "offering") -> Offering:
        known = {one.lookup_key: one for one in (await self.offerings()).offerings}
        return found(known.get(key), f"There is no offering {key!r} in the file or in the project.", param)

    async def offering_id(self, key: str | None, param: str = "offering") -> str | None:
        return None if key is None else (await self.offering(key, param)).id

    async def webhooks_by_name(self) -> dict[str, Webhook]:
        """Where several have the same name, the id is added to it."""
        listed: list[Webhook] = []
        while page := await self.webhooks.page(self.project_id, listed[-1].id if listed else None, 100):
            listed += page
        names = [one.name for one in listed]
        return {one.name if names.count(one.name) == 1 else f"{one.name} ({one.id})": one for one in listed}


async def load(at: Desk) -> Things:
    """In the order in which they can be saved: later things refer to earlier ones."""
    things: Things = {}
    for app in await at.run(projects.list_apps, limit=None):
        details = {field: app.details.get(field) for field in _DETAILS.get(store_of(app.store).app_details, ())}
        things["apps", app.id] = {"name": app.name, "store": app.store, **details}
    for currency in await at.run(currencies.list_currencies, limit=None):
        things["currencies", currency.code] = {"name": currency.name, "description": currency.description}
    for entitlement in await at.run(entitlement_catalog.list_entitlements, limit=None):
        things["entitlements", entitlement.id] = {"display_name": entitlement.display_name}
    products = await at.run(product_catalog.list_products, limit=None)
    for product in products:
        credits = product.credits
        things["products", product.id] = {
            "display_name": product.display_name,
            "type": (product.type or ProductType(product.kind)).value,
            "price": product.price.amount,
            "currency": product.price.currency,
            "duration": str(product.duration) if product.duration is not None else None,
            "trial_duration": str(product.trial) if product.trial is not None else None,
            "credits": {"code": credits.code, "amount": credits.amount} if credits is not None else None,
            "app_ids": sorted(product.apps),
            "entitlement_ids": sorted(product.grants),
        }
        for price in await at.run(product_catalog.list_prices, product.id):
            things["products", product.id, "prices", price.id] = {"price": price.price.amount}
    await _load_offerings(at, things, {product.id for product in products})
    for name, webhook in (await at.webhooks_by_name()).items():
        things["webhooks", name] = _address(webhook) | {
            "environment": webhook.environment,
            "event_types": list(webhook.event_types),
            "app_id": webhook.app_id,
            "retry_schedule_seconds": list(webhook.retry_seconds),
            "in_flight_limit": webhook.in_flight_limit,
            "enabled": webhook.enabled and webhook.health.paused_at is None,
        }
    return things


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


async def _load_offerings(at: Desk, things: Things, on_sale: set[str]) -> None:
    shop = await at.offerings()
    keys: dict[str | None, str] = {one.id: one.lookup_key for one in shop.offerings}
    for offering in shop.offerings:
        things["offerings", offering.lookup_key] = {
            "display_name": offering.display_name,
            "is_current": offering.is_current,
            "metadata": offering.metadata,
        }
        for position, package in enumerate(offering.packages, 1):
            products = [[one.product_id, one.eligibility.value] for one in package.products]
            things["offerings", offering.lookup_key, "packages", package.lookup_key] = {
                "display_name": package.display_name,
                "products": [pair for pair in products if pair[0] in on_sale],
                "position": position,
            }
    for placement in shop.placements:
        things["placements", placement.id] = {
            "display_name": placement.display_name,
            "offering": keys.get(placement.offering_id),
            "is_fallback": placement.is_fallback,
        }
    for position, rule in enumerate(shop.targeting, 1):
        things["targeting_rules", rule.id] = {
            "name": rule.name,
            "offering": keys[rule.offering_id],
            "conditions": dict(rule.conditions),
            "is_active": rule.is_active,
            "position": position,
        }
    for experiment in await at.run(experiments.list_experiments, limit=None):
        variants = {
            one.id: {"weight": one.weight, "offering": keys.get(one.offering_id)} for one in experiment.variants
        }
        things["experiments", experiment.id] = {"name": experiment.name, "variants": variants}


async def save(at: Desk, names: Names, fields: Fields, before: Fields | None) -> None:
    """Creates a thing, or changes the given fields of it."""
    new = before is None
    match names:
        case "apps", id:
            await _save_app(at, id, fields, before)
        case "currencies", code if new:
            named = fields.get("name", code), fields.get("description", "")
            await at.run(currencies.create_currency, code, *named, at.now)
        case "currencies", code:
            await at.run(currencies.update_currency, code, **fields)
        case "entitlements", id if new:
            await at.run(entitlement_catalog.create_entitlement, id, fields.get("display_name", id), at.now)
        case "entitlements", id:
            await at.run(entitlement_catalog.rename_entitlement, id, fields["display_name"])
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
                name, metadata = fields.get("display_name", key), fields.get("metadata")
                await at.run(offerings.create_offering, key, name, metadata, at.now)
            await at.run(offerings.update_offering, (await at.offering(key)).id, fields)
        case "offerings", key, _, package:
            await _save_package(at, key, package, fields, before)
        case "placements", id:
            chosen = {field: value for field, value in fields.items() if field != "offering"}
            if "offering" in fields:
                chosen["offering_id"] = await at.offering_id(fields["offering"])
            if new:
                await at.run(offerings.create_placement, id, chosen.pop("display_name", None), None, now=at.now)
            await at.run(offerings.update_placement, id, chosen)
        case "targeting_rules", id:
            await _save_rule(at, id, fields, new=new)
        case "experiments", id:
            await _save_experiment(at, id, fields, before)
        case "webhooks", name if new:
            await at.webhooks.create(at.project_id, {"name": checked_name(name), **revealed(fields)}, at.now)
        case "webhooks", name:
            id = (await at.webhooks_by_name())[name].id
            await at.webhooks.update(at.project_id, id, revealed(fields), at.now)


async def _save_app(at: Desk, id: str, fields: Fields, before: Fields | None) -> None:
    store = fields["store"] if before is None else before["store"]
    if fields.get("store", store) != store:
        raise Refusal(f"The app is in {store}, and an app stays in its store. Create another app.", param="store")
    details = {field: value for field, value in fields.items() if field not in ("name", "store")}
    for field in details:
        if field not in _DETAILS.get(store_of(store).app_details, ()):
            raise Refusal(f"An app in {store} has no such field.", param=field)
    if before is None:
        named = fields["name"], store, at.now
        app = await at.run(projects.create_app, *named, app_id=checked_id(id), details=details)
        await at.run(api_keys.create_public_key, app.id, app.name, at.now)
        return
    for field in details.keys() & {"bundle_id", "package_name"}:
        if before[field] is not None and details[field] != before[field]:
            message = "It is part of the app's credentials. Change it with `latchkey app`, or in the dashboard."
            raise Refusal(message, param=field)
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
        await at.run(product_catalog.update_product, id, terms)
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
    offering = await at.offering(offering_key)
    package = next((one for one in offering.packages if one.lookup_key == key), None)
    if package is None:
        name = fields.get("display_name", key)
        package = await at.run(offerings.create_package, offering.id, key, name, now=at.now)
    elif "display_name" in fields:
        await at.run(offerings.update_package, package.id, display_name=fields["display_name"])
    assert package is not None
    wanted = {product_id: Eligibility(criteria) for product_id, criteria in fields.get("products", ())}
    if "products" in fields and fields["products"] != (before or {}).get("products", []):
        # All of them anew, because their order counts.
        await at.run(offerings.detach_products, package.id, [one.product_id for one in package.products])
        await at.run(offerings.attach_products, package.id, wanted)


async def arrange_packages(at: Desk, orders: Mapping[str, Sequence[str]]) -> None:
    """By offering: its packages in this order, before those that the file does not name."""
    for offering in (await at.offerings()).offerings:
        ids = {one.lookup_key: one.id for one in offering.packages}
        there = list(ids)
        for place, name in enumerate(orders.get(offering.lookup_key, ())):
            if there[place] != name:
                await at.run(offerings.update_package, ids[name], position=place + 1)
                there.remove(name)
                there.insert(place, name)


async def _save_rule(at: Desk, id: str, fields: Fields, *, new: bool) -> None:
    chosen = {field: value for field, value in fields.items() if field != "offering"}
    if "offering" in fields:
        chosen["offering_id"] = await at.offering_id(fields["offering"])
    try:
        if new:
            made = {"name": id, "conditions": {}} | chosen
            await at.run(targeting.create_rule, **made, rule_id=id, now=at.now)
        else:
            await at.run(targeting.update_rule, id, chosen)
    except Invalid as refusal:
        inside = refusal.param if refusal.param in fields else f"conditions.{refusal.param}"
        raise Invalid(refusal.message, param=inside) from None


async def arrange_rules(at: Desk, order: Sequence[str]) -> None:
    """In this order, before those that the file does not name."""
    there = [rule.id for rule in (await at.offerings()).targeting]
    for place, id in enumerate(order):
        if there[place] != id:
            await at.run(targeting.update_rule, id, {"position": place + 1})
            there.remove(id)
            there.insert(place, id)


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
        case "currencies", code:
            await at.run(currencies.delete_currency, code)
        case "entitlements", id:
            await at.run(entitlement_catalog.delete_entitlement, id)
        case "products", id:
            await at.run(product_catalog.delete_product, id, at.now)
        case "products", id, _, price:
            await at.run(product_catalog.delete_price, id, price)
        case "offerings", key:
            await at.run(offerings.delete_offering, (await at.offering(key)).id)
        case "offerings", key, _, name:
            [package] = [one for one in (await at.offering(key)).packages if one.lookup_key == name]
            await at.run(offerings.delete_package, package.id)
        case "placements", id:
            await at.run(offerings.delete_placement, id)
        case "targeting_rules", id:
            await at.run(targeting.delete_rule, id)
        case "experiments", _:
            raise Refusal("An experiment cannot be deleted.")
        case "webhooks", name:
            await at.webhooks.delete(at.project_id, (await at.webhooks_by_name())[name].id, at.now)
