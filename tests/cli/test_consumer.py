"""`latchkey consumer` with real processes: by itself, and as part of `latchkey up`."""

import json
import sqlite3
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from tests.cli.running import Running, Up, typed
from tests.patience import PATIENCE, wait_until

SECRET = "webhook-secret"


def ask(url: str, token: str, authority: str | None = None, body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, headers)
    context = ssl.create_default_context(cafile=authority) if authority is not None else None
    try:
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def act(up: Up, action: str, user: str, **more: Any) -> None:
    body = {"action": action, "app_user_id": user, "product_id": "pro_monthly", **more}
    up.call("POST", "test_store/actions", body)


def knows(up: Up, user: str, path: str) -> Any:
    consumer = up.connection["consumer"]
    token = next(one["token"] for one in consumer["users"] if one["app_user_id"] == user)
    status, said = ask(consumer["base_url"] + path, token, up.connection["ca_cert"])
    assert status == 200, said
    return said


def last_event(up: Up, user: str) -> str | None:
    database = knows(up, user, f"/api/debug/subscription/{user}")["database"]
    found: str | None = database and database["last_webhook_event_type"]
    return found


def test_connection_json_tells_all_about_the_consumer(up: Up) -> None:
    # Started with --no-stores.
    assert up.connection["stores"] == {}
    consumer = up.connection["consumer"]
    assert set(consumer) == {"base_url", "webhook_url", "webhook_secret", "operator_token", "users"}
    assert consumer["webhook_url"] == consumer["base_url"] + "/webhooks/billing"
    assert all(set(user) == {"app_user_id", "token"} for user in consumer["users"])


def test_whoever_has_connection_json_can_send_the_consumer_an_event(up: Up) -> None:
    consumer, authority = up.connection["consumer"], up.connection["ca_cert"]
    event = {"id": "by-hand-1", "type": "INITIAL_PURCHASE", "app_user_id": "quentin", "environment": "SANDBOX"}
    envelope = {"api_version": "1.0", "event": {**event, "entitlements": {}}}
    said = [ask(consumer["webhook_url"], consumer["webhook_secret"], authority, envelope) for _ in range(2)]
    assert said == [(200, {"message": "Event processed"}), (200, {"message": "Event already processed"})]
    assert ask(consumer["webhook_url"], "another", authority, envelope) == (401, {"error": "Unauthorized"})
    refused = ask(consumer["webhook_url"], consumer["webhook_secret"], authority, {"api_version": "1.0"})
    assert refused == (400, {"error": "Invalid webhook body"})


def test_a_purchase_in_the_service_reaches_the_consumer_by_webhook(up: Up) -> None:
    act(up, "purchase", "alice")
    wait_until(lambda: last_event(up, "alice") == "INITIAL_PURCHASE")
    assert knows(up, "alice", "/api/my-entitlements")["entitlements"] == ["pro"]
    act(up, "cancel", "alice")
    wait_until(lambda: last_event(up, "alice") == "CANCELLATION")
    status = knows(up, "alice", "/api/debug/subscription/alice")
    assert status["database"]["subscription_status"] == "cancelled"
    assert status["comparison"]["match"] is True


def test_whoever_signs_in_after_buying_is_let_in_as_soon_as_it_is_told(up: Up) -> None:
    """carol has a record without access; an anonymous id buys, and then logs in as carol."""
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    connection = up.connection
    act(up, "purchase", "carol", product_id="coins_100")
    wait_until(lambda: last_event(up, "carol") is not None)
    assert knows(up, "carol", "/api/my-entitlements")["entitlements"] == []
    act(up, "purchase", anonymous)
    said = {"app_user_id": anonymous, "new_app_user_id": "carol"}
    identify = f"{connection['base_url']}/v1/subscribers/identify"
    assert ask(identify, connection["api_key"], connection["ca_cert"], said)[0] == 200
    wait_until(lambda: last_event(up, "carol") == "SUBSCRIBER_ALIAS")
    assert knows(up, "carol", "/api/entitlement/pro") == {
        "hasAccess": True, "entitlementId": "pro", "source": "database",
    }  # fmt: skip
    both = [knows(up, "carol", f"/api/debug/subscription/{id}")["database"] for id in ("carol", anonymous)]
    assert both[0] == both[1]


def test_a_killed_consumer_comes_back_and_misses_nothing(up: Up) -> None:
    process = next(child for child in psutil.Process(up.process.pid).children() if child.name() == "consumer")
    process.kill()
    act(up, "purchase", "bob")
    wait_until(lambda: _last_event_or_none(up, "bob") == "INITIAL_PURCHASE")


def _last_event_or_none(up: Up, user: str) -> str | None:
    try:
        return last_event(up, user)
    except (OSError, AssertionError):
        return None


def test_operators_see_metrics_and_set_aside_events(up: Up) -> None:
    consumer = up.connection["consumer"]
    found = ask(consumer["base_url"] + "/operations/set-aside", consumer["operator_token"], up.connection["ca_cert"])
    assert found == (200, {"events": []})


@pytest.fixture
def environment(up: Up, tmp_path: Path) -> dict[str, str]:
    connection = up.connection
    return {
        "LATCHKEY_CONSUMER_SERVICE_URL": connection["base_url"],
        "LATCHKEY_CONSUMER_SERVICE_CA": connection["ca_cert"],
        "LATCHKEY_CONSUMER_PROJECT_ID": connection["project_id"],
        "LATCHKEY_CONSUMER_API_KEY": connection["api_key"],
        "LATCHKEY_CONSUMER_WEBHOOK_SECRET": SECRET,
        "LATCHKEY_CONSUMER_DATABASE_URL": f"sqlite:///{tmp_path}/consumer.db",
        "LATCHKEY_CONSUMER_BEHIND_PROXY": "true",
    }


def test_the_server_by_itself_starts_answers_and_stops(environment: dict[str, str]) -> None:
    with Running("consumer", "--port", "0", **environment) as consumer:
        port = consumer.wait_for_event("ready")["port"]
        wait_until(lambda: ask(f"http://127.0.0.1:{port}/healthz", "") == (200, {"status": "ok"}))
        event = {"id": "evt_1", "type": "RENEWAL", "app_user_id": "ada", "entitlements": {}}
        url = f"http://127.0.0.1:{port}/webhooks/billing"
        assert ask(url, SECRET, body={"event": event}) == (200, {"message": "Event processed"})
        assert ask(url, "wrong", body={"event": event}) == (401, {"error": "Unauthorized"})
        assert consumer.wait_for_event("event")["event_id"] == "evt_1"
        assert consumer.terminate() == 0


def test_a_body_that_is_too_large_is_told_so(up: Up) -> None:
    """Over TLS and a real connection: the client sends everything before it looks for the answer."""
    consumer, authority = up.connection["consumer"], up.connection["ca_cert"]
    for size in (1024 * 1024 + 1, 8 * 1024 * 1024):
        said = ask(consumer["webhook_url"], consumer["webhook_secret"], authority, "x" * size)
        assert said == (413, {"error": "Payload too large"})


def test_a_test_event_arrives_and_changes_nothing(up: Up) -> None:
    connection = up.connection
    hooks = f"{connection['base_url']}/v2/projects/{connection['project_id']}/integrations/webhooks"
    key, authority = connection["api_key"], connection["ca_cert"]
    [hook] = [one for one in ask(hooks, key, authority)[1]["items"] if one["name"] == "Demo consumer"]
    for type in ("INITIAL_PURCHASE", "TEST"):
        status, said = ask(f"{hooks}/{hook['id']}/test", key, authority, {"type": type})
        assert (status, said["status"], json.loads(said["body"])) == (200, 200, {"message": "Test event received"})
    assert knows(up, "alice", "/api/debug/subscription/sample_user")["database"] is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("API_KEY", "sk_wrong_and_secret", "LATCHKEY_CONSUMER_API_KEY"),
        ("PROJECT_ID", "proj_another", "LATCHKEY_CONSUMER_PROJECT_ID"),
        ("SERVICE_CA", "", "LATCHKEY_CONSUMER_SERVICE_CA"),
        ("SERVICE_URL", "https://localhost:1", "LATCHKEY_CONSUMER_SERVICE_URL"),
    ],
)
def test_a_wrong_way_to_the_service_is_found_by_the_check(
    environment: dict[str, str], name: str, value: str, words: str
) -> None:
    wrong = {**environment, f"LATCHKEY_CONSUMER_{name}": value}
    checked = typed("consumer", "check", **wrong)
    assert (checked.returncode, words in checked.stderr) == (1, True), checked.stderr
    assert "sk_wrong_and_secret" not in checked.stderr


def test_a_wrong_key_ends_the_server_and_a_service_that_is_away_does_not(environment: dict[str, str]) -> None:
    with Running("consumer", "--port", "0", **environment | {"LATCHKEY_CONSUMER_API_KEY": "sk_wrong"}) as consumer:
        assert consumer.ended() == 1
        assert "LATCHKEY_CONSUMER_API_KEY" in consumer.output
    away = environment | {"LATCHKEY_CONSUMER_SERVICE_URL": "https://localhost:1"}
    with Running("consumer", "--port", "0", **away) as consumer:
        problem = consumer.wait_for_event("the service cannot be asked")["problem"]
        assert "LATCHKEY_CONSUMER_SERVICE_URL" in problem
        assert consumer.terminate() == 0


def test_a_right_one_is_told_too(environment: dict[str, str]) -> None:
    checked = typed("consumer", "check", **environment)
    assert (checked.returncode, "accepts the key" in checked.stdout) == (0, True)


def test_reconciling_an_empty_consumer_fetches_everything(up: Up, environment: dict[str, str]) -> None:
    act(up, "purchase", "carol", product_id="coins_100")
    wait_until(lambda: last_event(up, "carol") is not None)
    dry = json.loads(typed("consumer", "reconcile", "--dry-run", "--json", **environment).stdout)
    assert {one["app_user_id"] for one in dry["events_missed"]} >= {"carol"}
    done = typed("consumer", "reconcile", **environment)
    assert done.returncode == 0, done.stderr
    assert "had not arrived" in done.stdout
    again = json.loads(typed("consumer", "reconcile", "--json", **environment).stdout)
    assert (again["events_missed"], again["differences"], again["failures"]) == ([], [], {})
    assert again["users_compared"] >= 1


def test_migrate_and_events_speak_plainly(environment: dict[str, str], tmp_path: Path) -> None:
    assert "at version" in typed("consumer", "migrate", **environment).stdout
    assert "Nothing to do" in typed("consumer", "migrate", **environment).stdout
    assert "0 processed again, 0 of them failed" in typed("consumer", "events", "reprocess", **environment).stdout
    body = json.dumps({"id": "evt_2", "type": "RENEWAL", "app_user_id": "ada", "entitlements": {}}).encode()
    with sqlite3.connect(tmp_path / "consumer.db") as database:
        database.execute(
            "insert into billing_events_set_aside values ('evt_2', 'RENEWAL', 'ada', 'boom', 1, 1, 1, ?)", (body,)
        )
    database.close()
    assert "boom" in typed("consumer", "events", "list-set-aside", **environment).stdout
    assert (
        "1 processed again, 0 of them failed" in typed("consumer", "events", "reprocess", "evt_2", **environment).stdout
    )
    missing = typed("consumer", "events", "reprocess", "evt_2", **environment)
    assert (missing.returncode, "no event evt_2" in missing.stderr) == (1, True)


def test_missing_and_unsafe_settings_are_all_told_at_once(environment: dict[str, str]) -> None:
    refused = typed("consumer")
    assert refused.returncode == 2
    for name in ("SERVICE_URL", "PROJECT_ID", "API_KEY", "WEBHOOK_SECRET"):
        assert f"LATCHKEY_CONSUMER_{name}" in refused.stderr
    open_ = typed("consumer", "--host", "0.0.0.0", **environment)
    assert (open_.returncode, "no TLS" in open_.stderr) == (2, True)


def test_a_database_that_is_away_is_told_in_plain_words(environment: dict[str, str]) -> None:
    away = environment | {"LATCHKEY_CONSUMER_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    failed = typed("consumer", "migrate", **away)
    assert failed.returncode == 1
    assert "database cannot be used" in failed.stderr
