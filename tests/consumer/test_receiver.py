"""POST /webhooks/billing: the nine steps of the specification, and every row of its table of errors."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import column, func, select, table
from standardwebhooks import Webhook

from latchkey.consumer.rules import event_handlers
from latchkey.consumer.rules.timestamps import DAY
from latchkey.consumer.storage import consumer_database
from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from tests.consumer.world import NOW, SECRET, World, both_databases, event, pro, world
from tests.http.client import Client as Asking
from tests.http.client import Reply


@both_databases
async def test_a_purchase_grants_access_at_once(here: World) -> None:
    reply = await here.deliver(event(subscriber_attributes={"$email": {"value": "ada@x.y", "updated_at_ms": 1}}))
    assert (reply.status, reply.json()) == (200, {"message": "Event processed"})
    copy = await here.copy()
    one = copy.subscription
    assert (one.is_active, one.subscription_status, one.product_id) == (True, "active", "pro_monthly")
    assert (one.email, one.external_user_id) == ("ada@x.y", "ada@x.y")
    assert (one.expires_at, one.purchased_at) == (NOW + 30 * DAY, NOW)
    assert (one.store, one.environment, one.last_webhook_event_type) == ("app_store", "PRODUCTION", "INITIAL_PURCHASE")
    assert one.entitlements == pro()
    row = copy.entitlements["pro"]
    assert (row.is_active, row.expires_at, row.product_id, row.granted_at) == (True, NOW + 30 * DAY, "pro_monthly", NOW)
    assert (row.store, row.environment, row.purchase_date) == ("app_store", "PRODUCTION", NOW)


@pytest.mark.parametrize(
    "value", [None, "", "Bearer", "Bearer wrong", "wrong", "bearer " + SECRET, "Bearer  " + SECRET]
)
async def test_another_authorization_is_401_before_anything_else(here: World, value: str | None) -> None:
    headers = {"authorization": value} if value is not None else {}
    reply = await here.asking.request("POST", "/webhooks/billing", body=b"[", key=None, headers=headers)
    assert (reply.status, reply.json()) == (401, {"error": "Unauthorized"})
    assert here.asking.bytes_read == 0


async def test_the_leading_bearer_is_optional(here: World) -> None:
    assert (await here.deliver(event(), secret=None, authorization=SECRET)).status == 200


async def test_a_copy_of_an_event_is_200_and_changes_nothing(here: World) -> None:
    one = event()
    await here.deliver(one)
    before = await here.copy()
    here.clock.now += 1000
    reply = await here.deliver(one)
    assert (reply.status, reply.json()) == (200, {"message": "Event already processed"})
    assert await here.copy() == before


@both_databases
async def test_an_invoice_is_kept_as_the_whole_event(here: World) -> None:
    one = event("INVOICE_ISSUANCE", price=9.99, currency="EUR", something_new={"nested": [1]})
    await here.deliver(one)
    await here.deliver(one)
    (kept,) = await here.consumer.invoices("ada")
    assert msgspec.json.decode(kept)["something_new"] == {"nested": [1]}


@both_databases
async def test_a_hundred_copies_over_two_processes_are_processed_once(url: str) -> None:
    one = event("VIRTUAL_CURRENCY_TRANSACTION", amount=10, currency="COIN", transaction_type="credit")
    async with world(url) as left, world(url) as right:
        replies = await asyncio.gather(*(side.deliver(one) for _ in range(50) for side in (left, right)))
        assert [reply.json()["message"] for reply in replies].count("Event processed") == 1
        assert {reply.status for reply in replies} == {200}
        assert await left.consumer.balances("ada") == {"COIN": 10}
        assert (await left.copy()).subscription.revision == 1


@both_databases
async def test_events_of_one_user_at_two_processes_are_serialised(url: str) -> None:
    """Each event has a later end than the one before. The highest sequence wins, whatever the order of arrival."""
    events = [
        event("RENEWAL", sequence=number, entitlements=pro(NOW + number * DAY), expiration_at_ms=NOW + number * DAY)
        for number in range(1, 21)
    ]
    async with world(url) as left, world(url) as right:
        sides = [left, right] * 10
        replies = await asyncio.gather(*(side.deliver(one) for side, one in zip(sides, events, strict=True)))
        assert {reply.status for reply in replies} == {200}
        copy = await left.copy()
        assert copy.subscription.last_sequence == 20
        assert copy.entitlements["pro"].expires_at == NOW + 20 * DAY
        assert (await left.counts())["billing_processed_events"] == 20


@both_databases
async def test_a_late_event_is_recorded_and_the_user_read_anew(here: World) -> None:
    await here.deliver(event("RENEWAL", sequence=7))
    here.service.holds["ada"] = {"pro": NOW + 30 * DAY}
    reply = await here.deliver(event("EXPIRATION", sequence=6, entitlements={}))
    assert (reply.status, reply.json()) == (200, {"message": "Event recorded"})
    copy = await here.copy()
    assert copy.subscription.is_active
    assert copy.subscription.stale
    assert copy.subscription.last_webhook_event_type == "RENEWAL"
    await here.jobs_done()
    assert here.service.asked
    copy = await here.copy()
    assert (copy.subscription.is_active, copy.subscription.stale) == (True, False)
    assert (await here.counts())["billing_jobs"] == 0


async def test_a_late_credit_counts_all_the_same(here: World) -> None:
    await here.deliver(event("RENEWAL", sequence=7))
    await here.deliver(
        event("VIRTUAL_CURRENCY_TRANSACTION", sequence=3, amount=5, currency="COIN", transaction_type="debit")
    )
    assert await here.consumer.balances("ada") == {"COIN": -5}


async def test_an_event_that_a_read_had_already_included_is_applied_and_the_user_read_again(here: World) -> None:
    """bob's renewal is still on its way when his purchase is transferred to ada: he gets no event of the transfer."""
    await here.deliver(event(user="bob", sequence=1))
    here.service.holds |= {"bob": {}, "ada": {"pro": None}}
    here.service.sequences["bob"] = 2
    await here.deliver(event("TRANSFER", transferred_from=["bob"], sequence=1))
    await here.jobs_done()
    assert not (await here.copy("bob")).subscription.is_active
    assert (await here.deliver(event("RENEWAL", "bob", sequence=2))).json() == {"message": "Event processed"}
    assert (await here.get("/api/entitlement/pro", "bob")).json()["hasAccess"] is False
    await here.jobs_done()
    bob = (await here.copy("bob")).subscription
    assert (bob.is_active, bob.stale, bob.last_webhook_event_type) == (False, False, "RENEWAL")
    # What happens from now on is newer than what was read.
    await here.deliver(event("RENEWAL", "bob", sequence=3))
    assert (await here.counts())["billing_jobs"] == 0
    assert (await here.copy("bob")).subscription.is_active


async def test_every_type_is_taken_and_a_new_one_too(here: World) -> None:
    for type in (*event_handlers.HANDLERS, "SOMETHING_NEW"):
        assert (await here.deliver(event(type, user=type))).json() == {"message": "Event processed"}
        assert (await here.copy(type)).subscription.last_webhook_event_type == type


@both_databases
async def test_currency_and_experiments_are_kept_where_an_app_can_read_them(here: World) -> None:
    for amount, kind in ((100, "credit"), (30, "debit")):
        await here.deliver(event("VIRTUAL_CURRENCY_TRANSACTION", amount=amount, currency="COIN", transaction_type=kind))
    await here.deliver(event("EXPERIMENT_ENROLLMENT", experiment_id="exp_1", variant_id="b"))
    assert (await here.get("/api/virtual-currencies")).json() == {"virtualCurrencies": {"COIN": 70}}
    assert (await here.get("/api/experiments")).json() == {"experiments": {"exp_1": "b"}}
    # An enrollment that happened earlier and arrives later does not win.
    late = event("EXPERIMENT_ENROLLMENT", experiment_id="exp_1", variant_id="a", event_timestamp_ms=NOW - 5)
    await here.deliver(late)
    assert await here.consumer.experiments("ada") == {"exp_1": "b"}


@both_databases
async def test_an_internal_error_is_200_and_the_event_is_set_aside(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = _breaks(monkeypatch, "RENEWAL")
    reply = await here.deliver(event("RENEWAL"))
    assert reply.status == 200
    assert set(reply.json()) == {"message", "error"}
    assert "boom" not in reply.body.decode()
    assert (await here.counts())["billing_processed_events"] == 0
    assert (await here.counts())["billing_events_set_aside"] == 1
    listed = (await here.operate("GET", "/operations/set-aside")).json()["events"]
    assert listed[0]["event_type"] == "RENEWAL"
    assert "boom" in listed[0]["error"]
    failed = (await here.operate("POST", f"/operations/set-aside/{listed[0]['event_id']}/reprocess")).json()
    assert failed["outcome"] == "failed"
    broken.undo()
    done = (await here.operate("POST", "/operations/set-aside/reprocess")).json()
    assert [event["outcome"] for event in done["events"]] == ["processed"]
    assert (await here.counts())["billing_events_set_aside"] == 0
    assert (await here.copy()).subscription.is_active


@both_databases
async def test_one_event_that_fails_does_not_take_others_along(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _breaks(monkeypatch, "RENEWAL")
    events = [event("RENEWAL" if number == 3 else "INITIAL_PURCHASE", user=f"user{number}") for number in range(8)]
    replies = await asyncio.gather(*(here.deliver(sent) for sent in events))
    assert [reply.status for reply in replies] == [200] * 8
    assert ["error" in reply.json() for reply in replies] == [number == 3 for number in range(8)]
    assert (await here.counts())["billing_processed_events"] == 7


async def test_a_setting_asks_for_500_instead(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _breaks(monkeypatch, "RENEWAL")
    async with world(sqlite_url, on_error="retry") as here:
        reply = await here.deliver(event("RENEWAL"))
        assert (reply.status, reply.json()) == (500, {"error": "Internal processing error"})
        assert sum((await here.counts()).values()) == 0


async def test_an_outage_of_the_database_is_no_fault_of_the_event_so_it_is_sent_again(sqlite_url: str) -> None:
    async with world(sqlite_url) as here:
        database, delivered = here.consumer._store.database, event()
        write = database.write

        async def full(_: Any) -> None:
            # There is room again before anything else is written.
            database.write = write  # type: ignore[method-assign]
            raise OSError("the disk is full")

        database.write = full  # type: ignore[assignment]
        assert (await here.deliver(delivered)).status == 500
        assert (await here.counts())["billing_events_set_aside"] == 0
        assert (await here.deliver(delivered)).json() == {"message": "Event processed"}


@pytest.mark.parametrize("unchecked_seconds", [0, 3600])
async def test_an_event_after_the_database_closed_every_connection_is_processed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, unchecked_seconds: int
) -> None:
    """Whether the connection is checked before its use, or its failure is noticed only then."""
    monkeypatch.setattr(consumer_database, "UNCHECKED_SECONDS", unchecked_seconds)
    async with world(postgres_url) as here:
        assert (await here.deliver(event())).status == 200
        other = ConsumerDatabase(postgres_url)
        async with other.reading() as connection:
            ended = select(func.pg_terminate_backend(column("pid"))).select_from(table("pg_stat_activity"))
            theirs = (column("datname") == func.current_database()) & (column("pid") != func.pg_backend_pid())
            theirs &= column("application_name") == "latchkey consumer"
            assert (await connection.execute(ended.where(theirs))).all()
        await other.close()
        for user in ("ada", "bob"):
            assert (await here.deliver(event(user=user))).json() == {"message": "Event processed"}
        assert (await here.counts())["billing_events_set_aside"] == 0


async def test_the_signature_is_checked_too_where_a_secret_is_set(sqlite_url: str) -> None:
    old, new = (base64.b64encode(bytes([number]) * 24).decode() for number in (1, 2))
    async with world(sqlite_url, signing_secrets=(f"whsec_{new}", f"whsec_{old}")) as here:
        assert (await here.deliver(event())).status == 401
        for secret, status in ((old, 200), (new, 200), (base64.b64encode(b"x" * 24).decode(), 401)):
            body = (
                b'{"event": {"id": "%s", "type": "RENEWAL", "app_user_id": "ada", "entitlements": {}}}'
                % secret[:8].encode()
            )
            assert (await here.post(body, **signed(secret, body))).status == status
        assert (await here.post(body + b" ", **signed(old, body))).status == 401
        assert (await here.post(body, **signed(old, body, age=600))).status == 401
        test = {"latchkey-test-event": "true"}
        assert (await here.post(body, **test)).status == 401
        assert (await here.post(body, **signed(old, body), **test)).json() == {"message": "Test event received"}


async def test_a_server_of_its_own_answers_as_the_mounted_app_does(sqlite_url: str) -> None:
    async with world(sqlite_url) as here:
        alone = World(here.consumer, here.service, Asking(here.consumer._standalone), here.clock)
        one = event()
        assert (await alone.deliver(one)).json() == {"message": "Event processed"}
        for there, status in ((alone, 200), (here, 200)):
            reply = await there.deliver(one)
            assert (reply.status, reply.json()) == (status, {"message": "Event already processed"})
        requests: list[Callable[[World], Awaitable[Reply]]] = [
            lambda there: there.deliver(one, secret="wrong"),
            lambda there: there.post(b"["),
            lambda there: there.post({"event": {}}),
            lambda there: there.asking.request("GET", "/webhooks/billing", key=None),
            lambda there: there.asking.request("POST", "/webhooks/billing/", key=None),
            lambda there: there.get("/api/my-entitlements"),
            lambda there: there.get("/nowhere"),
        ]
        for ask in requests:
            first, second = await ask(alone), await ask(here)
            assert (first.status, first.body, first.headers) == (second.status, second.body, second.headers)


async def test_a_test_delivery_is_verified_answered_and_changes_nothing(here: World) -> None:
    one = event(user="sample_user")
    reply = await here.deliver(one, **{"latchkey-test-event": "true"})
    assert (reply.status, reply.json()) == (200, {"message": "Test event received"})
    assert sum((await here.counts()).values()) == 0
    # The header does not replace the secret, and an invalid body is still refused.
    assert (await here.deliver(one, secret="wrong", **{"latchkey-test-event": "true"})).status == 401
    assert (await here.post({"event": {}}, **{"latchkey-test-event": "true"})).status == 400
    # The test delivery did not mark the event's id as processed.
    for value in ("false", "1", ""):
        reply = await here.deliver({**one, "id": f"evt_{value}"}, **{"latchkey-test-event": value})
        assert reply.json() == {"message": "Event processed"}
    assert (await here.deliver(one)).json() == {"message": "Event processed"}


def signed(secret: str, body: bytes, age: int = 0) -> dict[str, str]:
    at = datetime.now(UTC) - timedelta(seconds=age)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", at, body.decode()),
    }


def _breaks(monkeypatch: pytest.MonkeyPatch, type: str) -> pytest.MonkeyPatch:
    def boom(_: event_handlers.Handling) -> event_handlers.Handling:
        raise RuntimeError("boom")

    monkeypatch.setattr(event_handlers, "HANDLERS", {**event_handlers.HANDLERS, type: boom})
    return monkeypatch
