"""The reference consumer, run as a process: what it answers, what it keeps, and when it asks the service."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from conformance.consumer import HOUR, WEBHOOK_SECRET, Consumer, consuming, event, iso, now_ms, token, told
from conformance.https import Server, ask, serving, wait_for
from conformance.life import World
from conformance.service import LATCHKEY
from conformance.statements import shows

TYPES = (
    "INITIAL_PURCHASE", "RENEWAL", "NON_RENEWING_PURCHASE", "CANCELLATION", "UNCANCELLATION", "TRIAL_STARTED",
    "TRIAL_CANCELLED", "BILLING_ISSUE", "EXPIRATION", "REFUND", "REFUND_REVERSED", "PRODUCT_CHANGE",
    "SUBSCRIPTION_PAUSED", "SUBSCRIPTION_EXTENDED", "TRANSFER", "INVOICE_ISSUANCE", "TEMPORARY_ENTITLEMENT_GRANT",
    "VIRTUAL_CURRENCY_TRANSACTION", "EXPERIMENT_ENROLLMENT",
)  # fmt: skip


@shows("1.18", "4.6.11", "5.3", "5.4", "5.5", "7.1", "5.10")
def test_a_webhook_needs_the_secret_with_or_without_bearer(consumer: Consumer) -> None:
    user = str(uuid.uuid4())
    for wrong in (None, "Bearer wrong", f"Bearer {WEBHOOK_SECRET}x", f"Basic {WEBHOOK_SECRET}"):
        reply = consumer.deliver(event(user, "RENEWAL"), wrong)
        assert (reply.status, reply.json) == (401, {"error": "Unauthorized"})
        reply = consumer.send({}, wrong)
        assert (reply.status, reply.json) == (401, {"error": "Unauthorized"}), "the header is checked before the body"
    assert consumer.record(user) is None
    for right in (WEBHOOK_SECRET, f"Bearer {WEBHOOK_SECRET}"):
        assert consumer.deliver(event(user, "RENEWAL"), right).status == 200


@shows("4.6.12", "4.6.13", "7.2", "7.3")
def test_a_body_without_an_event_and_an_event_without_type_or_user_are_refused(consumer: Consumer) -> None:
    for body in ({}, {"api_version": "1.0"}, {"event": None}):
        reply = consumer.send(body)
        assert (reply.status, reply.json) == (400, {"error": "Invalid webhook body"})
    for missing in ("type", "app_user_id"):
        cut = event("somebody", "RENEWAL")
        del cut[missing]
        reply = consumer.deliver(cut)
        assert (reply.status, reply.json) == (400, {"error": "Invalid event structure"})


@shows("1.20", "4.6.14", "4.6.19", "4.6.20", "6.24", "6.25", "7.4", "2.8.30-34", "4.6.3")
def test_an_event_is_processed_once(consumer: Consumer) -> None:
    user = str(uuid.uuid4())
    bought = event(user, "INITIAL_PURCHASE", now_ms() + 720 * HOUR)
    first = told(consumer, bought)
    # The same id with other content: it is the id that counts.
    again = consumer.deliver({**bought, "entitlements": {}, "type": "EXPIRATION"})
    assert (again.status, set(again.json)) == (200, {"message"})
    assert consumer.record(user) == first
    processed = consumer.processed(bought["id"])
    assert processed is not None
    assert processed["event_type"] == "INITIAL_PURCHASE"
    assert (processed["app_user_id"], processed["environment"]) == (user, "PRODUCTION")
    assert abs(processed["processed_at"] - now_ms()) < 60_000
    assert len(consumer.rows("select 1 from billing_processed_events where event_id = ?", bought["id"])) == 1


@shows("3.1-6", "3.8-12", "4.6.15", "4.6.16", "4.6.18", "4.6.22", "1.21", "6.23", "2.8.5", "2.8.13", "2.8.14")
@pytest.mark.parametrize("type", TYPES)
def test_the_status_follows_from_the_event_and_its_entitlements(consumer: Consumer, type: str) -> None:
    user = str(uuid.uuid4())
    ahead = now_ms() + 720 * HOUR
    # Another state before, so that what does not change is noticed.
    before = "BILLING_ISSUE" if type != "BILLING_ISSUE" else "CANCELLATION"
    # A refund ends what the refunded purchase granted; here another one grants it.
    product = {"product_id": "coins_100"} if type == "REFUND" else {}
    record = told(consumer, event(user, before, ahead), event(user, type, ahead, **product))
    by_type = {"TRIAL_STARTED": "trial", "SUBSCRIPTION_PAUSED": "paused", "CANCELLATION": "cancelled"}
    status = {**by_type, "BILLING_ISSUE": "billing_issue"}.get(type, "active")
    assert (record["subscription_status"], bool(record["is_active"])) == (status, True)
    assert consumer.entitlements(user)["pro"]["is_active"]
    if status in {"active", "trial"}:
        assert (bool(record["auto_renew"]), bool(record["billing_issue"])) == (True, False)
    if status in {"paused", "cancelled"}:
        assert not record["auto_renew"]
    if status == "billing_issue":
        assert record["billing_issue"]
    for none in (None, now_ms() - HOUR):
        record = told(consumer, event(user, type, none))
        assert (record["subscription_status"], bool(record["is_active"])) == ("expired", False)
        assert not record["auto_renew"]
        assert not consumer.entitlements(user)["pro"]["is_active"]


@shows("3.11", "3.21")
def test_a_refund_ends_at_once_what_the_refunded_purchase_granted_and_nothing_else(consumer: Consumer) -> None:
    user, ahead = str(uuid.uuid4()), now_ms() + 720 * HOUR
    for carried in (None, ahead):
        record = told(consumer, event(user, "INITIAL_PURCHASE", ahead), event(user, "REFUND", carried))
        assert (record["subscription_status"], bool(record["is_active"])) == ("expired", False)
    # The same product, bought an hour before in another store, and another product.
    for other in ({"purchased_at_ms": now_ms() + HOUR}, {"product_id": "pro_yearly"}):
        record = told(consumer, event(user, "RENEWAL", ahead), event(user, "REFUND", ahead, **other))
        assert (record["subscription_status"], bool(record["is_active"])) == ("active", True)
        assert (bool(record["auto_renew"]), bool(record["billing_issue"])) == (True, False)
        assert consumer.entitlements(user)["pro"]["is_active"]


@shows("2.3.2", "3.3", "4.6.22")
def test_an_entitlement_whose_end_is_null_or_missing_is_active(consumer: Consumer) -> None:
    for remove in (False, True):
        endless = event(str(uuid.uuid4()), "RENEWAL", now_ms() + HOUR, expiration_at_ms=None)
        pro = endless["entitlements"]["pro"]
        pro["expires_date"] = None
        if remove:
            del pro["expires_date"]
        record = told(consumer, endless)
        assert (record["subscription_status"], bool(record["is_active"]), record["expires_at"]) == (
            "active",
            True,
            None,
        )


@shows("2.8.4", "2.8.13", "2.8.14", "2.8.23")
def test_what_no_event_has_said_has_its_default(consumer: Consumer) -> None:
    user = str(uuid.uuid4())
    silent = event(user, "EXPERIMENT_ENROLLMENT")
    del silent["entitlements"]
    record = told(consumer, silent)
    assert [record[name] for name in ("is_active", "auto_renew", "billing_issue")] == [0, 1, 0]
    consumer.rows("insert into billing_entitlements (app_user_id, entitlement_id) values (?, 'by hand')", user)
    assert consumer.entitlements(user)["by hand"]["is_active"] == 1


@shows("3.7", "3.17", "2.8.10")
def test_a_cancellation_is_dated_by_its_event(consumer: Consumer) -> None:
    user, ahead = str(uuid.uuid4()), now_ms() + 720 * HOUR
    cancelled = event(user, "CANCELLATION", ahead, event_timestamp_ms=now_ms() - HOUR)
    assert told(consumer, cancelled)["cancelled_at"] == cancelled["event_timestamp_ms"]
    undated = event(str(uuid.uuid4()), "CANCELLATION", ahead)
    del undated["event_timestamp_ms"]
    assert abs(told(consumer, undated)["cancelled_at"] - now_ms()) < 60_000


@shows("3.13", "3.14", "2.8.21-29")
def test_rows_that_the_event_does_not_carry_become_inactive(consumer: Consumer) -> None:
    user, ahead = str(uuid.uuid4()), now_ms() + 720 * HOUR
    both = event(user, "INITIAL_PURCHASE", ahead)
    both["entitlements"]["team"] = {**both["entitlements"]["pro"], "grace_period_expires_date": iso(ahead)}
    told(consumer, both)
    rows = consumer.entitlements(user)
    assert {name for name, row in rows.items() if row["is_active"]} == {"pro", "team"}
    for row in rows.values():
        assert (row["product_id"], row["store"], row["environment"]) == ("pro_monthly", "app_store", "PRODUCTION")
        assert row["expires_at"] == ahead // 1000 * 1000
        assert row["granted_at"] is not None
        assert row["purchase_date"] is not None
    assert rows["team"]["grace_period_expires_at"] == ahead // 1000 * 1000
    later = event(user, "RENEWAL", ahead + HOUR)
    told(consumer, later)
    rows = consumer.entitlements(user)
    assert {name for name, row in rows.items() if row["is_active"]} == {"pro"}
    assert rows["pro"]["expires_at"] == (ahead + HOUR) // 1000 * 1000
    counted = consumer.rows("select count(*) as n from billing_entitlements where app_user_id = ?", user)
    assert counted[0]["n"] == 2


@shows("2.8.1-4", "4.6.15", "2.8.6-9", "2.8.15-18", "2.8.20", "2.8.35")
def test_the_record_has_what_the_events_said(consumer: Consumer) -> None:
    user, ahead = str(uuid.uuid4()), now_ms() + 720 * HOUR
    attributes = {"$displayName": {"value": "Ada", "updated_at_ms": now_ms()}}
    assert told(consumer, event(user, "INITIAL_PURCHASE", ahead))["external_user_id"] == user
    named = event(user, "RENEWAL", ahead, subscriber_attributes=attributes)
    assert told(consumer, named)["external_user_id"] == "Ada"
    attributes = {**attributes, "$email": {"value": "ada@example.com", "updated_at_ms": now_ms()}}
    last = event(user, "RENEWAL", ahead, subscriber_attributes=attributes)
    record = told(consumer, last)
    assert (record["external_user_id"], record["email"]) == ("ada@example.com", "ada@example.com")
    assert (record["product_id"], record["store"], record["environment"]) == ("pro_monthly", "app_store", "PRODUCTION")
    assert record["is_active"]
    assert set(json.loads(record["entitlements"])) == {"pro"}
    assert record["expires_at"] // 1000 == ahead // 1000
    assert record["purchased_at"] is not None
    assert (record["last_webhook_event_id"], record["last_webhook_event_type"]) == (last["id"], "RENEWAL")
    assert abs(record["last_updated"] - now_ms()) < 60_000
    counted = consumer.rows("select count(*) as n from billing_subscriptions where app_user_id = ?", user)
    assert counted[0]["n"] == 1


@shows("4.6.17", "6.29-31", "9.6", "9.7")
def test_unknown_types_and_fields_are_accepted_and_logged(consumer: Consumer) -> None:
    strange = event(str(uuid.uuid4()), "NEVER_SEEN_BEFORE", now_ms() + HOUR * 720, a_new_field={"deep": [1]})
    assert told(consumer, strange)["subscription_status"] == "active"
    assert "NEVER_SEEN_BEFORE" in consumer.log.read_text()


@shows("4.6.1", "4.6.2", "5.7", "7.12", "7.13")
def test_the_endpoints_need_a_signed_in_user_and_the_right_method(consumer: Consumer) -> None:
    paths = {
        "/api/subscription-status": "GET",
        "/api/sync-billing": "POST",
        "/api/entitlement/pro": "GET",
        "/api/my-entitlements": "GET",
        "/api/debug/subscription/ada": "GET",
    }
    for path, method in paths.items():
        reply = consumer.ask(method, path)
        assert (reply.status, reply.json) == (401, {"error": "Unauthorized"}), path
        forged = f"Bearer {token('ada', 'another secret, of at least 32 bytes too')}"
        assert ask(consumer.base, method, path, ca=consumer.ca, authorization=forged).status == 401
        reply = consumer.ask("DELETE", path, "ada")
        assert (reply.status, reply.json) == (405, {"error": "Method not allowed"}), path


@shows("4.6.4-9", "2.8.19", "7.16", "4.6.31")
def test_the_endpoints_answer_in_their_shapes(world: World) -> None:
    consumer, customer = world.consumer, world.customer()
    [bought] = customer.buy("pro_yearly")
    consumer.wait_until_processed(bought["id"])
    status = consumer.ask("GET", "/api/subscription-status", customer.id).json
    assert set(status) >= {"isActive", "entitlements", "subscriptions", "syncedAt"}
    assert status["isActive"] is True
    synced = consumer.ask("POST", "/api/sync-billing", customer.id).json
    assert set(synced) >= {"message", "isActive", "entitlements", "syncedAt"}
    record = consumer.record(customer.id)
    assert record is not None
    assert abs(record["last_revenue_sync_at"] - now_ms()) < 60_000
    access = consumer.ask("GET", "/api/entitlement/pro", customer.id).json
    assert set(access) >= {"hasAccess", "entitlementId", "source"}
    assert (access["hasAccess"], access["entitlementId"]) == (True, "pro")
    assert access["source"] in {"billing", "database"}
    assert consumer.ask("GET", "/api/entitlement/team", customer.id).json["hasAccess"] is False
    mine = consumer.ask("GET", "/api/my-entitlements", customer.id).json
    assert mine["entitlements"] == ["pro"]
    assert set(mine["details"]) == {"pro"}
    debug = consumer.ask("GET", f"/api/debug/subscription/{customer.id}", customer.id).json
    assert set(debug) >= {"database", "billingV1", "billingV2", "comparison"}
    assert debug["comparison"] == {"dbActive": True, "v1Active": True, "v2Active": True, "match": True}
    stranger = consumer.ask("POST", "/api/sync-billing", str(uuid.uuid4()))
    assert stranger.status == 404
    assert stranger.json["error"].startswith("Customer not found in ")
    unknown = str(uuid.uuid4())
    told(consumer, event(unknown, "BILLING_ISSUE", now_ms() + 720 * HOUR))
    kept = consumer.ask("GET", "/api/subscription-status", unknown).json
    assert (kept["isActive"], kept["error"]) == (True, "Customer not found")


@shows("1.22", "4.6.24", "4.6.25", "4.6.27-30", "8.4-6", "6.27", "9.5", "4.2.10")
def test_v2_is_read_exactly_when_the_copy_may_be_stale(world: World) -> None:
    consumer, customer = world.consumer, world.customer()
    [bought] = customer.buy("pro_yearly")
    consumer.wait_until_processed(bought["id"])
    assert consumer.record(bought["app_user_id"]) is not None
    fresh = {"expires_at": 8000, "billing_issue": 0, "cancelled_at": None, "last_updated": 0}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "database"),
        ({"expires_at": 23}, "billing"),
        ({"expires_at": 25}, "database"),
        ({"billing_issue": 1}, "billing"),
        ({"cancelled_at": -47}, "billing"),
        ({"cancelled_at": -49}, "database"),
        ({"last_updated": -0.9}, "database"),
        ({"last_updated": -1.1}, "billing"),
    ]
    for change, source in cases:
        hours = {**fresh, **change}
        dated = {
            name: value if name == "billing_issue" or value is None else round(now_ms() + value * HOUR)
            for name, value in hours.items()
        }
        columns = ", ".join(f"{name} = ?" for name in dated)
        consumer.rows(f"update billing_subscriptions set {columns} where app_user_id = ?", *dated.values(), customer.id)
        reply = consumer.ask("GET", "/api/entitlement/pro", customer.id).json
        assert (reply["hasAccess"], reply["source"]) == (True, source), change
    stale = (
        "update billing_subscriptions set is_active = 0, entitlements = '{}', last_updated = 1 where app_user_id = ?"
    )
    consumer.rows(stale, customer.id)
    consumer.rows("update billing_entitlements set is_active = 0 where app_user_id = ?", customer.id)
    assert consumer.ask("GET", "/api/entitlement/pro", customer.id).json["hasAccess"] is True
    healed = consumer.record(customer.id)
    assert healed is not None
    assert healed["is_active"], "the record is overwritten from V2"
    silent = world.customer()
    world.service.call("POST", "customers", {"id": silent.id})
    reply = consumer.ask("GET", "/api/entitlement/pro", silent.id).json
    assert (reply["hasAccess"], reply["source"]) == (False, "billing"), "no local record"
    told(consumer, event(silent.id, "BILLING_ISSUE", now_ms() + 720 * HOUR))
    assert consumer.ask("GET", "/api/entitlement/pro", silent.id).json["hasAccess"] is False
    denied = consumer.record(silent.id)
    assert denied is not None
    assert not denied["is_active"], "the record is overwritten from V2"


@shows("6.26")
def test_a_late_event_does_not_overwrite_what_is_newer(world: World) -> None:
    consumer, customer = world.consumer, world.customer()
    customer.buy("pro_yearly")
    [cancelled] = customer.act("cancel")
    consumer.wait_until_processed(cancelled["id"])
    late = {**cancelled, "id": str(uuid.uuid4()), "type": "EXPIRATION", "entitlements": {}, "sequence": 1}
    late["event_timestamp_ms"] -= 3 * HOUR
    assert consumer.deliver(late).status == 200
    assert consumer.ask("GET", "/api/entitlement/pro", customer.id).json["hasAccess"] is True


@shows("1.11", "1.12", "4.4.4", "4.4.5", "4.5.1-7", "5.6", "5.8", "2.7.1")
def test_a_registered_device_gets_a_push_when_a_payment_fails(world: World, push: Server) -> None:
    consumer, customer, player = world.consumer, world.customer(), str(uuid.uuid4())
    assert consumer.ask("POST", "/api/devices", None, {"player_id": player}).status == 401
    assert consumer.ask("POST", "/api/devices", customer.id, {"player_id": player}).status == 201
    customer.buy()
    customer.act("fail_billing")

    def sent() -> Any:
        return next((request for request in list(push.requests) if player.encode() in request.body), None)

    request = wait_for(sent, "the push")
    assert (request.method, request.path) == ("POST", "/api/v1/notifications")
    assert request.headers["content-type"].lower() == "application/json; charset=utf-8"
    assert request.headers["authorization"] == "Basic rest-key"
    body = request.json
    assert body["app_id"] == "app-of-the-suite"
    assert body["include_player_ids"] == [player]
    for texts in (body["headings"], body["contents"]):
        assert texts["en"]
        assert all(isinstance(text, str) for text in texts.values())


@shows("8.8")
def test_a_body_above_the_limit_is_refused(consumer: Consumer) -> None:
    huge = event(str(uuid.uuid4()), "RENEWAL", padding="x" * 2_000_000)
    assert consumer.deliver(huge).status == 413


@shows("4.6.10", "7.17", "4.6.26")
def test_settings_close_the_debug_endpoint_and_choose_the_variant_of_the_rule(world: World, tmp_path: Path) -> None:
    customer = world.customer()
    [bought] = customer.buy("pro_yearly")
    settings = {"NODE_ENV": "production", "VERIFY_ONLY_IF_STILL_AHEAD": "true"}
    with consuming(world.service, tmp_path, **settings) as consumer:
        closed = consumer.ask("GET", f"/api/debug/subscription/{customer.id}", customer.id)
        assert (closed.status, closed.json) == (403, {"error": "Not available in production"})
        for hours, source in ((-1, "database"), (1, "billing")):
            told(consumer, {**bought, "id": str(uuid.uuid4()), "sequence": bought["sequence"] + 100 + hours})
            ends = now_ms() + hours * HOUR
            consumer.rows("update billing_subscriptions set expires_at = ?", ends)
            assert consumer.ask("GET", "/api/entitlement/pro", customer.id).json["source"] == source, hours


@shows("4.6.23", "7.8", "7.18")
def test_what_v2_says_is_judged_by_its_end_and_a_failure_is_an_error_with_its_status(
    world: World, tmp_path: Path
) -> None:
    service = world.service
    with serving(*service.certificates) as broken, consuming(service, tmp_path, address=broken.address) as consumer:
        for hours, access in ((1, True), (-1, False)):
            customer = world.customer()
            customer.buy()
            v1, v2 = customer.v1(), customer.v2()
            v2["active_entitlements"]["items"][0]["expires_at"] = now_ms() + hours * HOUR
            broken.answer = lambda request, v1=v1, v2=v2: (200, v1 if request.path.startswith("/v1") else v2)  # type: ignore[misc]  # bound now
            assert consumer.ask("GET", "/api/entitlement/pro", customer.id).json["hasAccess"] is access
        for status in (409, 418, 503):  # in this order: after a 5xx the consumer does not ask for some seconds
            broken.answer = lambda _, status=status: (status, {"message": "broken"})  # type: ignore[misc]  # bound now
            reply = consumer.ask("GET", "/api/entitlement/pro", str(uuid.uuid4()))
            assert (reply.status, set(reply.json)) == (500, {"error"})
            assert str(status) in reply.json["error"]


@shows("7.5", "7.6")
@pytest.mark.parametrize("on_error", ["set_aside", "retry"])
def test_an_event_that_cannot_be_stored_is_answered_200_or_500_as_wanted(
    world: World, tmp_path: Path, on_error: str
) -> None:
    bad = event("refused-by-the-database", "INITIAL_PURCHASE", now_ms() + 720 * HOUR)
    with consuming(world.service, tmp_path, ON_ERROR=on_error) as consumer:
        condition = f"when new.app_user_id = '{bad['app_user_id']}' begin select raise(abort, 'no room'); end"
        consumer.rows(f"create trigger refuse before insert on billing_subscriptions {condition}")
        reply = consumer.deliver(bad)
        wanted = (200, {"message", "error"}) if on_error == "set_aside" else (500, {"error"})
        assert (reply.status, set(reply.json)) == wanted
        assert "no room" not in reply.body.decode(), "no internal detail"
        assert consumer.record(bad["app_user_id"]) is None
        consumer.rows("drop trigger refuse")
        if on_error == "retry":
            assert told(consumer, bad)["is_active"], "the service's next attempt succeeds"


@shows("7.14", "7.15")
@pytest.mark.parametrize(("app", "interface"), [("app", "asgi"), ("flask_app", "wsgi"), ("django_app", "wsgi")])
def test_the_route_guard_lets_in_who_has_the_entitlement(
    world: World, tmp_path: Path, app: str, interface: str
) -> None:
    granian = (LATCHKEY.with_name("granian"), "--interface", interface, f"examples.notes.{app}:app")
    with consuming(world.service, tmp_path, program=granian) as consumer:
        user, other = str(uuid.uuid4()), str(uuid.uuid4())
        told(consumer, event(user, "INITIAL_PURCHASE", now_ms() + 720 * HOUR), event(other, "EXPIRATION"))
        nobody = consumer.ask("GET", "/export")
        assert (nobody.status, nobody.json) == (401, {"error": "Not authenticated"})
        denied = consumer.ask("GET", "/export", other)
        assert (denied.status, denied.json) == (403, {"error": "Access denied", "required_entitlement": "pro"})
        assert consumer.ask("GET", "/export", user).json["user"] == user
