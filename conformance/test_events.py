"""Events as the service delivers them: one life in the test store, and the other types beside it."""

import http.client
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from conformance.https import ask
from conformance.life import World, milliseconds
from conformance.lives import LIVES, Life
from conformance.statements import shows

EVERY_EVENT = {
    "id", "type", "app_user_id", "original_app_user_id", "aliases", "product_id", "period_type", "purchased_at_ms",
    "expiration_at_ms", "original_purchase_date_ms", "event_timestamp_ms", "environment", "store", "entitlements",
    "price", "price_in_purchased_currency", "currency", "takehome_percentage",
}  # fmt: skip

OF_CERTAIN_TYPES = {
    "new_product_id": {"PRODUCT_CHANGE"},
    "cancellation_reason": {"CANCELLATION", "TRIAL_CANCELLED"},
    "expiration_reason": {"EXPIRATION"},
    "grace_period_expires_at_ms": {"BILLING_ISSUE"},
    "auto_resume_at_ms": {"CANCELLATION", "SUBSCRIPTION_PAUSED"},
}


@pytest.fixture(scope="module")
def life(lives: Any) -> dict[str, Any]:
    """The events of the life at the test store, the last one of each type."""
    return {event["type"]: event for event in lives["test_store"].result()}


@shows("2.1.1", "2.1.2", "2.2.1", "2.2.2", "2.2.4", "9.1", "4.3.5", "6.28")
def test_every_event_is_in_an_envelope_and_has_an_id_of_its_own(world: World, life: Any) -> None:
    bodies = [request.json for request in list(world.receiver.requests)]
    assert {body["api_version"] for body in bodies} == {"1.0"}
    assert all(set(body) == {"api_version", "event"} for body in bodies)
    mine = world.receiver.events(life["RENEWAL"]["app_user_id"])
    assert len({event["id"] for event in mine}) == len(mine) >= 11
    assert {event["app_user_id"] for event in mine} == {life["RENEWAL"]["app_user_id"]}
    assert {event["environment"] for event in mine} == {"SANDBOX"}


@shows("2.2.7", "2.2.9-13", "2.2.16", "2.2.19-22", "3.15", "6.2", "6.1", "1.7", "6.22")
def test_a_purchase_has_all_fields(world: World) -> None:
    [event] = world.customer().buy()
    assert set(event) >= EVERY_EVENT
    assert (event["product_id"], event["period_type"], event["store"]) == ("pro_monthly", "normal", "test_store")
    moments = ("purchased_at_ms", "expiration_at_ms", "original_purchase_date_ms", "event_timestamp_ms")
    assert all(type(event[name]) is int for name in moments)
    assert abs(event["event_timestamp_ms"] - time.time() * 1000) < 300_000
    assert (event["price"], event["price_in_purchased_currency"], event["currency"]) == (9.99, 9.99, "USD")
    assert 0 < event["takehome_percentage"] <= 1
    assert event["is_trial_conversion"] is False
    held = event["entitlements"]["pro"]
    assert set(held) == {"expires_date", "grace_period_expires_date", "product_identifier", "purchase_date"}
    assert abs(milliseconds(held["expires_date"]) - event["expiration_at_ms"]) < 1000


@shows("3.18", "3.22", "3.23", "6.32", "2.2.17", "6.3", "6.6", "6.10", "6.11", "6.12", "6.15")
def test_each_step_is_one_event_with_its_fields(life: Any) -> None:
    for type in ("RENEWAL", "UNCANCELLATION", "SUBSCRIPTION_EXTENDED", "EXPIRATION"):
        assert life[type]["expiration_at_ms"] is not None, type
    assert (life["RENEWAL"]["price"], life["RENEWAL"]["currency"]) == (9.99, "USD")
    assert isinstance(life["EXPIRATION"]["expiration_reason"], str)
    assert life["EXPIRATION"]["entitlements"] == life["REFUND"]["entitlements"] == {}
    refund = life["REFUND"]
    assert (refund["product_id"], refund["currency"], abs(refund["price"])) == ("pro_monthly", "USD", 9.99)
    assert set(life["REFUND_REVERSED"]["entitlements"]) == {"pro"}


@shows("2.2.24", "2.2.27", "6.5")
def test_a_cancellation_has_its_reason(life: Any) -> None:
    event = life["CANCELLATION"]
    assert event["cancellation_reason"] == "UNSUBSCRIBE"
    assert event["auto_resume_at_ms"] is None
    assert set(event["entitlements"]) == {"pro"}
    assert event["expiration_at_ms"] > time.time() * 1000


@shows("2.2.26", "2.3.3", "6.9", "3.19", "2.8.12")
def test_a_billing_issue_has_its_grace_period(world: World) -> None:
    customer = world.customer()
    customer.buy()
    [event] = customer.act("fail_billing", grace_days=16)
    assert type(event["grace_period_expires_at_ms"]) is int
    grace = event["entitlements"]["pro"]["grace_period_expires_date"]
    assert abs(milliseconds(grace) - event["grace_period_expires_at_ms"]) < 1000
    assert customer.agrees_with(event) == {"pro"}
    assert customer.v1()["subscriber"]["entitlements"]["pro"]["grace_period_expires_date"] == grace
    record = world.consumer.record(customer.id)
    assert record is not None
    assert record["grace_period_expires_at"] // 1000 == event["grace_period_expires_at_ms"] // 1000


@shows("2.2.8", "6.13")
def test_only_a_product_change_names_a_new_product(life: Any) -> None:
    event = life["PRODUCT_CHANGE"]
    assert (event["product_id"], event["new_product_id"]) == ("pro_monthly", "pro_yearly")
    assert event["expiration_at_ms"] is not None
    others = [event for type, event in life.items() if type != "PRODUCT_CHANGE"]
    assert not [event["type"] for event in others if event.get("new_product_id") is not None]


@shows("2.2.23", "6.7", "6.8", "2.8.11")
def test_a_trial_starts_is_cancelled_and_is_converted(world: World) -> None:
    customer = world.customer()
    [started] = customer.buy(trial=True)
    assert (started["type"], started["product_id"]) == ("TRIAL_STARTED", "pro_monthly")
    assert started["expiration_at_ms"] is not None
    assert customer.agrees_with(started) == {"pro"}
    record = world.consumer.record(customer.id)
    assert record is not None
    assert record["trial_end_at"] // 1000 == started["expiration_at_ms"] // 1000
    [cancelled] = customer.act("cancel")
    assert (cancelled["type"], cancelled["cancellation_reason"]) == ("TRIAL_CANCELLED", "UNSUBSCRIBE")
    customer.act("uncancel")
    [converted] = customer.act("renew")
    assert (converted["type"], converted["is_trial_conversion"]) == ("INITIAL_PURCHASE", True)
    assert customer.agrees_with(converted) == {"pro"}


@shows("6.4", "6.18", "6.19", "6.20", "2.2.21", "2.2.30", "6.34")
def test_the_other_types_have_their_fields(world: World) -> None:
    customer = world.customer()
    customer.buy("coins_100")
    once = customer.next_event("NON_RENEWING_PURCHASE")
    assert (once["product_id"], once["expiration_at_ms"]) == ("coins_100", None)
    coins = customer.next_event("VIRTUAL_CURRENCY_TRANSACTION")
    assert (coins["amount"], coins["currency"], coins["transaction_type"]) == (100, "COIN", "credit")
    customer.buy()
    [invoice] = customer.act("issue_invoice")
    assert invoice["type"] == "INVOICE_ISSUANCE"
    assert set(invoice) >= EVERY_EVENT
    other = world.customer()
    granted = other.act("store_outage", product_id="pro_monthly")[0]
    assert granted["type"] == "TEMPORARY_ENTITLEMENT_GRANT"
    assert set(granted) >= EVERY_EVENT
    assert 0 < granted["expiration_at_ms"] - time.time() * 1000 <= 86_400_000
    assert other.agrees_with(granted) == {"pro"}


@shows("2.2.28", "2.2.29", "2.2.32", "6.16", "6.17")
def test_a_transfer_names_both_sides(world: World) -> None:
    source, target = world.customer(), world.customer()
    source.buy()
    world.service.call("POST", "customers", {"id": target.id})
    world.service.call("POST", f"customers/{source.id}/actions/transfer", {"target_customer_id": target.id})
    event = target.next_event("TRANSFER")
    assert event["app_user_id"] == target.id
    assert event["transferred_from"][0] == source.id
    assert target.id in event["transferred_to"]
    assert type(event["price_in_purchased_currency"]) in {int, float}
    assert target.agrees_with(event) == {"pro"}
    assert source.v2()["active_entitlements"]["items"] == []


@shows("3.16", "3.20", "2.2.25", "2.5.12", "2.6.24", "4.2.14", "9.4")
def test_the_copy_follows_and_v1_keeps_the_history(world: World) -> None:
    customer, consumer = world.customer(), world.consumer

    def record_after(event: Any) -> Any:
        consumer.wait_until_processed(event["id"])
        return consumer.record(customer.id)

    customer.buy()
    [renewed] = customer.act("renew")
    assert record_after(renewed)["expires_at"] // 1000 == renewed["expiration_at_ms"] // 1000
    [changed] = customer.act("change_product", new_product_id="pro_yearly")
    record = record_after(changed)
    assert (record["product_id"], bool(record["is_active"])) == ("pro_yearly", True)
    assert record["expires_at"] // 1000 == changed["expiration_at_ms"] // 1000
    customer.act("cancel")
    [expired] = customer.act("expire")
    assert expired["expiration_reason"] == "UNSUBSCRIBE"
    subscriber = customer.v1()["subscriber"]
    assert "pro_yearly" in subscriber["subscriptions"]
    assert "pro" in subscriber["entitlements"]
    assert customer.v2()["active_entitlements"]["items"] == []


@shows("2.2.14", "2.2.18")
def test_an_event_has_its_environment_and_the_attributes(world: World) -> None:
    for environment in ("PRODUCTION", "SANDBOX"):
        customer = world.customer()
        attributes = [{"name": "$email", "value": "ada@example.com"}]
        world.service.call("POST", "customers", {"id": customer.id, "attributes": attributes})
        [bought] = customer.buy(environment=environment)
        assert bought["environment"] == environment
        attribute = bought["subscriber_attributes"]["$email"]
        assert attribute["value"] == "ada@example.com"
        assert type(attribute["updated_at_ms"]) is int


@shows("4.0.1", "5.11")
def test_the_service_speaks_https_only_and_no_tracked_file_has_its_keys(world: World) -> None:
    plain = world.service.base.replace("https://", "http://")
    try:
        status = ask(plain, "GET", "/v1/subscribers/ada", authorization=f"Bearer {world.service.key}").status
    except (OSError, http.client.HTTPException):
        status = 0
    assert not 200 <= status < 300
    root = Path(__file__).parents[1]
    others = world.service.dashboard.get("password"), world.service.push.get("rest_api_key")
    for secret in (world.service.key, *filter(None, others)):
        found = subprocess.run(["git", "grep", "-qF", secret], cwd=root, check=False)
        assert found.returncode == 1


@shows("6.14")
def test_a_pause_says_when_it_ends(world: World) -> None:
    customer = world.customer()
    customer.buy()
    resume = round(time.time() * 1000) + 60 * 86_400_000
    [event] = customer.act("pause", resume_at_ms=resume)
    assert (event["type"], event["auto_resume_at_ms"]) == ("SUBSCRIPTION_PAUSED", resume)
    customer.agrees_with(event)


@shows("1.8", "8.3", "1.17", "4.3.1-4", "5.2", "5.10")
def test_a_webhook_is_https_only_and_carries_the_configured_header(world: World) -> None:
    plain = {"name": "conformance", "url": "http://example.com/hook"}
    refused = world.service.ask("POST", "integrations/webhooks", plain)
    assert refused.status in {400, 422}, refused
    customer = world.customer()
    [bought] = customer.buy()
    request = next(request for request in world.receiver.requests if bought["id"].encode() in request.body)
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.headers["authorization"] == "Bearer of the suite"
    assert request.headers["content-type"].startswith("application/json")
    assert b"of the suite" not in world.service.ask("GET", "integrations/webhooks?limit=100").body
    made = {"name": "conformance", "url": f"{world.receiver.address}/webhooks/billing", "event_types": ["TEST"]}
    webhook = world.service.call("POST", "integrations/webhooks", made)
    tested = world.service.call("POST", f"integrations/webhooks/{webhook['id']}/test", {"type": "RENEWAL"})
    world.service.call("DELETE", f"integrations/webhooks/{webhook['id']}")
    assert tested["status"] == 200
    request = world.receiver.requests[-1]
    assert (request.path, request.json["event"]["type"]) == ("/webhooks/billing", "RENEWAL")


@pytest.mark.parametrize("store", LIVES)
@shows(
    "2.2.15",
    "2.2.20",
    "2.2.24-27",
    "2.5.14-21",
    "2.6.24",
    "3.2",
    "3.8",
    "3.10",
    "3.15-20",
    "3.22",
    "3.23",
    "6.22",
    "6.32",
)
def test_the_same_life_at_each_store(lives: Any, store: str) -> None:
    events = lives[store].result()
    assert {event["store"] for event in events} == {{"apple": "app_store", "google": "play_store"}.get(store, store)}
    for event in events:
        assert set(event) >= EVERY_EVENT, event
        for name, types in OF_CERTAIN_TYPES.items():
            assert (name in event) == (event["type"] in types), (name, event["type"])


@shows("3.2", "3.11", "3.21", "6.22")
def test_a_refund_leaves_what_another_purchase_of_the_same_product_grants(world: World) -> None:
    life = Life("apple", world.customer())
    life.begin()
    life.customer.buy()
    life.control("PUT", "/clock", {"by": "P1D"})
    life.follow()
    life.step("purchase", {})
    [refund] = life.step("refund", {})
    assert (refund["type"], refund["product_id"]) == ("REFUND", "pro_monthly")
    assert life.customer.agrees_with(refund) == {"pro"}


@shows("1.19", "4.6.21")
def test_the_consumer_answers_long_before_60_seconds(world: World) -> None:
    customer = world.customer()
    [bought] = customer.buy()
    again = {**bought, "id": str(uuid.uuid4())}
    began = time.monotonic()
    assert world.consumer.deliver(again).status == 200
    assert time.monotonic() - began < 10
