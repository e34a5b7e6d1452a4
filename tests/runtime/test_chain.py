"""The whole chain without stand-ins: phone, web content, service, webhook, consumer, push, phone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jwt
from pyreqwest.client import ClientBuilder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from latchkey.cli.authority import Certificates
from latchkey.consumer import Consumer, Settings
from latchkey.consumer.push_texts import read_texts
from latchkey.runtime.bridge_script import web_module
from latchkey.runtime.device import Device, DeviceOptions
from tests.cli.running import Up
from tests.cli.test_up_webhooks import call
from tests.patience import PATIENCE
from tests.push.providing import serving
from tests.runtime.test_device import seen_on

WEBHOOK_SECRET = "between the service and the consumer"
JWT_SECRET = "0123456789abcdef0123456789abcdef"
PAGE = """<!doctype html><title>signed out</title><script type=module>
  import { registerDevice } from "/push.js";
  const id = await registerDevice({ url: "/api/devices", token: location.hash.slice(1) });
  document.title = `registered ${id}`;
</script>"""


class Service:
    """The service's management API, as a backend uses it."""

    def __init__(self, connection: dict[str, Any]) -> None:
        self._url = f"{connection['base_url']}/v2/projects/{connection['project_id']}"
        self._key = connection["api_key"]
        self._authority = Path(connection["ca_cert"]).read_bytes()

    async def post(self, path: str, value: Any) -> Any:
        async with ClientBuilder().add_root_certificate_pem(self._authority).build() as client:
            asked = client.post(f"{self._url}/{path}").bearer_auth(self._key).body_json(value).build()
            reply = await asked.send()
            assert reply.status < 300, await reply.text()
            return await reply.json()


def settings(connection: dict[str, Any], folder: Path) -> Settings:
    push = connection["push"]
    return Settings(
        service_url=connection["base_url"],
        project_id=connection["project_id"],
        api_key=connection["api_key"],
        service_ca=connection["ca_cert"],
        webhook_secret=WEBHOOK_SECRET,
        database_url=f"sqlite:///{folder / 'consumer.db'}",
        jwt_secret=JWT_SECRET,
        push_api_url=push["base_url"],
        push_app_id=push["app_id"],
        push_rest_api_key=push["rest_api_key"],
        push_ca=connection["ca_cert"],
    )


def web_app(consumer: Consumer) -> Starlette:
    async def page(_: Request) -> Response:
        return HTMLResponse(PAGE)

    async def module(_: Request) -> Response:
        return Response(web_module(), media_type="text/javascript")

    return Starlette(routes=[Route("/", page), Route("/push.js", module), *consumer.routes])


async def test_a_failed_payment_rings_the_phone_of_whoever_it_concerns(up: Up, chromium: Path, tmp_path: Path) -> None:
    connection = up.connection
    tls = up.folder / "tls"
    certificates = Certificates(tls / "authority.pem", tls / "server.pem", tls / "server.key")
    service = Service(connection)
    consumer = Consumer(settings(connection, tmp_path))
    async with consumer.lifespan(), serving(web_app(consumer), certificates) as app:
        hook = {"name": "Mine", "url": f"{app}/webhooks/billing", "authorization_header": f"Bearer {WEBHOOK_SECRET}"}
        made = await service.post("integrations/webhooks", hook)
        phone = DeviceOptions(
            state=tmp_path / "phone",
            origins=(app,),
            push_url=connection["push"]["base_url"],
            app_id=connection["push"]["app_id"],
            ca=certificates.authority,
        )
        async with Device(phone) as device:
            token = jwt.encode({"sub": "rita", "exp": 4_000_000_000}, JWT_SECRET, "HS256")
            await device.open(f"{app}/#{token}")
            await device.page.wait_for_function("document.title.startsWith('registered')")
            assert await device.page.title() == f"registered {device.player_id}"

            bought = {"action": "purchase", "app_user_id": "rita", "product_id": "pro_monthly"}
            await service.post("test_store/actions", bought)
            await service.post("test_store/actions", {"action": "fail_billing", "app_user_id": "rita", "grace_days": 3})

            notification = await device.next_notification(PATIENCE)
            expected = read_texts()["billing_issue"]["en"]
            assert (notification.heading, notification.content) == (expected.heading, expected.content)
            assert expected.content in await seen_on(device)

        copy = await consumer.local("rita")
        assert copy is not None
        assert copy.subscription.subscription_status == "billing_issue"
        await asyncio.to_thread(call, up, "DELETE", f"integrations/webhooks/{made['id']}")
    for log in up.folder.glob("*.log"):
        assert connection["push"]["rest_api_key"] not in log.read_text()
