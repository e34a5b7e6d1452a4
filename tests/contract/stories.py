"""Parts of the story of `test_examples.py`: administration, charts, customer lists, checkouts and exports."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

from latchkey.domain.instants import HOUR
from latchkey.stores.selling import ReturnAddresses
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases.team import add_member
from latchkey.subjects.checkout.usecases.steps import CheckoutRequest
from latchkey.subjects.exports import storage as schedules
from latchkey.subjects.segments.usecases.projector import Roller
from tests.http.client import NOW, Shop
from tests.http.till import opened_page, services_of

Ask: TypeAlias = Callable[..., Awaitable[Any]]

SESSION = "/rcbilling/v1/checkout/{operation_session_id}"
WANTED = {"app_user_id": "eve", "product_id": "pro_yearly", "price_id": "price_pro_yearly", "locale": "en"}
EXPORT = {
    "name": "Warehouse",
    "what": ["events", "transactions"],
    "destination": "s3://warehouse/latchkey",
    "region": "eu-central-1",
    "access_key_id": "AKIAEXAMPLEEXAMPLE12",
    "secret_access_key": "an-example-of-a-secret",
}


async def administer(ask: Ask, shop: Shop) -> None:
    await add_member(shop.database, shop.project_id, "ops@example.com", Role.OWNER, NOW, name="Olive")
    await ask("GET /collaborators")
    await ask("GET /v2/projects")
    # The ids of entries are positions: this one does not depend on how many changes the story made before.
    await shop.database.pool.execute("select setval(pg_get_serial_sequence('audit_entries', 'position'), 1000)")
    await ask("POST /v2/projects", {"name": "Second"})
    await ask("GET /audit_logs", query="?limit=1&end_date=2027-01-15")


async def fill_lists(shop: Shop) -> None:
    """Every customer is in the customer lists afterwards."""
    roller = Roller(shop.database)
    for step in range(8):
        await roller.turn(NOW + 6000 * step)


async def chart(ask: Ask, shop: Shop) -> None:
    """What was bought in the test store until now."""
    # For `active_users` of the overview.
    await fill_lists(shop)
    days = "start_date=2027-01-14&end_date=2027-01-15&environment=sandbox"
    await ask("GET /charts/{chart_name}", query=f"?{days}&compare=true", chart_name="mrr")
    await ask("GET /charts/{chart_name}", query=f"?{days}&segment=product", also=".by_product", chart_name="revenue")
    await ask("GET /charts/{chart_name}", query="?filters=country", also=".filters", chart_name="mrr")
    await ask("GET /charts/{chart_name}/options", query="?environment=sandbox", chart_name="revenue")
    await ask("GET /metrics/overview", query="?environment=sandbox")


async def list_customers(ask: Ask, shop: Shop) -> None:
    """Who has bought in the test store until now."""
    await fill_lists(shop)
    await ask("GET /customer_list", query="?product_id=pro_monthly&sort=spent")
    id = (await ask("POST /customer_segments", {"name": "Trials", "filter": {"status": "trial"}}))["id"]
    await ask("GET /customer_segments")
    await ask("GET /customer_segments/{segment_id}", segment_id=id)
    await ask("DELETE /customer_segments/{segment_id}", segment_id=id)
    granted = {"entitlement_id": "team", "duration": "weekly", "filter": {"product_id": "pro_monthly"}}
    ids = {"bulk_grant_id": (await ask("POST /bulk_grants", granted))["id"]}
    # Nothing works on it here: what it grants would be in the examples after this one.
    await ask("POST /bulk_grants/{bulk_grant_id}/actions/start", **ids)
    await ask("GET /bulk_grants/{bulk_grant_id}", **ids)
    await ask("POST /bulk_grants/{bulk_grant_id}/actions/stop", **ids)
    await ask("GET /bulk_grants")


async def sell(ask: Ask, shop: Shop) -> None:
    """On a web page: once on the payment provider's own page, once in a form of the SDK."""
    details = {"app_name": "Notes", "support_email": "help@example.com"}
    form, hosted = await opened_page(shop, "rc_billing", details), await opened_page(shop, "stripe")
    start = "POST /rcbilling/v1/checkout/start"
    await ask("GET /rcbilling/v1/branding", key=form.key)
    prepared = {"product_id": "pro_yearly", "price_id": "price_pro_yearly"}
    await ask("POST /rcbilling/v1/checkout/prepare", prepared, key=form.key)
    await ask(start, WANTED, key=hosted.key, also=".stripe")
    id = (await ask(start, WANTED, key=form.key))["operation_session_id"]
    address = {"country_code": "DE", "postal_code": "10115"}
    await ask(f"PATCH {SESSION}", address, key=form.key, operation_session_id=id)
    buyer = {"email": "eve@example.com", "locale": "en"}
    await ask(f"POST {SESSION}/complete", buyer, key=form.key, operation_session_id=id)
    await ask(f"GET {SESSION}", key=form.key, operation_session_id=id, also=".started")
    [handle] = form.provider.payments
    form.provider.pays(handle)
    await ask(f"GET {SESSION}", key=form.key, operation_session_id=id)
    await ask(f"GET {SESSION}", key=hosted.key, operation_session_id=id)
    await ask(start, WANTED, key=form.key, also=".already_bought")
    await ask(start, WANTED, key=shop.public, also=".no_provider")


async def sell_by_link(ask: Ask, shop: Shop) -> None:
    """To a buyer whom nobody knows, who then redeems the purchase in the app."""
    till, services, ids = await opened_page(shop, "stripe"), services_of(shop), list[str]()
    link = await ask("POST /purchase_links", {"app_id": till.app_id, "product_id": "pro_yearly"})
    await ask("GET /purchase_links")
    await ask("GET /purchase_links/{link_id}", link_id=link["id"])

    def back(id: str) -> ReturnAddresses:
        ids.append(id)
        return ReturnAddresses("https://latchkey.example/", "https://latchkey.example/")

    wanted = CheckoutRequest(product_id="pro_yearly", app_user_id=f"$RCAnonymousID:{'0f' * 16}")
    till.provider.series = "linked"
    await services.checkouts.start(shop.project_id, till.app_id, wanted, back, redeemable=True)
    till.provider.pays("linked_1")
    paid = await services.checkouts.status(shop.project_id, till.app_id, ids[0])
    redeem = "POST /v1/subscribers/redeem_purchase"
    body = {"redemption_token": services.redemptions.token(paid.checkout), "app_user_id": "frank"}
    shop.clock.now += HOUR
    await ask(redeem, body, key=shop.public, also=".expired")
    shop.clock.now -= HOUR
    await ask(redeem, body, key=shop.public)
    await ask(redeem, {**body, "app_user_id": "gina"}, key=shop.public, also=".other_user")
    await ask(redeem, {**body, "redemption_token": "x"}, key=shop.public, also=".invalid_token")
    await ask("POST /purchase_links/{link_id}/actions/archive", link_id=link["id"])


async def export(ask: Ask, shop: Shop) -> None:
    id = (await ask("POST /exports", EXPORT))["id"]
    await ask("GET /exports")
    await ask("GET /exports/{export_id}", export_id=id)
    await ask("POST /exports/{export_id}", {"every": "hour"}, export_id=id)
    await ask("PATCH /exports/{export_id}", {"every": "day"}, export_id=id)
    await ask("POST /exports/{export_id}/run", {"whole": True}, export_id=id)
    async with shop.database.transaction() as connection:
        made = await schedules.EXPORTS.find(connection, shop.project_id, id)
        assert made is not None
        run = await schedules.begin_run(connection, made, NOW)
        done = replace(
            run,
            finished_at=NOW + 4_200,
            state="done",
            kind="whole",
            folder=f"{shop.project_id}/20270115T080000123Z-0c0ffe",
            rows=1_234,
            bytes=56_789,
            files=2,
        )
        await schedules.finish_run(connection, done)
    await ask("GET /exports/{export_id}/runs", export_id=id)
    await ask("DELETE /exports/{export_id}", export_id=id)
