"""The reference device: a real app page over TLS, a real push service, real Chromium."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from latchkey.http_client import HttpClient
from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.push.push_notification import PushNotification
from latchkey.runtime import reference_device
from latchkey.runtime.device_errors import CannotShowError, DeviceError, PushServiceError
from latchkey.runtime.push_service import PushService
from latchkey.runtime.reference_device import Device, DeviceOptions
from tests.client.service import Says, Script, endless
from tests.http.serving import serving
from tests.patience import PATIENCE, until
from tests.push.push_provider import APP_ID, Provider, certificates_in, providing

FAILED = PushNotification(
    contents={"en": "Your payment failed", "de": "Zahlung fehlgeschlagen"}, headings={"en": "Demo"}
)
STRICT = "default-src 'none'; script-src 'unsafe-inline'; require-trusted-types-for 'script'; style-src 'none'"
PAGE = "<!doctype html><title>Demo</title><script>window.bridge = 'getpushplayerid://'</script><h1>Demo</h1>"


@pytest.fixture(scope="module")
async def app(certificates: LocalCertificates) -> AsyncIterator[str]:
    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": STRICT})

    async with serving(Starlette(routes=[Route("/", page)]), certificates) as url:
        yield url


class Phone:
    """One phone: devices that are started one after the other with the same folder."""

    def __init__(self, folder: Path, provider: Provider, app: str) -> None:
        self.folder, self.provider, self.app = folder, provider, app
        self.said: list[str] = []

    def start(self, **more: Any) -> Device:
        options: dict[str, Any] = {
            "state": self.folder,
            "origins": (self.app,),
            "push_url": self.provider.url,
            "app_id": APP_ID,
            "ca": self.provider.certificates.authority,
            **more,
        }
        return Device(DeviceOptions(**options), self.said.append)


@pytest.fixture
def phone(tmp_path: Path, chromium: Path, provider: Provider, app: str) -> Phone:
    return Phone(tmp_path / "phone", provider, app)


async def seen_on(device: Device) -> str:
    """The texts of the accessibility tree, which also has what scripts of the page cannot read (closed shadow
    roots)."""
    session = await device.page.context.new_cdp_session(device.page)
    tree: Any = await session.send("Accessibility.getFullAXTree")
    await session.detach()
    return " ".join(str(node.get("name", {}).get("value", "")) for node in tree["nodes"])


async def test_from_its_start_to_a_notification_on_the_screen(phone: Phone) -> None:
    async with phone.start(language="de") as device, phone.provider.client() as push:
        await device.open(phone.app)
        told = await device.page.evaluate("pushplayerid")
        assert told == device.player_id
        await push.send(FAILED, [told])
        notification = await device.next_notification(PATIENCE)
        assert (notification.heading, notification.content) == ("Demo", "Zahlung fehlgeschlagen")
        assert "Zahlung fehlgeschlagen" in await seen_on(device)
        assert "🔔 Demo: Zahlung fehlgeschlagen" in phone.said

        # A second notification is shown beside the first, and markup is shown as text.
        await push.send(PushNotification({"en": "<img src=x onerror=alert(1)>"}, {}), [told])
        await device.next_notification(PATIENCE)
        seen = await seen_on(device)
        assert "Zahlung fehlgeschlagen" in seen
        assert "<img src=x onerror=alert(1)>" in seen
        # Scripts of the page have no access to it.
        assert await device.page.evaluate("document.querySelector('latchkey-notifications').shadowRoot") is None
        assert not any("could not be drawn" in words for words in phone.said)


async def test_it_is_the_same_phone_after_every_start_and_gets_what_came_meanwhile_once(phone: Phone) -> None:
    async with phone.start() as device:
        await device.open(phone.app)
        known = device.player_id
        assert known is not None
        await device.page.evaluate("localStorage.setItem('signed in', 'alice')")
        with pytest.raises(DeviceError):
            async with phone.start():
                pass

    async with phone.provider.client() as push:
        await push.send(FAILED, [known])
    async with phone.start(offline=True) as device:
        # Without a network the phone still has its player id.
        assert device.player_id == known
        with pytest.raises(CannotShowError, match="ERR_INTERNET_DISCONNECTED"):
            await device.open(phone.app)
        with pytest.raises(TimeoutError):
            await device.next_notification(0.2)
        await device.go_online()
        assert (await device.next_notification(PATIENCE)).content == "Your payment failed"
        await device.open(phone.app)
        assert await device.page.evaluate("[pushplayerid, localStorage.getItem('signed in')]") == [known, "alice"]
        await device.go_offline()
        await device.go_online()
        with pytest.raises(TimeoutError):
            await device.next_notification(0.2)


async def test_a_phone_that_refuses_notifications_has_no_id_and_gets_none(phone: Phone) -> None:
    async with phone.start() as device:
        known = device.player_id
        assert known is not None
    async with phone.start(notifications_allowed=False) as device, phone.provider.client() as push:
        await device.open(phone.app)
        assert await device.page.evaluate("pushplayerid") is None
        assert (await push.send(FAILED, [known])).unsubscribed_player_ids == (known,)


async def test_a_push_service_that_is_down_at_first_costs_the_id_and_not_the_app(phone: Phone) -> None:
    await phone.provider.fault("down", times=1)
    async with phone.start() as device, phone.provider.client() as push:
        await device.open(phone.app)

        await until(lambda: device.player_id is not None)
        assert any("answered 503" in words for words in phone.said)
        # Nothing may be lost, even if the event stream opens only after this.
        assert device.player_id is not None
        await push.send(FAILED, [device.player_id])
        assert (await device.next_notification(PATIENCE)).content == "Your payment failed"
        await device.page.reload()
        assert await device.page.evaluate("pushplayerid") == device.player_id


@pytest.mark.parametrize("body", [b"", b'{"id":"\xff"}', b'{"id":' + b"[" * 100_000])
async def test_an_answer_that_is_no_push_services_is_an_error_of_its_own(body: bytes) -> None:
    service = PushService("https://service.test", APP_ID, "me")
    service._http = HttpClient(middleware=Script([Says(200, body), Says(200, b"data: " + body + b"\n")]))
    with pytest.raises(PushServiceError):
        await service.register("en")
    with pytest.raises(PushServiceError):
        _ = [arrived async for arrived in service.arrivals("p")]


async def test_an_answer_of_a_push_service_without_end_is_not_waited_for() -> None:
    service = PushService("https://service.test", APP_ID, "me")
    service._http = HttpClient(middleware=endless)
    with pytest.raises(PushServiceError):
        await service.register("en")


async def test_a_push_url_that_answers_404_is_reported_and_asked_again_only_after_a_pause(
    phone: Phone, certificates: LocalCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_device, "FIRST_WAIT", PATIENCE)
    asked: list[str] = []

    async def unknown(request: Request) -> Response:
        asked.append(request.url.path)
        return Response(status_code=404)

    elsewhere = Starlette(routes=[Route("/{path:path}", unknown, methods=["POST"])])
    async with serving(elsewhere, certificates) as url, phone.start(push_url=url) as device:
        await until(lambda: len(asked) > 1)
        await device.open(phone.app)
        assert device.player_id is None
    # Once when it starts, once when it begins to listen.
    assert asked == ["/api/v1/players"] * 2
    assert phone.said == [f"{url} answered 404. Check the push URL and the app id."] * 2


async def test_a_server_that_only_claims_the_authority_is_not_trusted(
    phone: Phone, certificates: LocalCertificates, tmp_path: Path
) -> None:
    stranger = certificates_in(tmp_path / "stranger")
    chain = tmp_path / "chain.pem"
    chain.write_bytes(stranger.cert.read_bytes() + certificates.authority.read_bytes())
    claims = LocalCertificates(certificates.authority, chain, stranger.key)
    async with providing(claims) as other, phone.start(origins=(phone.app, other.url)) as device:
        with pytest.raises(CannotShowError, match="ERR_CERT"):
            await device.open(f"{other.url}/healthz")
