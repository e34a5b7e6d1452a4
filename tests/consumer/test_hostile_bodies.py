"""Bodies that nobody honest sends: documented answers, and nothing written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json

from latchkey.consumer.event import Fields, Malformed, read
from tests.consumer.world import SECRET, World, event, world

BODY = {"error": "Invalid webhook body"}
EVENT = {"error": "Invalid event structure"}

NOT_OBJECTS = (
    b"",
    b" ",
    b"not json",
    b"[]",
    b'[{"event": {}}]',
    b"null",
    b"1",
    b'"x"',
    b"{",
    b"\xff\xfe",
    b"[" * 100_000,
)
NO_EVENT: tuple[Any, ...] = ({}, {"event": None}, {"Event": {"type": "RENEWAL"}}, {"api_version": "1.0"})
NOT_EVENTS: tuple[Any, ...] = ([], "x", 1, True, {}, {"type": "RENEWAL"}, {"app_user_id": "ada"})
WRONG = {
    str: (1, 1.5, True, [], {}, "x" * 300, "\0"),
    int: ("1", 1.5, True, [], {}, 10**30, -(10**30)),
    float: ("1", True, [], {}),
    bool: ("true", 1, [], {}),
    list: ("x", 1, {}, [1], [None], [[]], ["x" * 300], ["\0"]),
    dict: ("x", 1, [], {"pro": 1}, {"pro": []}, {"\0": {}}, {"x" * 300: {}}),
}
KINDS = {
    "id": str, "type": str, "app_user_id": str, "original_app_user_id": str, "aliases": list, "product_id": str,
    "new_product_id": str, "period_type": str, "purchased_at_ms": int, "expiration_at_ms": int,
    "original_purchase_date_ms": int, "event_timestamp_ms": int, "environment": str, "store": str,
    "entitlements": dict, "subscriber_attributes": dict, "price": float, "price_in_purchased_currency": float,
    "currency": str, "takehome_percentage": float, "is_trial_conversion": bool, "cancellation_reason": str,
    "expiration_reason": str, "grace_period_expires_at_ms": int, "auto_resume_at_ms": int, "transferred_from": list,
    "transferred_to": list, "amount": int, "transaction_type": str, "experiment_id": str, "variant_id": str,
    "sequence": int,
}  # fmt: skip
INSIDE: tuple[Any, ...] = (
    {"entitlements": {"pro": {"expires_date": "tomorrow"}}},
    {"entitlements": {"pro": {"expires_date": 5}}},
    {"entitlements": {"pro": {"expires_date": ""}}},
    {"entitlements": {"pro": {"purchase_date": "2027-99-99T00:00:00Z"}}},
    {"entitlements": {"pro": {"product_identifier": ["x"]}}},
    {"entitlements": {"pro": {"product_identifier": "a\0b"}}},
    {"entitlements": {"pro": None}},
    {"subscriber_attributes": {"$email": {"value": 5}}},
    {"subscriber_attributes": {"$email": "a@b.c"}},
    {"subscriber_attributes": {"$email": {"value": "a\0b"}}},
)


@pytest.fixture(scope="module")
async def silent(short_folder: Any) -> AsyncIterator[World]:
    """One consumer for all: what is refused leaves nothing behind."""
    async with world(f"sqlite:///{short_folder}/hostile.db") as made:
        yield made
        assert sum((await made.counts()).values()) == 0


def test_every_field_of_the_event_has_a_kind_here() -> None:
    assert set(KINDS) == set(Fields.__struct_fields__)


@pytest.mark.parametrize("body", NOT_OBJECTS)
async def test_what_is_no_json_object_is_no_webhook_body(silent: World, body: bytes) -> None:
    reply = await silent.post(body)
    assert (reply.status, reply.json()) == (400, BODY)


@pytest.mark.parametrize("body", NO_EVENT)
async def test_without_an_event_each_variant_says_so_in_its_words(silent: World, sqlite_url: str, body: Any) -> None:
    reply = await silent.post(body)
    assert (reply.status, reply.json()) == (400, EVENT)
    async with world(sqlite_url, strict_body=False) as plain:
        reply = await plain.post(body)
        assert (reply.status, reply.json()) == (400, BODY)


@pytest.mark.parametrize("found", NOT_EVENTS)
async def test_an_event_needs_a_type_and_a_user(silent: World, found: Any) -> None:
    reply = await silent.post({"event": found})
    assert (reply.status, reply.json()) == (400, EVENT)


@pytest.mark.parametrize("field", KINDS)
async def test_a_field_of_the_wrong_type_is_refused_with_the_whole_event(silent: World, field: str) -> None:
    for value in WRONG[KINDS[field]]:
        reply = await silent.post({"event": {**event(), field: value}})
        assert (reply.status, reply.json()) == (400, EVENT), (field, value)


@pytest.mark.parametrize("inside", INSIDE)
async def test_so_is_one_deeper_down(silent: World, inside: Any) -> None:
    reply = await silent.post({"event": {**event(), **inside}})
    assert (reply.status, reply.json()) == (400, EVENT)


@pytest.mark.parametrize("field", sorted(set(KINDS) - {"type", "app_user_id"}))
async def test_null_stands_for_absent(on_sqlite: World, field: str) -> None:
    assert (await on_sqlite.deliver({**event(), field: None})).status == 200


async def test_ten_mebibytes_are_not_even_read(silent: World) -> None:
    before = silent.asking.bytes_read
    reply = await silent.post(b"x" * (10 * 1024 * 1024))
    assert (reply.status, reply.json()) == (413, {"error": "Payload too large"})
    assert silent.asking.bytes_read == before


async def test_a_body_that_hides_its_length_is_cut_off_at_the_limit(silent: World) -> None:
    before = silent.asking.bytes_read
    headers = {"authorization": f"Bearer {SECRET}"}
    chunks = (b"x" * 65_536 for _ in range(160))
    reply = await silent.asking.request("POST", "/webhooks/billing", body=chunks, key=None, headers=headers)
    assert reply.status == 413
    assert silent.asking.bytes_read - before <= 1024 * 1024 + 65_536


async def test_unknown_fields_may_nest_as_they_like(on_sqlite: World) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"x": [deep]}
    assert (await on_sqlite.deliver({**event(), "new_thing": deep})).status == 200


async def test_without_an_id_the_body_tells_copies_apart(on_sqlite: World) -> None:
    one = {**event(), "id": None}
    assert (await on_sqlite.deliver(one)).json()["message"] == "Event processed"
    assert (await on_sqlite.deliver(one)).json()["message"] == "Event already processed"
    assert (await on_sqlite.deliver({**one, "price": 5})).json()["message"] == "Event processed"


async def test_the_plain_variant_takes_an_event_without_type_and_sets_aside_one_without_user(sqlite_url: str) -> None:
    async with world(sqlite_url, strict_body=False) as plain:
        assert (await plain.deliver({**event(), "type": None})).json() == {"message": "Event processed"}
        reply = await plain.deliver({**event(), "app_user_id": None})
        assert (reply.status, set(reply.json())) == (200, {"message", "error"})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(KINDS)), anything, max_size=6), st.booleans())
def test_whatever_a_body_says_it_is_read_or_refused_and_never_breaks(fields: dict[str, Any], strict: bool) -> None:
    try:
        body = json.encode({"event": {**event(), **fields}})
    except UnicodeEncodeError:
        return
    with suppress(Malformed):
        read(body, strict=strict)
