"""GET of a subscriber (V1) and of a customer with its lists (V2): what is shown, and what is refused."""

import asyncio
from urllib.parse import quote

import pytest

from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.customers.usecases import identities
from tests.http.client import DAY, NOW, Shop
from tests.http.doings import count_rows, types_told

BOUGHT = "2027-01-15T08:00:00Z"


async def test_a_one_time_purchase_is_listed_under_its_product_and_never_ends(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_lifetime")
    subscriber = (await shop.v1("ada")).json()["subscriber"]
    assert subscriber["subscriptions"] == {}
    [bought] = subscriber["non_subscriptions"]["pro_lifetime"]
    assert set(bought) == {
        "id",
        "is_sandbox",
        "purchase_date",
        "original_purchase_date",
        "store",
        "store_transaction_id",
        "display_name",
        "price",
    }
    assert bought["price"] == {"amount": 199.99, "currency": "USD"}
    assert subscriber["entitlements"]["pro"]["expires_date"] is None
    assert subscriber["entitlements"]["pro"]["product_identifier"] == "pro_lifetime"


async def test_an_expired_entitlement_is_still_shown(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    await shop.act("cancel", "ada", "pro_monthly")
    shop.clock.now += 40 * DAY
    reply = (await shop.v1("ada")).json()
    assert reply["request_date_ms"] == NOW + 40 * DAY
    # After the end it is rounded down, so that no reader gains the rest of a second.
    assert reply["subscriber"]["entitlements"]["pro"]["expires_date"] == "2027-02-15T08:00:00Z"
    assert reply["subscriber"]["subscriptions"]["pro_monthly"]["unsubscribe_detected_at"] == BOUGHT


async def test_an_id_is_decoded_exactly_once(shop: Shop) -> None:
    for name in ("100%", "a%2Fb", "ünïcödé 🎟", "a+b", "a b", "a?b#c", "...", "a;b=c,d"):
        await shop.note(name, plan="x")
        reply = await shop.v1(quote(name, safe=""))
        assert reply.status == 200, name
        assert reply.json()["subscriber"]["original_app_user_id"] == name


async def test_head_creates_nobody(shop: Shop) -> None:
    before = await count_rows(shop)
    for path in ("", "/offerings", "/virtual_currencies"):
        for key in (shop.public, shop.secret):
            reply = await shop.client.request("HEAD", f"/v1/subscribers/nobody{path}", key=key)
            # To an app, an unknown user has 0 coins.
            known = path == "/offerings" or (path == "/virtual_currencies" and key == shop.public)
            assert reply.status == (200 if known else 404)
            assert reply.body == b""
    assert await count_rows(shop) == before
    assert (await shop.v1("nobody", key=shop.public)).status == 201
    reply = await shop.client.request("HEAD", "/v1/subscribers/nobody", key=shop.public)
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("kind", ["public", "secret", "reader"])
async def test_a_read_of_an_unknown_id_creates_it_once(shop: Shop, kind: str) -> None:
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    key = {"public": shop.public, "secret": shop.secret, "reader": reader.plaintext}[kind]
    replies = await asyncio.gather(*(shop.v1("newcomer", key=key) for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [200, 200, 200, 200, 201]
    made = replies[0].json()["subscriber"]
    assert all(reply.json()["subscriber"] == made for reply in replies)
    assert (made["original_app_user_id"], made["first_seen"], made["last_seen"]) == ("newcomer", BOUGHT, BOUGHT)
    assert made.get("subscriber_attributes") == (None if kind == "public" else {})
    before = await count_rows(shop)
    shop.clock.now += DAY
    assert (await shop.v1("newcomer", key=key)).status == 200
    assert await count_rows(shop) == before
    assert await types_told(shop, "newcomer") == []


async def test_requests_that_meet_each_get_their_own_answer(shop: Shop) -> None:
    for n in range(20):
        await shop.note(f"user {n}", number=str(n))
    ids = [f"user%20{n}" for n in range(20)]
    replies = await asyncio.gather(
        *(shop.v1(id) for id in ids), shop.v1("nobody"), shop.v1("ada", key="sk_wrong"), shop.v1("null")
    )
    numbers = [reply.json()["subscriber"]["subscriber_attributes"]["number"]["value"] for reply in replies[: len(ids)]]
    assert numbers == [str(n) for n in range(20)]
    assert [reply.status for reply in replies[len(ids) :]] == [201, 401, 400]


PATH = "/v2/projects/proj_demo/customers/ada"


async def test_the_id_is_the_current_one_whichever_alias_was_asked_for(shop: Shop) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    await shop.act("purchase", anonymous, "pro_monthly")
    await identities.log_in(shop.changes, shop.project_id, anonymous, "ada@ü")
    body = (await shop.v2(quote(anonymous))).json()
    assert body["id"] == "ada@ü"
    assert body["attributes"]["url"] == "/v2/projects/proj_demo/customers/ada%40%C3%BC/attributes"
    assert (await shop.v2("ada%40%C3%BC")).json() == body


async def test_a_list_is_paged_forward_by_paths_that_can_be_followed_as_they_are(shop: Shop) -> None:
    names = [f"name {n:02}" for n in range(45)] + ["$email"]
    await shop.note("a:d a", **{name.replace("$", "__"): "x@y" for name in names})
    first = (await shop.v2("a%3Ad%20a")).json()["attributes"]
    assert len(first["items"]) == 20
    assert first["next_page"] == ("/v2/projects/proj_demo/customers/a%3Ad%20a/attributes?starting_after=name%2018")
    seen, page = [item["name"] for item in first["items"]], first
    while page["next_page"]:
        page = (await shop.client.get(page["next_page"])).json()
        assert page["object"] == "list"
        assert page["url"] == first["url"]
        seen += [item["name"] for item in page["items"]]
    assert seen == sorted(names)


async def test_a_page_has_as_many_items_as_asked_for_and_so_has_the_next(shop: Shop) -> None:
    await shop.note("ada", **{f"n{n}": "x" for n in range(7)})
    page = (await shop.v2("ada", "/attributes?limit=3")).json()
    assert [item["name"] for item in page["items"]] == ["n0", "n1", "n2"]
    assert page["next_page"] == f"{PATH}/attributes?limit=3&starting_after=n2"
    page = (await shop.client.get(page["next_page"])).json()
    assert [item["name"] for item in page["items"]] == ["n3", "n4", "n5"]
    assert (await shop.v2("ada", "/attributes?limit=100")).json()["next_page"] is None


async def test_a_cursor_whose_item_is_gone_still_marks_its_place(shop: Shop) -> None:
    await shop.note("ada", a="1", c="3")
    page = (await shop.v2("ada", "/attributes?starting_after=b")).json()
    assert [item["name"] for item in page["items"]] == ["c"]
    assert (await shop.v2("ada", "/attributes?starting_after=z")).json()["items"] == []


async def test_the_active_entitlements_are_paged_too(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    page = (await shop.v2("ada", "/active_entitlements?limit=1")).json()
    assert [item["entitlement_id"] for item in page["items"]] == ["pro"]
    page = (await shop.client.get(page["next_page"])).json()
    assert [item["entitlement_id"] for item in page["items"]] == ["team"]
    assert page["next_page"] is None


async def test_an_empty_id_has_its_own_code(steady_shop: Shop) -> None:
    for path in ("/v1/subscribers/", "/v1/subscribers/%20"):
        reply = await steady_shop.client.get(path)
        assert (reply.status, reply.json()["code"]) == (400, 7220)


async def test_a_slash_that_is_encoded_twice_is_an_ordinary_id(steady_shop: Shop) -> None:
    assert (await steady_shop.v2("a%252Fb")).status == 404


@pytest.mark.parametrize("limit", ["0", "-1", "abc", "", "1.5", "1e1"])
async def test_a_limit_that_is_no_number_from_1_on_is_refused_by_name(steady_shop: Shop, limit: str) -> None:
    await steady_shop.note("ada", plan="x")
    reply = await steady_shop.v2("ada", f"/attributes?limit={limit}")
    assert reply.status == 400
    assert (reply.json()["type"], reply.json()["param"]) == ("parameter_error", "limit")


@pytest.mark.parametrize("cursor", ["%00", "a%00b", "x" * 501])
async def test_a_cursor_that_no_page_gave_out_is_refused(steady_shop: Shop, cursor: str) -> None:
    await steady_shop.note("ada", plan="x")
    reply = await steady_shop.v2("ada", f"/attributes?starting_after={cursor}")
    assert (reply.status, reply.json()["param"]) == (400, "starting_after")


async def test_a_bad_id_with_a_bad_key_is_first_of_all_a_bad_key(steady_shop: Shop) -> None:
    assert (await steady_shop.v1("null", key="sk_wrong")).status == 401
    assert (await steady_shop.v2("null", key="sk_wrong")).status == 401


@pytest.mark.parametrize("more", ["", "/attributes", "/active_entitlements"])
async def test_an_unknown_customer_is_404(steady_shop: Shop, more: str) -> None:
    reply = await steady_shop.v2("nobody", more)
    assert reply.status == 404
    assert reply.json()["type"] == "resource_missing"
    assert reply.json()["retryable"] is False


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/v1/subscribers/ada/nothing", "/v1/subscribers/a/b/c/d"]
)
async def test_a_path_where_nothing_lives_is_404_in_v1s_body(steady_shop: Shop, path: str) -> None:
    reply = await steady_shop.client.get(path)
    assert reply.status == 404
    assert set(reply.json()) == {"code", "message"}


@pytest.mark.parametrize(
    "path", ["/", "/v2", "/v2/nothing", "/v3/x", "/nothing", "/v2/projects/proj_demo/customers/ada/x", "//"]
)
async def test_a_path_where_nothing_lives_is_404_in_v2s_body(steady_shop: Shop, path: str) -> None:
    reply = await steady_shop.client.get(path)
    assert (reply.status, reply.json()["object"], reply.json()["type"]) == (404, "error", "resource_missing")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "OPTIONS", "BREW"])
async def test_a_method_that_a_read_does_not_know_is_405_and_says_which_it_does(steady_shop: Shop, method: str) -> None:
    reply = await steady_shop.client.request(method, "/v1/subscribers/ada")
    assert reply.status == 405
    assert {"GET", "HEAD"} <= set(reply.headers["allow"].split(", "))
    assert method not in reply.headers["allow"].split(", ")
    assert set(reply.json()) == {"code", "message"}
    reply = await steady_shop.client.request(method, "/v2/projects/proj_demo/customers/ada/attributes")
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD, POST"
    assert reply.json()["type"] == "invalid_request"
