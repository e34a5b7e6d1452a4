"""Google's certificates are kept as long as Google says, and asked for again when a key is new."""

import asyncio

import pytest

from latchkey.domain.instants import HOUR, MINUTE, SECOND
from latchkey.emulators.google.google_keys import SigningKey, make_signing_key
from latchkey.stores.errors import StoreDown
from latchkey.stores.google.push import LONGEST, SHORTEST, STALE, UNSAID, GoogleCertificates, lifetime
from latchkey.stores.http import StoreResponse
from tests.stores.google.play import HOST, Play

URL = f"https://{HOST}/certs"


@pytest.fixture
def certificates(play: Play) -> GoogleCertificates:
    return GoogleCertificates(play, lambda: play.now)


@pytest.mark.parametrize(
    ("headers", "kept_for"),
    [
        ({"cache-control": "public, max-age=21600, must-revalidate"}, 6 * HOUR),
        ({"cache-control": "max-age=21600", "age": "3600"}, 5 * HOUR),
        ({"cache-control": "Max-Age = 21600"}, 6 * HOUR),
        ({"cache-control": "no-cache"}, UNSAID),
        ({"cache-control": "max-age=0"}, SHORTEST),
        ({"cache-control": "max-age=999999999"}, LONGEST),
        ({"cache-control": "max-age=x"}, UNSAID),
        ({"cache-control": "max-age=21600", "age": "-1"}, 6 * HOUR),
        ({}, UNSAID),
    ],
)
def test_they_are_kept_as_long_as_google_says(headers: dict[str, str], kept_for: int) -> None:
    assert lifetime(headers) == kept_for


async def test_they_are_fetched_again_when_their_time_is_over(
    play: Play, certificates: GoogleCertificates, keys: SigningKey
) -> None:
    assert await certificates.find(URL, keys.kid)
    play.now += 6 * HOUR - 1
    assert await certificates.find(URL, keys.kid)
    assert len(play.calls) == 1
    play.now += 1
    assert await certificates.find(URL, keys.kid)
    assert len(play.calls) == 2


async def test_many_at_once_ask_once(play: Play, certificates: GoogleCertificates, keys: SigningKey) -> None:
    found = await asyncio.gather(*(certificates.find(URL, keys.kid) for _ in range(20)))
    assert len(set(found)) == len(play.calls) == 1


async def test_a_new_key_is_found_without_waiting_for_the_old_ones_to_expire(
    play: Play, certificates: GoogleCertificates, keys: SigningKey
) -> None:
    assert await certificates.find(URL, keys.kid)
    play.keys = make_signing_key()
    assert await certificates.find(URL, play.keys.kid) is None, "asked a moment ago"
    play.now += MINUTE
    assert await certificates.find(URL, play.keys.kid)
    assert len(play.calls) == 2


async def test_known_keys_still_count_for_a_day_when_google_is_down(
    play: Play, certificates: GoogleCertificates, keys: SigningKey
) -> None:
    assert await certificates.find(URL, keys.kid)
    play.refuse = lambda path: StoreResponse(500, {}, b"")
    play.now += 6 * HOUR + HOUR
    assert await certificates.find(URL, keys.kid)
    with pytest.raises(StoreDown):
        await certificates.find(URL, "another")
    assert len(play.calls) == 2, "after a failure Google is left alone for some seconds"
    play.now += STALE
    with pytest.raises(StoreDown):
        await certificates.find(URL, keys.kid)


@pytest.mark.parametrize(
    "answer",
    [
        StoreResponse(404, {}, b"{}"),
        StoreResponse(200, {}, b"<html>"),
        StoreResponse(200, {}, b"{}"),
        StoreResponse(200, {}, b'{"kid": "no certificate"}'),
        StoreResponse(200, {}, b'{"kid": 5}'),
    ],
)
async def test_what_is_not_a_list_of_certificates_counts_as_no_answer(
    play: Play, certificates: GoogleCertificates, answer: StoreResponse
) -> None:
    play.refuse = lambda path: answer
    with pytest.raises(StoreDown):
        await certificates.find(URL, "kid")
    play.refuse = lambda path: None
    play.now += 5 * SECOND
    assert await certificates.find(URL, play.keys.kid)


async def test_each_address_has_its_own(play: Play, certificates: GoogleCertificates, keys: SigningKey) -> None:
    assert await certificates.find(URL, keys.kid)
    assert await certificates.find(URL + "?other", keys.kid)
    assert len(play.calls) == 2
