"""The control API, as a script uses it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from latchkey.domain.instants import to_iso
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys
from latchkey.emulators.emulator_server import running
from tests.emulators.receiving import Service, receiving
from tests.emulators.shops import START, app_store, verifier


@dataclass
class Desk:
    store: AppleEmulator
    service: Service
    url: str

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        reply = await asyncio.to_thread(requests.request, method, f"{self.url}{path}", json=body, **more)
        return reply.status_code, reply.json()

    async def get(self, path: str) -> Any:
        status, said = await self.ask("GET", path)
        assert status == 200, said
        return said


@pytest.fixture
async def desk(apple_keys: AppleKeys) -> AsyncIterator[Desk]:
    async with app_store(apple_keys) as store, receiving() as service, running(store) as served:
        store.outbox.url = service.url
        yield Desk(store, service, served.control_url)


async def test_a_life_told_through_the_control_api(desk: Desk, apple_keys: AppleKeys) -> None:
    status, bought = await desk.ask("POST", "/purchases", {"product_id": "pro_monthly", "buyer": "ada", "trial": True})
    assert (status, bought["active"], bought["in_trial"]) == (200, True, True)
    assert verifier(apple_keys).verify_and_decode_signed_transaction(bought["receipt"]["fetch_token"])
    purchase = f"/purchases/{bought['purchase']}"
    status, cancelled = await desk.ask("POST", f"{purchase}/acts", {"act": "cancel"})
    assert (status, cancelled["auto_renew"]) == (200, False)
    status, clock = await desk.ask("PUT", "/clock", {"by": "P8D"})
    assert (status, clock["now"]) == (200, to_iso(desk.store.clock.now()))
    assert (await desk.get(purchase))["active"] is False
    told = (await desk.get(f"/notifications?purchase={bought['purchase']}"))["notifications"]
    assert [event["kind"] for event in told] == [
        "EXPIRED/VOLUNTARY",
        "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED",
        "SUBSCRIBED/INITIAL_BUY",
    ]
    assert told[0]["attempts"][0]["status"] == 200
    overview = await desk.get("")
    assert (overview["store"], overview["notifications"]["delivered"]) == ("apple", 3)


async def test_a_notification_can_come_later_than_the_sale(desk: Desk) -> None:
    sale = {"product_id": "pro_monthly", "buyer": "ada", "notify_after": "PT30S"}
    _, bought = await desk.ask("POST", "/purchases", sale)
    where = f"/notifications?purchase={bought['purchase']}"
    [waiting] = (await desk.get(where))["notifications"]
    assert (waiting["state"], waiting["attempts"]) == ("waiting", [])
    await desk.ask("PUT", "/clock", {"by": "PT30S"})
    [sent] = (await desk.get(where))["notifications"]
    assert sent["state"] == "delivered"
    status, wrong = await desk.ask("POST", "/purchases", {**sale, "notify_after": "soon"})
    assert (status, wrong["param"]) == (400, "notify_after")


async def test_products_can_be_added_and_sold(desk: Desk) -> None:
    new = {"id": "gold", "period": "P1W", "price": 2.5, "currency": "EUR", "group": "gold"}
    assert (await desk.ask("PUT", "/products", new))[0] == 200
    assert "gold" in [product["id"] for product in (await desk.get("/products"))["products"]]
    status, bought = await desk.ask("POST", "/purchases", {"product_id": "gold"})
    assert (status, bought["product_id"]) == (200, "gold")


async def test_the_clock_moves_to_a_date(desk: Desk) -> None:
    assert (await desk.ask("PUT", "/clock", {"to": "2030-01-01T00:00:00Z"}))[1]["now"] == "2030-01-01T00:00:00Z"
    # The body that moves a test clock of Latchkey there.
    later = 1_900_000_000_000
    assert (await desk.ask("PUT", "/clock", {"to_ms": later}))[1]["now_ms"] == later


async def test_notifications_can_be_sent_again_and_tested(desk: Desk) -> None:
    status, tested = await desk.ask("POST", "/notifications/test")
    assert (status, tested["kind"], tested["state"]) == (200, "TEST", "delivered")
    status, again = await desk.ask("POST", f"/notifications/{tested['id']}/send")
    assert (status, len(again["attempts"])) == (200, 2)
    assert desk.service.taken[0].body == desk.service.taken[1].body


async def test_misbehaviour_is_set_and_ended(desk: Desk) -> None:
    status, wanted = await desk.ask("PUT", "/misbehaviour", {"late": 1.0, "seed": 5})
    assert (status, wanted["late"]) == (200, 1.0)
    await desk.ask("POST", "/purchases", {"product_id": "coins_100"})
    assert not desk.service.taken
    status, ended = await desk.ask("DELETE", "/misbehaviour")
    assert (status, ended["late"]) == (200, 0.0)
    assert len(desk.service.taken) == 1


async def test_the_end_of_misbehaviour_leaves_a_notification_that_the_sale_put_off(desk: Desk) -> None:
    await desk.ask("PUT", "/misbehaviour", {"duplicate": 1.0, "reorder": 1.0})
    await desk.ask("POST", "/purchases", {"product_id": "pro_monthly", "notify_after": "P1D"})
    for _ in range(4):
        # Later ones that could overtake it.
        await desk.ask("POST", "/notifications/test")
    await desk.ask("DELETE", "/misbehaviour")
    sent = len(desk.service.taken)
    assert [item["kind"] for item in (await desk.get("/notifications"))["notifications"] if not item["attempts"]] == [
        "SUBSCRIBED/INITIAL_BUY"
    ]
    await desk.ask("PUT", "/clock", {"by": "P1D"})
    assert len(desk.service.taken) == sent + 1


async def test_the_notification_url_can_be_changed(desk: Desk) -> None:
    status, said = await desk.ask("PUT", "/notification_url", {"url": "https://localhost:1/x"})
    assert (status, said["notification_url"]) == (200, "https://localhost:1/x")
    assert (await desk.ask("PUT", "/notification_url", {"url": "ftp://x"}))[0] == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/purchases", {"product_id": "nothing"}, 404),
        ("POST", "/purchases", {"product_id": 7}, 400),
        ("POST", "/purchases", {"product_id": "pro_monthly", "unknown": 1}, 400),
        ("POST", "/purchases", [], 400),
        ("GET", "/purchases/123", None, 404),
        ("POST", "/purchases/123/acts", {"act": "cancel"}, 404),
        ("PUT", "/clock", {"by": "yesterday"}, 400),
        ("PUT", "/clock", {"by": "P9000Y"}, 400),
        ("PUT", "/clock", {"to": START - 1}, 422),
        ("PUT", "/clock", {"to_ms": START - 1}, 422),
        ("PUT", "/clock", {"to_ms": "2030-01-01"}, 400),
        ("PUT", "/clock", {"to_ms": START + 1, "by": "P1D"}, 400),
        ("PUT", "/clock", {}, 400),
        ("PUT", "/products", {"id": "x"}, 400),
        ("PUT", "/products", {"id": "x", "period": "P1M", "price": -1}, 400),
        ("PUT", "/misbehaviour", {"drop": 7}, 400),
        ("GET", "/notifications?limit=0", None, 400),
        ("POST", "/notifications/none/send", None, 404),
    ],
)
async def test_wrong_questions_get_a_clear_answer_and_change_nothing(
    desk: Desk, method: str, path: str, body: Any, status: int
) -> None:
    got, said = await desk.ask(method, path, body)
    assert got == status, said
    assert said["error"]
    assert desk.store.expected_states() == []


async def test_a_web_page_cannot_use_it(desk: Desk) -> None:
    """A page reaches loopback through a name of its own, or with a body that is not marked as JSON."""
    status, _ = await desk.ask("GET", "", headers={"Host": "evil.example"})
    assert status == 403
    sneaky = await asyncio.to_thread(
        requests.post,
        f"{desk.url}/purchases",
        data='{"product_id": "coins_100"}',
        headers={"Content-Type": "text/plain"},
    )
    assert sneaky.status_code == 400
    assert desk.store.expected_states() == []
