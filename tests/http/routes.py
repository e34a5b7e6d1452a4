"""Every route of the OpenAPI document, with a path and a body that it accepts, so that tests can cover all of them."""

from dataclasses import dataclass
from typing import Any

from latchkey.process.http_application import routes
from tests.http.client import DAY, NOW, Shop
from tests.http.management import get, post

# A value for each path parameter. `settle` creates what is missing in the demo.
NAMES = {
    "project_id": "proj_demo",
    "app_user_id": "ada",
    "customer_id": "ada",
    "entitlement_id": "pro",
    "product_id": "pro_monthly",
    "app_id": "app_demo",
    "offering_id": "ofrng_demo_default",
    "package_id": "pkge_demo_monthly",
    "placement_id": "onboarding",
    "currency_code": "COIN",
    "price_id": "-.DE.EUR",
    "code": "COIN",
    "chart_name": "mrr",
}

# A body that each route accepts; a route that is not listed takes none.
BODIES: dict[str, Any] = {
    "POST /v1/receipts": {"app_user_id": "ada", "fetch_token": "test_1_a", "product_id": "pro_monthly"},
    "POST /v1/subscribers/identify": {"app_user_id": "ada", "new_app_user_id": "bob"},
    "POST /v1/subscribers/redeem_purchase": {"redemption_token": "of another service", "app_user_id": "ada"},
    "POST /v1/subscribers/{app_user_id}/attributes": {"attributes": {"plan": {"value": "x", "updated_at_ms": NOW}}},
    "POST /v1/subscribers/{app_user_id}/entitlements/{entitlement_id}/promotional": {"duration": "daily"},
    "POST /v1/subscribers/{app_user_id}/subscriptions/{product_id}/defer": {"extend_by_days": 1},
    "POST /v1/subscribers/{app_user_id}/subscriptions/{transaction_id}/extend": {
        "extend_by_days": 1,
        "extend_reason_code": 3,
    },
    "POST /v1/subscribers/{app_user_id}/alias": {"new_app_user_id": "ada"},
    "POST /v1/subscribers/{app_user_id}/restore/eligibility": {"fetch_token": "test_1_a"},
    "POST /v1/subscribers/{app_user_id}/intro_eligibility": {"product_identifiers": ["pro_monthly"]},
    "POST /v1/subscribers/{app_user_id}/attribution": {"data": {"rc_idfa": "x"}, "network": "1"},
    "POST /v1/subscribers/{app_user_id}/adservices_attribution": {"aad_attribution_token": "x"},
    "POST /v1/offers": {"app_user_id": "ada", "generate_offers": [{"offer_id": "half", "product_id": "pro_monthly"}]},
    "POST /v1/config/{domain}": {"fetch_context": "app_start", "prefetched_blobs": []},
    "POST /v1/events": {"events": []},
    "POST /v1/diagnostics": {"entries": []},
    "POST /rcbilling/v1/checkout/prepare": {"product_id": "pro_monthly", "price_id": "price_pro_monthly"},
    "POST /rcbilling/v1/checkout/start": {"app_user_id": "ada", "product_id": "pro_monthly"},
    "PATCH /rcbilling/v1/checkout/{operation_session_id}": {"country_code": "DE"},
    "POST /rcbilling/v1/checkout/{operation_session_id}/complete": {"email": "ada@example.com"},
    "POST /customers": {"id": "carol"},
    "POST /customers/{customer_id}/attributes": {"attributes": [{"name": "plan", "value": "x"}]},
    "POST /customers/{customer_id}/actions/transfer": {"target_customer_id": "bob"},
    "POST /customers/{customer_id}/actions/grant_entitlement": {"entitlement_id": "pro", "expires_at": NOW + DAY},
    "POST /customers/{customer_id}/actions/revoke_granted_entitlement": {"entitlement_id": "pro"},
    "POST /customers/{customer_id}/virtual_currencies/transactions": {"adjustments": {"COIN": 5}},
    "POST /customers/{customer_id}/virtual_currencies/update_balance": {"adjustments": {"COIN": 5}},
    "POST /purchases": {
        "store": "bank_transfer",
        "app_user_id": "ada",
        "as_of": NOW,
        "purchase": {
            "store_purchase_identifier": "invoice 17",
            "product_id": "pro_lifetime",
            "purchased_at": NOW,
            "price": 99,
            "currency": "EUR",
        },
    },
    "POST /test_store/actions": {"action": "purchase", "app_user_id": "ada", "product_id": "coins_100"},
    "POST /test_clocks": {"name": "mine", "now_ms": NOW},
    "POST /test_clocks/{test_clock_id}/advance": {"by": "P1D"},
    "POST /experiments": {"name": "Prices", "variants": [{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]},
    "POST /customers/{customer_id}/actions/assign_offering": {"offering_id": "ofrng_demo_team"},
    "POST /experiments/{experiment_id}": {"variants": [{"id": "a", "offering_id": "ofrng_demo_team"}]},
    "PATCH /experiments/{experiment_id}": {"variants": [{"id": "a", "offering_id": None}]},
    "POST /experiments/{experiment_id}/enroll": {"app_user_id": "ada"},
    "POST /config/plan": {"config": {"entitlements": {"max": {}}}},
    "POST /config/apply": {"config": {"entitlements": {"max": {}}}},
    "POST /products": {"id": "new", "kind": "one_time", "price": 1, "currency": "USD"},
    "POST /products/{product_id}": {"price": 5},
    "PATCH /products/{product_id}": {"price": 5},
    "PUT /products/{product_id}/prices": {"price": 8.99, "currency": "EUR", "country": "DE"},
    "POST /offerings": {"lookup_key": "sale", "display_name": "Sale", "metadata": {"color": "red"}},
    "POST /offerings/{offering_id}": {"display_name": "All of it"},
    "PATCH /offerings/{offering_id}": {"is_current": True},
    "POST /offerings/{offering_id}/packages": {"lookup_key": "$rc_weekly", "display_name": "Weekly", "position": 1},
    "POST /packages/{package_id}": {"position": 2},
    "PATCH /packages/{package_id}": {"display_name": "By the month"},
    "POST /packages/{package_id}/actions/attach_products": {
        "products": [{"product_id": "team_monthly", "eligibility_criteria": "all"}]
    },
    "POST /packages/{package_id}/actions/detach_products": {"product_ids": ["pro_monthly"]},
    "POST /placements": {"id": "settings", "offering_id": "ofrng_demo_team"},
    "POST /placements/{placement_id}": {"offering_id": None},
    "PATCH /placements/{placement_id}": {"is_fallback": True},
    "POST /purchase_links": {"app_id": "app_web", "product_id": "pro_monthly"},
    "POST /entitlements": {"id": "gold"},
    "POST /entitlements/{entitlement_id}": {"display_name": "Gold"},
    "PATCH /entitlements/{entitlement_id}": {"display_name": "Gold"},
    "POST /entitlements/{entitlement_id}/actions/attach_products": {"product_ids": ["coins_100"]},
    "POST /entitlements/{entitlement_id}/actions/detach_products": {"product_ids": ["pro_monthly"]},
    "POST /virtual_currencies": {"code": "GEM", "name": "Gems"},
    "POST /virtual_currencies/{code}": {"name": "Gems"},
    "PATCH /virtual_currencies/{code}": {"name": "Gems"},
    "POST /apps": {"name": "Mine", "store": "test_store"},
    "POST /apps/{app_id}": {"name": "Yours"},
    "PATCH /apps/{app_id}": {"name": "Yours"},
    "POST /apps/{app_id}/public_api_keys": {"name": "mine"},
    "POST /apps/{app_id}/store_products/actions/take_over": {"product_ids": ["pro_monthly"]},
    "PUT /apps/{app_id}/credentials": {"bundle_id": "com.example.app", "key_id": "2X9R4HXF34"},
    "POST /store_notifications/reprocess": {"since_ms": NOW, "status": "failed"},
    "POST /api_keys": {"name": "mine", "scopes": ["read"]},
    "POST /api_keys/{key_id}": {"name": "yours"},
    "PATCH /api_keys/{key_id}": {"name": "ours"},
    "POST /api_keys/{key_id}/actions/rotate": {"overlap_days": 3},
    "PATCH ": {"restore_behavior": "keep"},
    "POST /money": {"percentages": [{"from": "2026-01-01", "country": "DE", "tax_rate": 0.19}]},
    "POST /v2/projects": {"name": "Second"},
    "POST /customer_segments": {"name": "Trials", "filter": {"status": "trial"}},
    "POST /targeting_rules": {"name": "Germany", "offering_id": "ofrng_demo_team", "conditions": {"country": "DE"}},
    "POST /targeting_rules/{rule_id}": {"is_active": False},
    "PATCH /targeting_rules/{rule_id}": {"position": 1},
    "POST /bulk_grants": {"entitlement_id": "pro", "duration": "weekly", "customer_ids": ["ada", "bob"]},
    "POST /exports": {
        "name": "mine",
        "what": ["events"],
        "destination": "s3://exports",
        "access_key_id": "a",
        "secret_access_key": "b",
    },
    "POST /exports/{export_id}": {"name": "yours"},
    "PATCH /exports/{export_id}": {"name": "yours"},
    "POST /exports/{export_id}/run": {"whole": True},
    "POST /integrations/destinations/preview": {"preset": "segment", "settings": {"write_key": "abc"}},
    "POST /integrations/webhooks": {"name": "mine", "url": "https://example.com/hook"},
    "POST /integrations/webhooks/{webhook_id}": {"name": "yours"},
    "PATCH /integrations/webhooks/{webhook_id}": {"name": "yours"},
    "POST /integrations/webhooks/{webhook_id}/rotate_signing_secret": {"overlap_seconds": 0},
    "POST /integrations/webhooks/{webhook_id}/test": {"type": "RENEWAL"},
    "POST /integrations/webhooks/{webhook_id}/replay": {"since_ms": NOW, "status": "failed"},
}

# Apps of all versions send these bodies, with fields that a later version adds. Unknown fields are ignored.
LENIENT = {name for name in BODIES if " /v1/" in name or " /rcbilling/" in name} - {
    "POST /v1/subscribers/{app_user_id}/entitlements/{entitlement_id}/promotional",
    "POST /v1/subscribers/{app_user_id}/subscriptions/{product_id}/defer",
    "POST /v1/subscribers/{app_user_id}/subscriptions/{transaction_id}/extend",
}

# A query for each route that needs one.
QUERIES = {
    "GET /subscriptions": "?store_subscription_identifier=txn_2",
    "GET /purchases": "?store_purchase_identifier=txn_3",
}


@dataclass(frozen=True)
class Route:
    method: str
    template: str
    operation: dict[str, Any]

    @property
    def name(self) -> str:
        """As in BODIES: without the common start of all V2 paths."""
        return f"{self.method} {self.template.removeprefix('/v2/projects/{project_id}')}"

    @property
    def version(self) -> str:
        """Whose errors it answers."""
        first = self.template.split("/")[1]
        return "v1" if first == "rcbilling" else first

    @property
    def takes_body(self) -> bool:
        return "requestBody" in self.operation

    @property
    def needs_body(self) -> bool:
        return bool(self.operation.get("requestBody", {}).get("required"))

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def body(self) -> Any:
        return BODIES[self.name] if self.takes_body else None

    def path(self, names: dict[str, str]) -> str:
        return self.template.format_map(_Unknown({**NAMES, **names}))

    @property
    def query(self) -> str:
        return QUERIES.get(self.name, "")


class _Unknown(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"no_{name}"


def document() -> dict[str, Any]:
    return routes().openapi()


def routes_of(shop: Shop) -> list[Route]:
    """Every route of V1, V2 and /rcbilling, as the document lists them."""
    return [
        Route(method.upper(), path, operation)
        for path, item in document()["paths"].items()
        for method, operation in item.items()
        if path.startswith(("/v1/", "/v2/", "/rcbilling/"))
    ]


async def settle(shop: Shop) -> dict[str, str]:
    """Create ada, bob, purchases of lea, a test clock and an experiment; gives the ids of all but the first two."""
    await shop.act("purchase", "ada", "pro_monthly")
    await shop.act("purchase", "lea", "pro_monthly")
    await shop.act("purchase", "lea", "pro_lifetime")
    await shop.note("bob", plan="x")
    clock = await post(shop, "test_clocks", BODIES["POST /test_clocks"])
    experiment = await post(shop, "experiments", BODIES["POST /experiments"])
    (subscription,) = await bought(shop, "subscription", "txn_2")
    (purchase,) = await bought(shop, "purchase", "txn_3")
    return {
        "test_clock_id": clock.json()["id"],
        "experiment_id": experiment.json()["id"],
        "subscription_id": subscription["id"],
        "purchase_id": purchase["id"],
        "transaction_id": "txn_2.0",
    }


async def bought(shop: Shop, kind: str, store_id: str) -> list[dict[str, Any]]:
    """The subscriptions or purchases with this id in their store."""
    items: list[dict[str, Any]] = (await get(shop, f"{kind}s?store_{kind}_identifier={store_id}")).json()["items"]
    return items
