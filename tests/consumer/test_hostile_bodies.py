"""Malformed bodies: an event with a type and a user is accepted, anything else is refused and nothing is written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json

from latchkey.consumer.api.http_endpoint import LARGEST_DISCARDED
from latchkey.consumer.rules.event_handlers import HANDLERS
from latchkey.consumer.rules.lenient_json import dumps
from latchkey.consumer.rules.received_event import EventFields, MalformedEvent, read, read_event
from latchkey.consumer.rules.timestamps import FIRST, LAST
from latchkey.consumer.storage.copy_tables import event_bodies
from tests.consumer.world import NOW, SECRET, World, both_databases, event, world, written

MIB = 1024 * 1024

BODY = {"error": "Invalid webhook body"}
EVENT = {"error": "Invalid event structure"}

NOT_OBJECTS = (
    b"", b" ", b"not json", b"[]", b'[{"event": {}}]', b"null", b"1", b'"x"', b"{", b"\xff\xfe", b"[" * 100_000,
)  # fmt: skip
NO_EVENT: tuple[Any, ...] = ({}, {"event": None}, {"Event": {"type": "RENEWAL"}}, {"api_version": "1.0"})
NOT_EVENTS: tuple[Any, ...] = ([], "x", 1, True, {}, {"type": "RENEWAL"}, {"app_user_id": "ada"})
# For each field, values of a wrong type, each with the value that the consumer uses.
UNUSABLE: Any = None
DEEP: Any = 1
for _ in range(200):
    DEEP = {"x": [DEEP]}
LONG = "x" * 300
TEXTS: tuple[tuple[Any, Any], ...] = (
    (7, "7"), (1.5, "1.5"), (True, UNUSABLE), ([], UNUSABLE), ({}, UNUSABLE), (DEEP, UNUSABLE),
)  # fmt: skip
INSTANTS: tuple[tuple[Any, Any], ...] = (
    ("12", 12), (12.0, 12), (10**30, LAST), (-(10**30), FIRST), ("soon", UNUSABLE), (True, UNUSABLE),
)  # fmt: skip
LISTS: tuple[tuple[Any, Any], ...] = (
    ("bob", ["bob"]), (7, ["7"]), (["a", 7, None, [], {}], ["a", "7"]), ({}, UNUSABLE), (True, UNUSABLE),
)  # fmt: skip
NUMBERS: tuple[tuple[Any, Any], ...] = (
    ("5", 5), (1.5, 1.5), ("1.5", 1.5), (10**30, UNUSABLE), (1e300, UNUSABLE), ([], UNUSABLE), (True, UNUSABLE),
)  # fmt: skip
TAKEN: dict[str, tuple[tuple[Any, Any], ...]] = {
    **dict.fromkeys(
        ("original_app_user_id", "product_id", "new_product_id", "period_type", "environment", "store", "currency",
         "transaction_type", "experiment_id", "variant_id"), TEXTS),
    **dict.fromkeys(
        ("purchased_at_ms", "expiration_at_ms", "original_purchase_date_ms", "event_timestamp_ms",
         "grace_period_expires_at_ms", "auto_resume_at_ms"), INSTANTS),
    **dict.fromkeys(("aliases", "transferred_from", "transferred_to"), LISTS),
    "amount": NUMBERS,
    "sequence": (("12", 12), (12.0, 12), (1.5, UNUSABLE), (10**30, UNUSABLE), ("x", UNUSABLE)),
    "is_trial_conversion": (("true", True), ("FALSE", False), (1, True), ("perhaps", UNUSABLE), ([], UNUSABLE)),
}  # fmt: skip
# Fields that the consumer does not read, so that nothing can be wrong with them.
NOT_READ = (
    "price", "price_in_purchased_currency", "takehome_percentage", "cancellation_reason", "expiration_reason",
)  # fmt: skip
ANYTHING_AT_ALL: tuple[Any, ...] = (
    None, True, 1, 1.5, -(10**30), 10**4000, "", "9.99", "\0", LONG, [], {}, [DEEP], {"\0": "\ud800"},
)  # fmt: skip
# Values that cannot be read as entitlements, so that the consumer asks V2.
NO_ENTITLEMENTS: tuple[Any, ...] = (
    None, "x", 1, [], {"pro": 1}, {"pro": []}, {"pro": None}, {"pro": {"expires_date": "tomorrow"}},
    {"pro": {"expires_date": 5}}, {"pro": {"expires_date": ""}}, {"pro": {"grace_period_expires_date": {}}},
)  # fmt: skip


@pytest.fixture(scope="module")
async def silent(short_folder: Any) -> AsyncIterator[World]:
    """One consumer for all refused bodies: none of them may write anything."""
    async with world(f"sqlite:///{short_folder}/hostile.db") as made:
        yield made
        assert sum((await made.counts()).values()) == 0


def test_every_field_that_is_read_is_tried_here() -> None:
    tried = {*TAKEN, "id", "type", "app_user_id", "entitlements", "subscriber_attributes"}
    assert tried == set(EventFields.__struct_fields__)


async def test_a_body_needs_an_event_and_an_event_a_type_and_a_user_as_texts(silent: World) -> None:
    no_text: tuple[Any, ...] = ("", None, 7, True, [], {}, ["ada"])
    events = [*NOT_EVENTS, *({**event(), field: value} for field in ("type", "app_user_id") for value in no_text)]
    for body, error in (
        *((body, BODY) for body in (*NOT_OBJECTS, *NO_EVENT)),
        *(({"event": found}, EVENT) for found in events),
    ):
        reply = await silent.post(body)
        assert (reply.status, reply.json()) == (400, error), str(body)[:100]


@pytest.mark.parametrize("field", TAKEN)
def test_a_field_of_another_type_is_used_where_its_meaning_is_clear(field: str) -> None:
    for value, used in TAKEN[field]:
        read_as = read_event(dumps({**event(), field: value}))
        assert getattr(read_as.fields, field) == used, value
        assert read_as.unread == ((field,) if used is UNUSABLE else ()), value


@both_databases
async def test_an_event_is_taken_whatever_its_fields_are(here: World) -> None:
    for field in (*TAKEN, *NOT_READ, "something_new", "id", "entitlements", "subscriber_attributes"):
        values = (*ANYTHING_AT_ALL, *(value for value, _ in TAKEN.get(field, ())))
        sent = [{**event(user=f"user{number}"), field: value} for number, value in enumerate(values)]
        # At once, so that the consumer takes several in one transaction.
        replies = await asyncio.gather(*(here.post(dumps({"event": body})) for body in sent))
        for value, reply in zip(values, replies, strict=True):
            assert (reply.status, set(reply.json())) == (200, {"message"}), (field, str(value)[:100])


@both_databases
async def test_what_cannot_be_used_is_kept_as_it_came(here: World) -> None:
    odd = event("EXPERIMENT_ENROLLMENT", experiment_id=[1, 2], variant_id="b")
    assert (await here.deliver(odd)).json() == {"message": "Event processed"}
    await here.deliver(event("EXPERIMENT_ENROLLMENT", experiment_id=7, variant_id=1.5))
    (kept,) = await here.rows(event_bodies)
    assert (kept["event_id"], kept["unread_fields"]) == (odd["id"], "experiment_id")
    assert json.decode(kept["body"]) == odd
    assert await here.consumer.experiments("ada") == {"7": "1.5"}


@both_databases
async def test_an_amount_counts_whatever_its_type(here: World) -> None:
    for amount in ("5", 1.5, 2, "0.25"):
        await here.deliver(event("VIRTUAL_CURRENCY_TRANSACTION", amount=amount, currency="COIN"))
    await here.deliver(event("VIRTUAL_CURRENCY_TRANSACTION", amount="3", currency="COIN", transaction_type="debit"))
    await here.deliver(event("VIRTUAL_CURRENCY_TRANSACTION", amount={}, currency="COIN"))
    assert await here.consumer.balances("ada") == {"COIN": 5.75}
    await here.deliver(event("VIRTUAL_CURRENCY_TRANSACTION", amount=0.25, currency="COIN"))
    assert (await here.get("/api/virtual-currencies")).body == b'{"virtualCurrencies":{"COIN":6}}'


@pytest.mark.parametrize("entitlements", NO_ENTITLEMENTS)
async def test_entitlements_that_cannot_be_read_take_nothing_away_and_v2_is_asked(
    here: World, entitlements: Any
) -> None:
    await here.deliver(event())
    here.service.holds["ada"] = {"premium": None}
    reply = await here.deliver(event("RENEWAL", entitlements=entitlements))
    assert (reply.status, reply.json()) == (200, {"message": "Event recorded"})
    assert (await here.copy()).subscription.is_active
    await here.jobs_done()
    assert set((await here.copy()).held(NOW)) == {"premium"}


@both_databases
async def test_long_and_strange_texts_are_stored_in_a_form_that_can_be(here: World) -> None:
    for user in ("u" * 5000, "u" * 4999 + "v", "a\0b", "a\0c"):
        one = event("T" * 300, user, id="e" + user, product_id="p" * 300, entitlements={"e" * 300: written(None)})
        assert (await here.post(dumps({"event": one}))).json() == {"message": "Event processed"}
        assert (await here.post(dumps({"event": one}))).json() == {"message": "Event already processed"}
        here.service.down = True
        assert (await here.get("/api/my-entitlements", user)).status == 200
    assert (await here.counts())["billing_subscriptions"] == 4


@both_databases
async def test_attributes_may_be_of_any_length_and_form(here: World) -> None:
    long = "a" * 5000 + "@b.c"
    for noted, email in (
        ({"value": long}, long),
        ("a@b.c", "a@b.c"),
        ({"value": 5}, "5"),
        ({"value": "a\0b"}, "a\ufffdb"),
    ):
        await here.deliver(event(subscriber_attributes={"$email": noted, "x" * 5000: {"value": [DEEP]}, "\0": 1}))
        assert (await here.copy()).subscription.email == email
    unusable: tuple[Any, ...] = ("x", 5, [], {"$email": {"value": []}}, {"$email": None})
    for nothing in unusable:
        assert (await here.deliver(event(subscriber_attributes=nothing))).status == 200


@pytest.mark.parametrize("deep", [400, 5_000, 100_000])
async def test_nesting_of_any_depth_is_taken(here: World, deep: int) -> None:
    body = dumps({"event": {**event(), "new_thing": "HERE"}}).replace(b'"HERE"', b"[" * deep + b"]" * deep)
    assert (await here.post(body)).json() == {"message": "Event processed"}
    number = dumps({"event": {**event(), "sequence": "HERE"}}).replace(b'"HERE"', b"9" * deep)
    assert (await here.post(number)).json() == {"message": "Event processed"}
    beside = dumps({"event": event(), "new_thing": "HERE"}).replace(b'"HERE"', b'{"x":' * deep + b"1" + b"}" * deep)
    assert (await here.post(beside)).json() == {"message": "Event processed"}


@both_databases
async def test_more_ids_than_a_statement_has_parameters_are_taken(here: World) -> None:
    names = [f"n{number}" for number in range(33_000)]
    assert (await here.deliver(event(aliases=names))).json() == {"message": "Event processed"}
    assert (await here.deliver(event("TRANSFER", transferred_from=names))).status == 200
    assert (await here.copy("n32999")).subscription.app_user_id == "ada"


async def test_a_body_that_is_too_large_is_read_to_its_end_and_refused(silent: World) -> None:
    before = silent.asking.bytes_read
    reply = await silent.post(b"x" * (10 * MIB))
    assert (reply.status, reply.json()) == (413, {"error": "Payload too large"})
    assert silent.asking.bytes_read - before == 10 * MIB


async def test_a_body_that_is_declared_far_too_large_is_not_read(silent: World) -> None:
    before = silent.asking.bytes_read
    reply = await silent.post(b"x" * 100, **{"content-length": str(LARGEST_DISCARDED + 1)})
    assert (reply.status, reply.json()) == (413, {"error": "Payload too large"})
    assert silent.asking.bytes_read == before


async def test_a_body_that_never_ends_is_cut_off(silent: World) -> None:
    before = silent.asking.bytes_read
    headers = {"authorization": f"Bearer {SECRET}"}
    chunks = (b"x" * 65_536 for _ in range(1_000_000))
    reply = await silent.asking.request("POST", "/webhooks/billing", body=chunks, key=None, headers=headers)
    assert reply.status == 413
    assert silent.asking.bytes_read - before <= LARGEST_DISCARDED + 65_536


async def test_without_an_id_the_body_tells_copies_apart(here: World) -> None:
    one = {**event(), "id": None}
    assert (await here.deliver(one)).json()["message"] == "Event processed"
    assert (await here.deliver(one)).json()["message"] == "Event already processed"
    assert (await here.deliver({**one, "price": 5})).json()["message"] == "Event processed"


texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=400)
numbers = st.integers() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts | st.sampled_from(["\0", "2027-01-15T08:00:00Z", "12"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(sorted({*EventFields.__struct_fields__, *NOT_READ} - {"type", "app_user_id"})) | texts
named = st.sampled_from(["ada", "bob"]) | texts.filter(bool)
events = st.dictionaries(fields, anything, max_size=8)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_any_object_with_a_type_and_a_user_gets_200(request: pytest.FixtureRequest, database: str) -> None:
    url = request.getfixturevalue(f"{database}_url")
    # A loop of its own: Hypothesis calls a plain function many times.
    with asyncio.Runner() as runner:
        opened = world(url)
        here = runner.run(opened.__aenter__())

        @settings(deadline=None, suppress_health_check=list(HealthCheck))
        @given(events, st.sampled_from(sorted(HANDLERS)) | named, named, st.booleans())
        def taken(odd: dict[str, Any], type: str, user: str, whole: bool) -> None:
            sent = {**(event() if whole else {}), **odd, "type": type, "app_user_id": user}
            reply = runner.run(here.post(dumps({"event": sent})))
            assert (reply.status, set(reply.json())) == (200, {"message"})

        try:
            taken()
            assert runner.run(here.counts())["billing_events_set_aside"] == 0
        finally:
            runner.run(opened.__aexit__(None, None, None))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60) | anything.map(dumps))
def test_whatever_a_body_is_it_is_read_or_refused_and_never_breaks(body: bytes) -> None:
    for sent in (body, b'{"event":' + body + b"}"):
        with suppress(MalformedEvent):
            read(sent)
