"""Receipts have a fast path in front of the framework. Both ways give the same bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from latchkey.http.body import CheckedBody
from latchkey.http.exchange import Exchange
from latchkey.subjects.purchase_intake.api.receipts import ReceiptEndpoint
from tests.http.client import APP, NOW, Client, Reply, Shop
from tests.http.doings import count_rows

RECEIPTS = "/v1/receipts"
ACTIONS = "/v2/projects/proj_demo/test_store/actions"
# A placeholder for the customer's id: each of the two ways has a customer of its own.
WHO = "@@@@"
EVENT_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class PassesOn(ReceiptEndpoint):
    async def answer(self, exchange: Exchange, segments: list[str], body: CheckedBody) -> bytes | None:
        return None


@dataclass(frozen=True)
class Ask:
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str | None = ""
    content_type: str | None = "application/json"

    async def of(self, client: Client, who: str) -> Reply:
        return await client.request(
            "POST",
            self.path,
            body=self.body.replace(WHO.encode(), who.encode()),
            headers=self.headers,
            key=APP if self.key == "" and self.path.startswith(RECEIPTS) else self.key,
            content_type=self.content_type,
        )


def receipt(headers: Mapping[str, str] | None = None, key: str | None = "", **fields: Any) -> Ask:
    body = {"app_user_id": WHO, "fetch_token": f"test_1_{WHO}", "product_id": "pro_monthly", **fields}
    return Ask(RECEIPTS, json.encode(body), headers or {}, key)


def action(name: Any = "purchase", key: str | None = "", **fields: Any) -> Ask:
    named = {"product_id": "pro_monthly"} if name == "purchase" else {}
    return Ask(ACTIONS, json.encode({"action": name, "app_user_id": WHO, **named, **fields}), key=key)


def framework(shop: Shop) -> Client:
    """The same application without the fast path."""
    front: Any = shop.client.app
    plain = replace(front, writes=PassesOn(front.services), pages=None)
    return Client(plain, shop.client.key, shop.public)


async def the_same(shop: Shop, steps: list[Ask], who: str = "") -> list[Reply]:
    """Each step both ways, one after the other, each way for a customer of its own."""
    plain, answered = framework(shop), []
    mark = who or f"w{abs(hash(str(steps)))}"
    for step in steps:
        before = await count_rows(shop)
        here = await step.of(shop.client, f"{mark}a")
        between = await count_rows(shop)
        there = await step.of(plain, f"{mark}b")
        after = await count_rows(shop)
        shown = [_comparable(reply, f"{mark}{way}") for way, reply in (("a", here), ("b", there))]
        assert shown[0] == shown[1], step
        for table, rows in between.items():
            assert rows - before[table] == after[table] - rows, (step, table)
        answered.append(here)
    return answered


def _comparable(reply: Reply, who: str) -> tuple[int, bytes, dict[str, str]]:
    # Each request has its own id, and uses up one more of the key's requests.
    apart = {"x-request-id", "revenuecat-rate-limit-current-usage"}
    headers = {name: value for name, value in reply.headers.items() if name not in apart}
    return reply.status, EVENT_ID.sub(b"<id>", reply.body.replace(who.encode(), WHO.encode())), headers


WRONG_ATTRIBUTES: list[Any] = [
    [], 7, {"a": "b"}, {"a": {"value": "b", "updated_at_ms": 5}}, {"a": {"value": "b"}},
    {"a": {"value": 2**70, "updated_at_ms": 2**70}}, {"a": {"value": "b", "updated_at_ms": float(NOW)}},
    {"a" * 41: {"value": "b", "updated_at_ms": NOW}, "fine": {"value": "b", "updated_at_ms": NOW}},
    {str(n): {"value": "b", "updated_at_ms": NOW} for n in range(101)},
]  # fmt: skip
WRONG_LISTS: list[Any] = ["pro_monthly", 7, {}, [7], [""]]
WRONG_PRODUCTS: list[Any] = ["", 7, [], "x" * 201]
GOOD: dict[str, list[Ask]] = {
    "a receipt, shown twice": [receipt(), receipt(), receipt(is_restore=True, unknown={"a": [1, None]})],
    "a receipt with all there is": [
        receipt(
            {"X-Platform": "iOS", "X-Is-Sandbox": "false", "X-Platform-Version": "18.1", "X-Version": "2.0"},
            price=4.99,
            currency="EUR",
            attributes={
                "$email": {"value": "a@b.example", "updated_at_ms": NOW},
                "plan": {"value": "ünï 🎟", "updated_at_ms": NOW},
                "gone": {"value": None, "updated_at_ms": NOW},
            },
            presented_offering_identifier="default",
            initiation_source="purchase",
        ),
        receipt({"x-is-sandbox": "FALSE"}, price="5", currency=None, is_restore=7, fetch_token=f"test_2_{WHO}"),
        receipt(price=10**30, currency="euro", product_ids=["pro_yearly"], fetch_token=f"test_3_{WHO}"),
    ],
    "a receipt with something wrong beside it": [
        *(receipt(attributes=attributes) for attributes in WRONG_ATTRIBUTES),
        *(receipt({"x-platform": platform}) for platform in ("symbian", "", "ios\xe4")),
        *(receipt(product_ids=wrong) for wrong in WRONG_LISTS),
        *(receipt(product_id=wrong, product_ids=["pro_monthly"]) for wrong in WRONG_PRODUCTS),
    ],
    "the type of the body written otherwise": [
        Ask(RECEIPTS, receipt().body, content_type="application/json; charset=utf-8"),
        Ask(RECEIPTS, receipt().body, content_type="application/vnd.api+JSON"),
    ],
    "odd and harmless": [
        Ask(f"{RECEIPTS}?x=1", receipt().body),
        Ask(RECEIPTS, b"\n " + receipt().body.replace(b"pro_", b"\\u0070ro_") + b"\t"),
        *(
            Ask(RECEIPTS, receipt(attributes={"a": {"value": "b~"}}, metadata=["~"]).body.replace(b"~", escape))
            for escape in (rb"\u0000", rb"\ud800")
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
async def test_a_write_that_succeeds_is_answered_with_the_same_bytes_both_ways(steady_shop: Shop, name: str) -> None:
    for reply in await the_same(steady_shop, GOOD[name]):
        assert reply.status in (200, 422), reply


WRONG_RECEIPTS: list[dict[str, Any]] = [
    {"app_user_id": ""}, {"app_user_id": "none"}, {"app_user_id": None}, {"fetch_token": ""},
    {"fetch_token": "x"}, {"fetch_token": 5}, {"product_id": ""}, {"product_id": None},
    {"product_id": "nothing"}, {"product_id": 7}, {"product_id": None, "product_ids": []},
    {"product_id": None, "product_ids": "pro_monthly"}, {"product_id": None, "product_ids": [7]},
]  # fmt: skip
BAD: list[Ask] = [
    # The body.
    *(
        Ask(RECEIPTS, body)
        for body in (
            b"", b"null", b"[]", b"{}", b"7", b'"x"', b"{", b'{"a":', b"\xff", b"\xef\xbb\xbf{}", b'{"a":"\\ud800"}',
            b'{"a":"\\u0000"}', b'{"a\\u0000":1}', b'{"a":1,"a":1}', b"[" * 70 + b"]" * 70, b'{"a":NaN}',
            b'{"a":1e999}',
            b'{"grace_days":123456789012345678901234567890}', b" " * (1024 * 1024 + 1), receipt().body + b"x",
            b"\xff\xfe{\x00}\x00",
        )
    ),
    receipt(app_user_id="\0"),
    receipt(fetch_token="\0"),
    Ask(RECEIPTS, b'{"app_user_id": "null",' + receipt(fetch_token=f"test_3_{WHO}").body[1:]),
    Ask(RECEIPTS, receipt().body, content_type=None),
    Ask(RECEIPTS, receipt().body, content_type="text/plain"),
    Ask(RECEIPTS, receipt().body, content_type="application/x-www-form-urlencoded"),
    Ask(RECEIPTS, receipt().body, {"content-length": "99999999"}),
    # The fields.
    *(receipt(**fields) for fields in WRONG_RECEIPTS),
    # The headers.
    Ask(RECEIPTS, receipt().body, {"Content-Type": "text/plain"}),
    # The key, and the place.
    receipt(key=None),
    receipt(key="sk_nobody"),
    receipt({"authorization": "Basic eDp5"}),
    Ask(f"{RECEIPTS}/", receipt().body),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
async def test_a_write_that_is_refused_is_refused_with_the_same_bytes_both_ways(steady_shop: Shop, number: int) -> None:
    before = await count_rows(steady_shop)
    (reply,) = await the_same(steady_shop, [BAD[number]], who=f"bad{number:03}")
    assert reply.status != 200, reply
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize("platforms", [("symbian", "ios"), ("ios", "symbian")])
async def test_a_platform_that_is_sent_twice_refuses_no_receipt(steady_shop: Shop, platforms: tuple[str, str]) -> None:
    """Requests with a header twice are always answered by the framework."""
    ask = receipt({"X-Platform": platforms[0], "x-platform": platforms[1]})
    (reply,) = await the_same(steady_shop, [ask], who=f"twice{platforms[0]}")
    assert reply.status == 200, reply


async def test_an_app_that_shows_a_receipt_is_seen(steady_shop: Shop) -> None:
    shop = steady_shop
    headers = {"x-platform": "android", "x-platform-version": "15", "x-version": "3.1", "x-country": "de"}
    (reply,) = await the_same(shop, [receipt(headers, key=shop.public)], who="visitor")
    assert "subscriber_attributes" not in reply.json()["subscriber"]
    await shop.presence.flush()
    for who in ("visitora", "visitorb"):
        shown = (await shop.v2(who)).json()
        assert (shown["last_seen_platform"], shown["last_seen_country"]) == ("android", "DE")
    again = (await receipt().of(shop.client, "visitora")).json()
    # Only the sender of a token sees it.
    for shown in (again, read := (await shop.v1("visitora", key=shop.public)).json()):
        assert shown["subscriber"]["subscriptions"]["pro_monthly"].pop("store_transaction_id")
    assert again == read
