"""The service account's key: checked with a real call, and exchanged for one access token at a time."""

import asyncio
import time

import pytest

from latchkey.domain.instants import MINUTE, Ms
from latchkey.emulators.google.google_keys import SigningKey
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import CredentialsRefused, StoreDown, StoreError
from latchkey.stores.google.publisher import AccessTokens
from latchkey.stores.http import StoreResponse
from tests.stores.google.play import Play, connected, error

# Credentials.


async def test_good_ones_are_good(play: Play) -> None:
    await play.adapter.check_credentials(play.app)
    assert play.calls == ["POST /token", "GET /purchases/voidedpurchases"]


@pytest.mark.parametrize(
    ("path", "answer", "expected", "said"),
    [
        ("/token", StoreResponse(400, {}, b'{"error": "invalid_grant"}'), CredentialsRefused, "invalid_grant"),
        ("/token", StoreResponse(401, {}, b'{"error": "a b"}'), CredentialsRefused, "401"),
        ("/token", StoreResponse(400, {}, b"<html>"), StoreDown, "unexpected form"),
        ("/token", StoreResponse(404, {}, b""), StoreDown, "404"),
        ("/token", StoreResponse(503, {}, b""), StoreDown, "503"),
        ("/token", StoreResponse(200, {}, b'{"access_token": "a\\nb"}'), StoreDown, "unexpected form"),
        ("/purchases", error(403, "permissionDenied"), CredentialsRefused, "permissionDenied"),
        ("/purchases", error(404, "applicationNotFound"), CredentialsRefused, "package_name"),
        ("/purchases", error(404), CredentialsRefused, "package_name"),
        ("/purchases", error(500), StoreDown, "500"),
    ],
)
async def test_bad_ones_are_refused_and_an_outage_is_no_refusal(
    play: Play, path: str, answer: StoreResponse, expected: type[StoreError], said: str
) -> None:
    play.refuse = lambda asked: answer if asked.startswith(path) else None
    with pytest.raises(expected, match=said):
        await play.adapter.check_credentials(play.app)


async def test_a_refused_key_can_be_checked_again_at_once(play: Play) -> None:
    play.refuse = lambda path: StoreResponse(400, {}, b'{"error": "invalid_grant"}') if path == "/token" else None
    with pytest.raises(CredentialsRefused):
        await play.adapter.check_credentials(play.app)
    play.refuse = lambda path: None
    await play.adapter.check_credentials(play.app)


# Access tokens.


@pytest.fixture
def clock() -> list[Ms]:
    return [time.time_ns() // 1_000_000]


@pytest.fixture
def tokens(play: Play, clock: list[Ms]) -> AccessTokens:
    return AccessTokens(play, lambda: clock[0])


async def test_one_is_kept_until_two_minutes_before_its_end(tokens: AccessTokens, play: Play, clock: list[Ms]) -> None:
    first = await tokens.get(play.app)
    clock[0] += 3599_000 - 2 * MINUTE - 1
    assert await tokens.get(play.app) == first
    clock[0] += 1
    play.refuse = lambda path: StoreResponse(200, {}, b'{"access_token": "access-next"}')
    assert await tokens.get(play.app) == "access-next"


async def test_many_at_once_ask_once(tokens: AccessTokens, play: Play) -> None:
    found = await asyncio.gather(*(tokens.get(play.app) for _ in range(20)))
    assert len(set(found)) == 1
    assert play.calls == ["POST /token"]


async def test_new_credentials_get_a_new_one(tokens: AccessTokens, keys: SigningKey) -> None:
    app = connected(keys)
    newer = ConnectedApp(
        project_id=app.project_id, app_id=app.app_id, store=app.store, credentials=app.credentials, version=2
    )
    assert await tokens.get(app) != await tokens.get(newer)


async def test_a_refused_one_is_replaced_once(play: Play) -> None:
    play.buy()
    await play.read_receipt()
    refusals = [error(401, "authError")]
    play.refuse = lambda path: refusals.pop() if path.startswith("/purchases") and refusals else None
    assert (await play.read_receipt()).seen
    assert play.calls.count("POST /token") == 2


async def test_a_refused_key_is_not_tried_at_every_call(tokens: AccessTokens, play: Play, clock: list[Ms]) -> None:
    play.refuse = lambda path: StoreResponse(400, {}, b'{"error": "invalid_grant"}')
    for _ in range(5):
        with pytest.raises(CredentialsRefused):
            await tokens.get(play.app)
    assert len(play.calls) == 1
    clock[0] += MINUTE
    play.refuse = lambda path: None
    assert await tokens.get(play.app)
