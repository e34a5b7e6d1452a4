"""The examples of a web page that sells: once on the payment provider's own page, once in a form of the SDK."""

from __future__ import annotations

from typing import Any, Protocol

from tests.api.client import Shop
from tests.api.till import opened_page

SESSION = "/rcbilling/v1/checkout/{operation_session_id}"
WANTED = {"app_user_id": "eve", "product_id": "pro_yearly", "price_id": "price_pro_yearly", "locale": "en"}


class Story(Protocol):
    async def ask(self, name: str, body: Any = None, *, key: str | None = "", also: str = "", **names: str) -> Any: ...


async def sell(story: Story, shop: Shop) -> None:
    details = {"app_name": "Notes", "support_email": "help@example.com"}
    form, hosted = await opened_page(shop, "rc_billing", details), await opened_page(shop, "stripe")
    start = "POST /rcbilling/v1/checkout/start"
    await story.ask("GET /rcbilling/v1/branding", key=form.key)
    prepared = {"product_id": "pro_yearly", "price_id": "price_pro_yearly"}
    await story.ask("POST /rcbilling/v1/checkout/prepare", prepared, key=form.key)
    await story.ask(start, WANTED, key=hosted.key, also=".stripe")
    id = (await story.ask(start, WANTED, key=form.key))["operation_session_id"]
    address = {"country_code": "DE", "postal_code": "10115"}
    await story.ask(f"PATCH {SESSION}", address, key=form.key, operation_session_id=id)
    buyer = {"email": "eve@example.com", "locale": "en"}
    await story.ask(f"POST {SESSION}/complete", buyer, key=form.key, operation_session_id=id)
    await story.ask(f"GET {SESSION}", key=form.key, operation_session_id=id, also=".started")
    [handle] = form.provider.payments
    form.provider.pays(handle)
    await story.ask(f"GET {SESSION}", key=form.key, operation_session_id=id)
    await story.ask(f"GET {SESSION}", key=hosted.key, operation_session_id=id)
    await story.ask(start, WANTED, key=form.key, also=".already_bought")
    await story.ask(start, WANTED, key=shop.public, also=".no_provider")
