"""Who may tell Latchkey something in Stripe's name, and what the journal keeps of it."""

import time
from typing import Any

import msgspec
import pytest
import stripe as library
from hypothesis import given as drawn
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic, StoreError
from latchkey.stores.stripe import api
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.stores.stripe.notification import EVENT_TYPES
from tests.stores.stripe.emulated_stripe import (
    OLD_SECRET,
    SECRET,
    START,
    SUB,
    EmulatedStripe,
    Json,
    connected,
    event,
    sent,
)

OBJECT = {"id": SUB, "object": "subscription", "metadata": {"secret": "of the customer"}}


def told(**more: Any) -> Json:
    return event("customer.subscription.updated", OBJECT, START) | more


def test_the_pinned_version_is_the_one_of_the_library() -> None:
    assert library.api_version == api.API_VERSION


def test_stripe_lists_all_types_that_matter_in_one_question() -> None:
    assert len(EVENT_TYPES) <= 20


async def test_the_journal_keeps_only_where_to_look(adapter: StripeAdapter, app: ConnectedApp) -> None:
    given = told()
    filed = await adapter.verify(app, sent(given))
    assert (filed.external_id, filed.kind) == (given["id"], "customer.subscription.updated")
    assert (filed.subject, filed.environment, filed.occurred_at) == (SUB, Environment.SANDBOX, START)
    assert msgspec.json.decode(filed.payload) == {
        "type": "customer.subscription.updated",
        "created": START // 1000,
        "subscription": SUB,
    }
    assert filed.checked["mode"] == "test"


@pytest.mark.parametrize(
    ("object", "subject"),
    [
        ({"object": "subscription", "id": SUB}, SUB),
        ({"object": "invoice", "parent": {"subscription_details": {"subscription": SUB}}}, SUB),
        ({"object": "invoice", "parent": {"subscription_details": {"subscription": {"id": SUB}}}}, SUB),
        ({"object": "invoice", "subscription": SUB}, SUB),
        ({"object": "invoice", "parent": None}, None),
        ({"object": "subscription_schedule", "subscription": SUB}, SUB),
        ({"object": "subscription_schedule", "subscription": None, "released_subscription": SUB}, SUB),
        ({"object": "checkout.session", "id": "cs_1"}, "cs_1"),
        ({"object": "charge", "id": "ch_1", "payment_intent": "pi_1"}, "pi_1"),
        ({"object": "charge", "id": "ch_1", "payment_intent": None}, "ch_1"),
        ({"object": "refund", "charge": "ch_1", "payment_intent": "pi_1"}, "pi_1"),
        ({"object": "dispute", "charge": "ch_1", "payment_intent": None}, "ch_1"),
        ({"object": "customer", "id": "cus_1"}, None),
        ({"object": "subscription", "id": "a/b"}, None),
        ({"object": "subscription", "id": 5}, None),
        ({}, None),
    ],
)
async def test_what_an_event_points_at(
    adapter: StripeAdapter, app: ConnectedApp, object: Json, subject: str | None
) -> None:
    assert (await adapter.verify(app, sent(event("some.type", object, START)))).subject == subject


@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET])
@pytest.mark.parametrize(
    "saved",
    [
        {"webhook_secret": SECRET, "previous_webhook_secret": OLD_SECRET},
        {"webhook_secret": [SECRET, OLD_SECRET]},
    ],
)
async def test_both_secrets_count_while_one_takes_the_place_of_the_other(
    adapter: StripeAdapter, secret: str, saved: Json
) -> None:
    assert (await adapter.verify(connected(adapter, **saved), sent(told(), secret))).subject == SUB


async def test_the_previous_secret_counts_only_where_it_is_given(adapter: StripeAdapter, app: ConnectedApp) -> None:
    with pytest.raises(NotAuthentic):
        await adapter.verify(app, sent(told(), OLD_SECRET))


@pytest.mark.parametrize(("age_s", "good"), [(0, True), (250, True), (330, False), (86_400, False)])
async def test_a_signature_may_be_five_minutes_old(
    adapter: StripeAdapter, app: ConnectedApp, age_s: int, good: bool
) -> None:
    incoming = sent(told(), age_s=age_s)
    if good:
        assert (await adapter.verify(app, incoming)).subject == SUB
    else:
        with pytest.raises(NotAuthentic, match="older than 300 seconds"):
            await adapter.verify(app, incoming)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "hello",
        "t=1",
        "v1=00",
        "t=NOW,v1=00",
        "t=NOW,v0=00",
        "t=x,v1=00",
        "t=99999999999999999999999999,v1=00",
        "t=" + "9" * 4000 + ",v1=00",
        "t=" + "9" * 5000 + ",v1=00",
        "=,=,=",
        "t=1,v1=é",
    ],
)
async def test_a_forged_header_is_refused(adapter: StripeAdapter, app: ConnectedApp, header: str) -> None:
    header = header.replace("NOW", str(int(time.time())))
    with pytest.raises(NotAuthentic) as refused:
        await adapter.verify(app, replace(sent(told()), headers={"stripe-signature": header}))
    assert SECRET not in refused.value.message


async def test_a_body_that_was_changed_is_refused(adapter: StripeAdapter, app: ConnectedApp) -> None:
    incoming = sent(told())
    for body in (incoming.body.replace(b"0001", b"0002"), incoming.body + b" ", b"", b"\xff\xfe"):
        with pytest.raises(NotAuthentic):
            await adapter.verify(app, replace(incoming, body=body))
    with pytest.raises(NotAuthentic, match="no Stripe-Signature"):
        await adapter.verify(app, replace(incoming, headers={}))


async def test_the_mode_of_an_event_must_be_the_mode_of_the_key(adapter: StripeAdapter, app: ConnectedApp) -> None:
    with pytest.raises(Misdirected, match="live mode"):
        await adapter.verify(app, sent(told(livemode=True)))
    live = connected(adapter, api_key="sk_live_aaaaaaaaaaaaaaaa")
    assert (await adapter.verify(live, sent(told(livemode=True)))).environment is Environment.PRODUCTION
    with pytest.raises(Misdirected, match="test mode"):
        await adapter.verify(live, sent(told()))


async def test_a_connected_account_is_not_the_accounts_own(adapter: StripeAdapter, app: ConnectedApp) -> None:
    with pytest.raises(Misdirected, match="connected account"):
        await adapter.verify(app, sent(told(account="acct_1")))


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b"null",
        b"5",
        b"not json",
        b"[" * 100_000,
        *(msgspec.json.encode(told(**{name: None})) for name in ("id", "type", "created", "data")),
    ],
)
async def test_what_is_signed_and_no_event_is_malformed(adapter: StripeAdapter, app: ConnectedApp, body: bytes) -> None:
    with pytest.raises(Malformed):
        await adapter.verify(app, sent(body))


async def test_an_absurd_id_or_time_is_malformed(adapter: StripeAdapter, app: ConnectedApp) -> None:
    for wrong in ({"id": "evt\n1"}, {"id": ""}, {"type": "A B"}, {"created": 10**15}, {"created": -(10**15)}):
        with pytest.raises(Malformed):
            await adapter.verify(app, sent(told(**wrong)))


async def test_a_body_without_end_is_malformed(adapter: StripeAdapter, app: ConnectedApp) -> None:
    with pytest.raises(Malformed, match="at most"):
        await adapter.verify(app, sent(b" " * (1024 * 1024 + 1)))


@drawn(body=st.binary(max_size=200), header=st.text(max_size=100))
async def test_random_bytes_never_lead_further(body: bytes, header: str) -> None:
    adapter = StripeAdapter(lambda: START, EmulatedStripe())
    incoming = replace(sent(told()), body=body, headers={"stripe-signature": header})
    with pytest.raises(StoreError):
        await adapter.verify(connected(adapter), incoming)
