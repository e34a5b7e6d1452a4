"""The client as its callers use it."""

import pytest
from pyreqwest.middleware.asgi import ASGITestMiddleware

from latchkey.client.client import Client
from latchkey.client.client_errors import ApiError, BadAnswer, NotFound, RateLimited, Unreachable, UnusableId
from latchkey.http_client import HttpClient
from latchkey.wire.v2 import ActiveEntitlement
from tests.client.service import DOWN, SLOW, Says, Script, Time, active, client, customer, endless, page
from tests.http.client import NOW, Shop

OK = Says(200, customer(active("pro", 5)))


async def test_a_customer_comes_back_typed_and_is_asked_for_with_the_key() -> None:
    script = Script([OK])
    async with client(script) as asking:
        found = await asking.customer("$RCAnonymousID:0f/ä%")
    assert found.active_entitlements.items[0].entitlement_id == "pro"
    # Ids are percent-encoded once.
    assert script.asked == ["/v2/projects/p%201/customers/%24RCAnonymousID%3A0f%2F%C3%A4%25"]
    assert script.headers[0]["authorization"] == "Bearer sk_key"
    assert script.headers[0]["content-type"] == "application/json"


@pytest.mark.parametrize("id", [".", ".."])
async def test_ids_with_a_meaning_in_paths_are_refused_before_anything_is_sent(id: str) -> None:
    script = Script([OK])
    async with client(script) as asking:
        with pytest.raises(UnusableId):
            await asking.customer(id)
    assert script.asked == []


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        ([Says(429, {}, {"Retry-After": "7"}), OK], [7]),
        ([Says(429), Says(429), OK], [60, 120]),
        ([DOWN, Says(503), SLOW, OK], [0.125, 0.25, 0.5]),
    ],
)
async def test_a_read_is_retried_after_the_wait_that_the_error_asks_for(
    answers: list[Says | str], waits: list[float]
) -> None:
    time = Time()
    async with client(Script(answers), time, deadline=300) as asking:
        await asking.customer("ada")
    assert time.waits == waits


async def test_waiting_ends_at_the_deadline_and_never_beyond_it() -> None:
    time = Time(fraction=1.0)
    async with client(Script([DOWN]), time, deadline=2) as asking:
        with pytest.raises(Unreachable, match="Connection refused") as refused:
            await asking.customer("ada")
    assert sum(time.waits) < 2
    assert refused.value.status is None


async def test_a_wait_longer_than_the_deadline_is_not_begun_and_is_in_the_error() -> None:
    time = Time()
    async with client(Script([Says(429, {}, {"Retry-After": "45"})]), time) as asking:
        with pytest.raises(RateLimited) as refused:
            await asking.customer("ada")
    assert time.waits == []
    assert (refused.value.status, refused.value.retry_after) == (429, 45)


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (401, ApiError), (403, ApiError), (418, ApiError)])
async def test_other_errors_carry_their_status_and_are_not_asked_again(status: int, kind: type[ApiError]) -> None:
    script = Script([Says(status, {"type": "resource_missing", "message": "no"})])
    async with client(script) as asking:
        with pytest.raises(kind) as refused:
            await asking.subscriber("ada")
    assert refused.value.status == status
    assert refused.value.message == "no"
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>404</html>", b"[]", b'{"message":"Not Found"}', b'{"message":1,"type":"a"}']
)
async def test_a_404_of_a_proxy_says_nothing_about_the_customer(body: bytes) -> None:
    async with client(Script([Says(404, body)])) as asking:
        with pytest.raises(ApiError) as refused:
            await asking.customer("ada")
    assert (type(refused.value), refused.value.status, refused.value.message) == (ApiError, 404, "")


# Neither is a DecodeError of msgspec.
ODD = [b'{"message":"\xff"}', b'{"message":' + b"[" * 100_000]


@pytest.mark.parametrize("body", ODD)
async def test_an_error_that_cannot_be_decoded_keeps_its_status(body: bytes) -> None:
    async with client(Script([Says(418, body)])) as asking:
        with pytest.raises(ApiError) as refused:
            await asking.customer("ada")
    assert (refused.value.status, refused.value.message) == (418, "")


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"object":"customer"}', *ODD])
async def test_an_answer_that_is_not_what_was_promised_is_an_error_of_its_own(body: bytes) -> None:
    async with client(Script([Says(200, body)])) as asking:
        with pytest.raises(BadAnswer):
            await asking.customer("ada")


async def test_an_answer_without_end_is_not_waited_for() -> None:
    async with Client("https://service.test", "sk_key", project_id="p", _http=HttpClient(middleware=endless)) as asking:
        with pytest.raises(BadAnswer):
            await asking.customer("ada")


async def test_lists_are_walked_to_their_end() -> None:
    script = Script([Says(200, page(active("a"), next_page="/v2/next?starting_after=a")), Says(200, page(active("b")))])
    async with client(script) as asking:
        assert [active.entitlement_id async for active in asking.active_entitlements("ada")] == ["a", "b"]
    assert script.asked[1] == "/v2/next?starting_after=a"


async def test_a_cursor_that_leads_back_to_itself_is_not_followed_for_ever() -> None:
    script = Script([Says(200, page(active("a"), next_page="/v2/next?starting_after=a"))])
    async with client(script) as asking:
        with pytest.raises(BadAnswer):
            _ = [item async for item in asking.active_entitlements("ada")]
    assert len(script.asked) == 2


async def test_the_rest_of_an_embedded_list_is_read_on() -> None:
    first = {**customer(active("a")), "active_entitlements": page(active("a"), next_page="/v2/more")}
    async with client(Script([Says(200, first), Says(200, page(active("b")))])) as asking:
        found = await asking.customer("ada")
        more = await asking.rest(found.active_entitlements, ActiveEntitlement)
    assert [item.entitlement_id for item in more] == ["b"]


@pytest.mark.parametrize(
    "url",
    [
        "http://billing.example.com",
        "http://localhost",
        "http://127.0.0.1:8443",
        "http://[::1]",
        "ftp://x",
        "billing.example.com",
        "https://",
    ],
)
def test_a_key_is_never_sent_in_the_clear(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        Client(url, "sk_key")


async def test_v2_without_a_project_is_a_mistake_that_says_so() -> None:
    async with Client("https://service.test", "sk_key", _http=HttpClient(middleware=Script([OK]))) as asking:
        with pytest.raises(ValueError, match="project_id"):
            await asking.customer("ada")


async def test_the_real_service_is_understood(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    await shop.act("cancel", "ada", "pro_monthly")
    http = HttpClient(middleware=ASGITestMiddleware(shop.client.app))
    async with Client("https://localhost", shop.secret, project_id=shop.project_id, _http=http) as asking:
        found = await asking.customer("ada")
        assert [item.entitlement_id for item in found.active_entitlements.items] == ["pro"]
        assert await asking.customer_as_of("ada") == (found, 2)
        response = await asking.subscriber("ada")
        assert response.request_date_ms == NOW
        assert response.subscriber.entitlements["pro"].product_identifier == "pro_monthly"
        happened = [event async for event in asking.events()]
        assert [event.type for event in happened] == ["INITIAL_PURCHASE", "CANCELLATION"]
        page = await asking.event_page(after=happened[0].id)
        assert len(page.items) == 1
        with pytest.raises(NotFound):
            await asking.customer("nobody")
