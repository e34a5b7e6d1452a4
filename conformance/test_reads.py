"""V1 and V2, read over HTTPS: fields, keys, errors, pages and the limit."""

import time
import uuid
from typing import Any

import pytest

from conformance.https import ask
from conformance.life import World, is_active, milliseconds
from conformance.service import Service
from conformance.statements import shows

ENTITLEMENT = {"expires_date", "grace_period_expires_date", "product_identifier", "purchase_date"}
SUBSCRIBER = {
    "original_app_user_id", "original_application_version", "first_seen", "last_seen", "management_url",
    "original_purchase_date", "non_subscriptions", "subscriptions", "entitlements", "subscriber_attributes",
}  # fmt: skip


@pytest.fixture(scope="module")
def buyer(world: World) -> Any:
    """A customer with a subscription, a purchase, attributes and an app that was seen."""
    customer = world.customer()
    customer.buy()
    customer.buy("coins_100")
    attributes = [{"name": name, "value": value} for name, value in ATTRIBUTES.items()]
    world.service.call("POST", f"customers/{customer.id}/attributes", {"attributes": attributes})
    return customer


ATTRIBUTES = {"$email": "ada@example.com", "$displayName": "Ada", "favourite_colour": "green"}


@shows("2.5.1-13", "2.5.26", "4.1.2-6", "4.1.9", "1.9", "2.4.1-4")
def test_v1_has_the_fields_of_a_subscriber(buyer: Any) -> None:
    service: Service = buyer.world.service
    reply = service.ask("GET", f"/v1/subscribers/{buyer.id}", X_Platform="ios")
    assert reply.status == 200
    found = reply.json
    assert set(found) == {"request_date", "request_date_ms", "subscriber"}
    assert abs(milliseconds(found["request_date"]) - found["request_date_ms"]) < 1000
    assert abs(found["request_date_ms"] - time.time() * 1000) < 60_000
    subscriber = found["subscriber"]
    assert set(subscriber) >= SUBSCRIBER
    assert subscriber["original_app_user_id"] == buyer.id
    for name in ("first_seen", "last_seen", "original_purchase_date"):
        assert milliseconds(subscriber[name]) > 0
    for name in ("original_application_version", "management_url"):
        assert subscriber[name] is None or isinstance(subscriber[name], str)
    bought = subscriber["non_subscriptions"]["coins_100"][0]
    assert set(bought) >= {"id", "is_sandbox", "purchase_date", "original_purchase_date", "store"}
    assert set(subscriber["subscriptions"]) == {"pro_monthly"}
    assert set(subscriber["entitlements"]["pro"]) == ENTITLEMENT
    attributes = subscriber["subscriber_attributes"]
    assert {name: attribute["value"] for name, attribute in attributes.items()} == ATTRIBUTES
    assert all(type(attribute["updated_at_ms"]) is int for attribute in attributes.values())


@shows("2.5.14-25", "2.5.27", "2.3.1", "2.3.4", "2.3.5")
def test_v1_has_the_fields_of_a_subscription_and_of_an_entitlement(buyer: Any) -> None:
    subscriber = buyer.v1()["subscriber"]
    subscription = subscriber["subscriptions"]["pro_monthly"]
    nullable = {"auto_resume_date", "billing_issues_detected_at", "grace_period_expires_date", "refunded_at"}
    for name in (*nullable, "unsubscribe_detected_at"):
        assert subscription[name] is None, name
    for name in ("expires_date", "original_purchase_date", "purchase_date"):
        assert milliseconds(subscription[name]) > 0
    assert subscription["is_sandbox"] is True
    assert (subscription["ownership_type"], subscription["period_type"]) == ("PURCHASED", "normal")
    assert subscription["store"] == "test_store"
    entitlement = subscriber["entitlements"]["pro"]
    assert entitlement["product_identifier"] == "pro_monthly"
    assert milliseconds(entitlement["purchase_date"]) < milliseconds(entitlement["expires_date"])


@shows("2.6.1-5", "2.6.10", "2.6.12-22", "4.2.1-6")
def test_v2_has_the_fields_of_a_customer(buyer: Any) -> None:
    service: Service = buyer.world.service
    reply = service.ask("GET", f"customers/{buyer.id}")
    assert reply.status == 200
    customer = reply.json
    assert (customer["object"], customer["id"], customer["project_id"]) == ("customer", buyer.id, service.project)
    assert type(customer["first_seen_at"]) is int
    assert type(customer["last_seen_at"]) is int
    assert "experiment" not in customer
    for name, kind in (("active_entitlements", "customer.active_entitlement"), ("attributes", "customer.attribute")):
        found = customer[name]
        assert set(found) == {"object", "items", "next_page", "url"}
        assert (found["object"], found["next_page"]) == ("list", None)
        assert found["url"] == f"/v2/projects/{service.project}/customers/{buyer.id}/{name}"
        assert {item["object"] for item in found["items"]} == {kind}
    [entitlement] = customer["active_entitlements"]["items"]
    assert set(entitlement) == {"object", "entitlement_id", "expires_at"}
    assert entitlement["entitlement_id"] == "pro"
    assert type(entitlement["expires_at"]) is int
    for attribute in customer["attributes"]["items"]:
        assert set(attribute) == {"object", "name", "value", "updated_at"}
        assert ATTRIBUTES[attribute["name"]] == attribute["value"]
        assert type(attribute["updated_at"]) is int


@shows("4.2.11-14", "4.2.17", "9.2")
def test_v1_and_v2_say_the_same_in_their_own_forms(buyer: Any) -> None:
    v1, v2 = buyer.v1(), buyer.v2()
    subscriber = v1["subscriber"]
    assert milliseconds(subscriber["first_seen"]) == v2["first_seen_at"] // 1000 * 1000
    active = {name for name, one in subscriber["entitlements"].items() if is_active(one, v1["request_date_ms"])}
    assert active == {item["entitlement_id"] for item in v2["active_entitlements"]["items"]}
    attributes = {name: one["value"] for name, one in subscriber["subscriber_attributes"].items()}
    assert attributes == {item["name"]: item["value"] for item in v2["attributes"]["items"]}
    assert subscriber["entitlements"]["pro"]["product_identifier"] in subscriber["subscriptions"]
    assert "subscriptions" not in v2
    without_project = buyer.world.service.ask("GET", f"/v2/customers/{buyer.id}")
    assert without_project.status == 404


@shows("2.6.23")
def test_v2_has_no_subscriptions_collection(buyer: Any) -> None:
    assert buyer.world.service.ask("GET", f"customers/{buyer.id}/subscriptions").status == 404


@shows("4.2.7", "8.7", "4.0.2", "2.6.16")
def test_v2_lists_have_pages(world: World) -> None:
    customer = world.customer()
    names = {f"attribute_{count:02}" for count in range(25)}
    attributes = [{"name": name, "value": "x"} for name in sorted(names)]
    world.service.call("POST", "customers", {"id": customer.id, "attributes": attributes})
    page = customer.v2()["attributes"]
    seen = [item["name"] for item in page["items"]]
    assert len(seen) < 25
    while page["next_page"] is not None:
        page = world.service.call("GET", page["next_page"])
        seen += [item["name"] for item in page["items"]]
    assert sorted(seen) == sorted(names)
    few = world.service.call("GET", f"customers/{customer.id}/attributes?limit=3")
    assert len(few["items"]) == 3
    rest = world.service.call(
        "GET", f"customers/{customer.id}/attributes?limit=3&starting_after={few['items'][-1]['name']}"
    )
    assert not {item["name"] for item in rest["items"]} & {item["name"] for item in few["items"]}


@shows("4.2.8", "7.7", "7.21", "4.1.7", "5.1", "4.1.2", "4.2.3")
def test_errors_have_a_status_and_a_body(buyer: Any) -> None:
    service: Service = buyer.world.service
    unknown = service.ask("GET", f"customers/{uuid.uuid4()}")
    assert (unknown.status, unknown.json["object"]) == (404, "error")
    assert set(unknown.json) >= {"object", "type", "message", "retryable"}
    for path in (f"/v1/subscribers/{buyer.id}", f"/v2/projects/{service.project}/customers/{buyer.id}"):
        assert ask(service.base, "GET", path, ca=service.ca).status == 401
        refused = ask(service.base, "GET", path, ca=service.ca, authorization="Bearer sk_wrong")
        assert refused.status == 401
        body = refused.json
        assert set(body) >= ({"code", "message"} if path.startswith("/v1") else {"object", "type", "message"})
        assert ask(service.base, "GET", path, ca=service.ca, authorization=f"Bearer {service.key}").status == 200


@shows("4.1.8", "4.2.9", "7.9", "8.1", "9.3")
def test_one_key_may_ask_480_times_a_minute_in_v1_and_v2_together(buyer: Any) -> None:
    service: Service = buyer.world.service
    key = service.new_key("limited")
    paths = (f"/v1/subscribers/{buyer.id}", f"customers/{buyer.id}")
    began = time.monotonic()
    statuses = [service.ask("GET", paths[count % 2], key=key).status for count in range(480)]
    assert time.monotonic() - began < 60, "the machine is too slow to ask 480 times in a minute"
    assert set(statuses) == {200}
    for path in paths:
        refused = service.ask("GET", path, key=key)
        assert refused.status == 429
        assert 0 < int(refused.headers["retry-after"]) <= 60
    assert service.ask("GET", paths[0]).status == 200, "another key has a limit of its own"


@shows("4.1.1", "4.1.10", "2.2.3", "2.2.5", "2.2.6")
def test_every_id_of_a_customer_reads_the_same_subscriber(world: World) -> None:
    anonymous = world.customer(f"$RCAnonymousID:{uuid.uuid4().hex}")
    known = world.customer()
    anonymous.buy()
    login = {"app_user_id": anonymous.id, "new_app_user_id": known.id}
    assert world.service.ask("POST", "/v1/subscribers/identify", login).status in {200, 201}
    merged = known.next_event("SUBSCRIBER_ALIAS")
    assert {merged["app_user_id"], *merged["aliases"]} == {anonymous.id, known.id}
    assert merged["original_app_user_id"] == anonymous.id
    assert known.v1()["subscriber"] == anonymous.v1()["subscriber"]
    assert known.v1()["subscriber"]["original_app_user_id"] == anonymous.id
    assert known.agrees_with(merged) == {"pro"}


@shows("1.1-4", "1.5", "1.6")
def test_products_grant_entitlements_many_to_many(world: World) -> None:
    first, second = world.customer(), world.customer()
    [bought] = first.buy("team_monthly")
    assert first.agrees_with(bought) == {"pro", "team"}
    [bought] = second.buy("pro_yearly")
    assert second.agrees_with(bought) == {"pro"}
    by_product = [one.v1()["subscriber"]["entitlements"]["pro"]["product_identifier"] for one in (first, second)]
    assert by_product == ["team_monthly", "pro_yearly"]


@shows("2.6.19", "2.3.1", "2.3.2", "4.6.22")
def test_an_entitlement_without_an_end_is_active(world: World) -> None:
    customer = world.customer()
    events = customer.buy("pro_lifetime")
    assert events[-1]["entitlements"]["pro"]["expires_date"] is None
    assert customer.v1()["subscriber"]["entitlements"]["pro"]["expires_date"] is None
    [item] = customer.v2()["active_entitlements"]["items"]
    assert item["expires_at"] > time.time() * 1000
    assert customer.agrees_with(events[-1]) == {"pro"}
    debug = world.consumer.ask("GET", f"/api/debug/subscription/{customer.id}", customer.id).json
    assert debug["comparison"]["v1Active"] is True


@shows("2.6.6-9", "4.1.4", "4.2.16")
def test_v2_has_what_the_app_said_of_itself(world: World) -> None:
    service = world.service
    if service.public_key is None:
        pytest.skip("needs the public key of an app")
    id = str(uuid.uuid4())
    told = {
        "X_Platform": "iOS",
        "X_Platform_Version": "Version 18.1",
        "X_Client_Version": "2.3.4",
        # As a proxy in front of the service adds it.
        "CF_IPCountry": "US",
    }
    service.call("GET", f"/v1/subscribers/{id}", key=service.public_key, **told)
    deadline = time.monotonic() + 30
    while (customer := world.customer(id).v2())["last_seen_app_version"] is None and time.monotonic() < deadline:
        time.sleep(0.2)
    assert customer["last_seen_app_version"] == "2.3.4"
    assert customer["last_seen_platform"] == "ios"
    assert customer["last_seen_platform_version"] == "Version 18.1"
    assert customer["last_seen_country"] == "US"


@shows("2.6.11", "2.2.31", "6.21", "4.2.15")
def test_an_experiment_is_in_v2_and_told_by_an_event(world: World) -> None:
    customer = world.customer()
    world.service.call("POST", "customers", {"id": customer.id})
    variants = [{"id": "control", "weight": 1}, {"id": "b", "weight": 1}]
    made = world.service.call("POST", "experiments", {"name": f"Prices {customer.id}", "variants": variants})
    world.service.call("POST", f"experiments/{made['id']}/enroll", {"customer_id": customer.id})
    experiment = customer.v2()["experiment"]
    assert set(experiment) == {"object", "id", "name", "variant"}
    assert (experiment["object"], experiment["id"]) == ("experiment_enrollment", made["id"])
    assert experiment["variant"] in {"control", "b"}
    event = customer.next_event("EXPERIMENT_ENROLLMENT")
    assert (event["experiment_id"], event["variant_id"]) == (made["id"], experiment["variant"])
    assert "experiment" not in customer.v1()["subscriber"]
