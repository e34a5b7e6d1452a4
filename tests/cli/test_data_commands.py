"""The commands on what a project has: for people, and with --json for programs."""

import asyncio
import base64
import io
import json
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from latchkey.database.pool import Database
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.now import real_now
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from tests.cli.running import typed
from tests.databases import DemoShelf

SECRET = base64.b64encode(b"k" * 32).decode()


@dataclass
class Terminal:
    database: Database
    project_id: str
    environment: dict[str, str]

    async def type(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = await asyncio.to_thread(typed, *words, **self.environment)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    async def ask(self, *words: str) -> Any:
        """The JSON on stdout, which is all there is."""
        done = await self.type(*words, "--json")
        assert done.stderr == ""
        assert "\x1b" not in done.stdout
        return json.loads(done.stdout)

    async def refused(self, *words: str, code: int = 1) -> dict[str, Any]:
        done = await self.type(*words, "--json", code=code)
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        error: dict[str, Any] = json.loads(line)["error"]
        return error

    async def audited(self) -> list[tuple[str, str, str]]:
        found = await audit.entries(self.database, self.project_id, limit=100)
        return [(one.action, one.subject, one.outcome) for one in found if one.actor == "the command line"]


@pytest.fixture
async def terminal(demo_shelf: DemoShelf) -> AsyncIterator[Terminal]:
    async with demo_shelf.shelf.lend() as database:
        changes = Changes(database, real_now)
        bought = Action(name="purchase", app_user_id="ada", product_id="pro_monthly", new_id="t1")
        await test_store.act(changes, demo_shelf.demo.project_id, bought)
        environment = {"LATCHKEY_DATABASE_URL": database.url, "LATCHKEY_SECRET_KEY": SECRET, "COLUMNS": "250"}
        yield Terminal(database, demo_shelf.demo.project_id, environment)


async def test_a_key_that_is_created_and_revoked_is_in_the_audit_log(terminal: Terminal) -> None:
    made = await terminal.ask("key", "create", "--name", "server")
    await terminal.ask("key", "revoke", made["id"])
    assert await terminal.audited() == [("key.revoked", made["id"], "done"), ("key.created", "server", "done")]


async def test_customers_are_shown_found_granted_revoked_and_deleted(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (await terminal.type("customer", "show", "ada")).stdout
    assert "pro_monthly" in shown
    assert "$9.99" in shown
    assert " UTC" in shown
    ada = await terminal.ask("customer", "show", "ada")
    assert ada["object"] == "customer"
    assert [one["entitlement_id"] for one in ada["active_entitlements"]["items"]] == ["pro"]
    assert [(one["product_id"], one["gives_access"]) for one in ada["purchases"]] == [("pro_monthly", True)]
    assert {one["entitlement_id"]: one["has_access"] for one in ada["explanations"]}["pro"] is True

    granted = await terminal.ask("customer", "grant", "grace", "pro", "--for", "monthly", "--create")
    assert granted["active_entitlements"]["items"][0]["entitlement_id"] == "pro"
    listed = await terminal.ask("customer", "list", "--limit", "1")
    assert ([one["id"] for one in listed["items"]], listed["has_more"]) == (["grace"], True)
    assert [one["id"] for one in (await terminal.ask("customer", "find", "ad"))["items"]] == ["ada"]
    assert "found by" in (await terminal.type("customer", "find", "ada")).stdout
    assert "No customers found." in (await terminal.type("customer", "find", "nobody")).stdout

    assert (await terminal.ask("admin", "rebuild-lists"))["projects"] == [terminal.project_id]
    active = await terminal.ask("customer", "list", "--where", "status=active", "--where", "spent_from=5")
    assert ([one["id"] for one in active["items"]], active["complete"]) == (["ada"], True)
    assert "$9.99" in (await terminal.type("customer", "list", "--sort", "spent")).stdout
    lines = (await terminal.type("customer", "list", "--csv", "--where", "status=granted")).stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["customer_id", "grace"]
    assert (await terminal.refused("customer", "list", "--where", "stauts=active"))["param"] == "stauts"
    assert (await terminal.refused("customer", "list", "--where", "active", code=2))["type"] == "usage"

    assert "no" in (await terminal.type("customer", "revoke", "grace", "pro")).stdout
    grace = await terminal.ask("customer", "show", "grace")
    assert grace["active_entitlements"]["items"] == []
    # A program cannot be asked, and without an answer nothing is deleted.
    assert (await terminal.refused("customer", "delete", "grace", code=2))["type"] == "usage"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "Delete the customer 'grace'?" in (await terminal.type("customer", "delete", "grace", code=1)).stdout
    assert (await terminal.ask("customer", "delete", "grace", "--yes"))["id"] == "grace"
    missing = await terminal.refused("customer", "show", "grace")
    assert missing == {"type": "not_found", "message": "There is no customer 'grace'.", "param": "customer_id"}

    done = await terminal.audited()
    assert ("customer.granted", ERASED, "done") in done
    assert ("customer.deleted", ERASED, "done") in done
    assert not [one for one in done if "grace" in one[1]]


async def test_a_grant_needs_exactly_one_end(terminal: Terminal) -> None:
    for words in ((), ("--for", "monthly", "--until", "1d"), ("--for", "soon")):
        assert (await terminal.refused("customer", "grant", "ada", "pro", *words, code=2))["type"] == "usage"
    assert (await terminal.refused("customer", "grant", "ada", "none", "--for", "daily"))["type"] == "not_found"


async def test_events_are_listed_shown_and_followed(terminal: Terminal) -> None:
    listed = await terminal.ask("event", "list")
    (event,) = listed["items"]
    assert (event["type"], event["customer_id"], event["sequence"]) == ("INITIAL_PURCHASE", "ada", 1)
    assert (await terminal.ask("event", "list", "--type", "renewal"))["items"] == []
    (body,) = (await terminal.ask("event", "list", "--customer", "ada", "--bodies"))["items"]
    assert body["price"] == 9.99
    shown = await terminal.ask("event", "show", event["id"])
    assert (shown["event"], shown["deliveries"]) == (body, [])
    assert '"app_user_id": "ada"' in (await terminal.type("event", "show", event["id"])).stdout
    assert (await terminal.refused("event", "show", "none"))["type"] == "not_found"
    assert (await terminal.refused("event", "list", "--environment", "moon", code=2))["type"] == "usage"

    following = asyncio.create_task(terminal.type("event", "tail", "--stop-after", "2", "--json"))
    cancel = Action(name="cancel", app_user_id="ada", product_id="pro_monthly", new_id="t2")
    await test_store.act(Changes(terminal.database, real_now), terminal.project_id, cancel)
    lines = [json.loads(line) for line in (await following).stdout.splitlines()]
    # Whether the second one was committed before the first look at the feed or after it.
    assert [one["type"] for one in lines] == ["INITIAL_PURCHASE", "CANCELLATION"]


async def test_products_are_created_changed_attached_and_deleted(terminal: Terminal) -> None:
    made = await terminal.ask(
        "product", "create", "pro_jp", "--price", "10500", "--currency", "jpy", "--duration", "1 month",
        "--trial", "7 days", "--grants", "pro",
    )  # fmt: skip
    assert (made["duration"], made["trial_duration"], made["currency"]) == ("P1M", "P7D", "JPY")
    assert made["entitlement_ids"] == ["pro"]
    shown = (await terminal.type("product", "show", "pro_jp")).stdout
    assert "¥10,500" in shown
    assert "1 month" in shown
    listed = (await terminal.type("product", "list")).stdout
    assert "¥10,500" in listed
    assert "P1M" not in listed
    edited = await terminal.ask("product", "edit", "pro_jp", "--name", "Pro (Japan)", "--no-trial", "--price", "9800")
    assert (edited["display_name"], edited["trial_duration"], edited["price"]) == ("Pro (Japan)", None, 9800)
    detached = await terminal.ask("product", "detach", "pro_jp", "pro", "--yes")
    assert detached["entitlement_ids"] == []
    assert (await terminal.ask("product", "attach", "pro_jp", "pro"))["entitlement_ids"] == ["pro"]
    assert (await terminal.refused("product", "create", "pro_jp", "--price", "1", "--currency", "USD"))[
        "type"
    ] == "conflict"
    for words in (
        ("edit", "pro_jp"),
        ("edit", "pro_jp", "--duration", "a while"),
        ("edit", "pro_jp", "--trial", "7 days", "--no-trial"),
        ("delete", "pro_jp"),
    ):
        assert (await terminal.refused("product", *words, code=2))["type"] == "usage"
    assert (await terminal.refused("product", "edit", "pro_jp", "--credits", "many"))["type"] == "invalid"
    assert (await terminal.ask("product", "delete", "pro_jp", "--yes"))["id"] == "pro_jp"
    assert (await terminal.refused("product", "show", "pro_jp"))["type"] == "not_found"
    actions = {action for action, _, _ in await terminal.audited()}
    assert actions == {
        "product.created",
        "product.updated",
        "product.deleted",
        "entitlement.products_attached",
        "entitlement.products_detached",
    }


async def test_entitlements_are_created_renamed_and_deleted(terminal: Terminal) -> None:
    assert (await terminal.ask("entitlement", "create", "vip"))["display_name"] == "vip"
    assert (await terminal.ask("entitlement", "rename", "vip", "Very important"))["display_name"] == "Very important"
    assert "pro_monthly" in (await terminal.type("entitlement", "list")).stdout
    assert "vip" in [one["id"] for one in (await terminal.ask("entitlement", "list"))["items"]]
    assert (await terminal.refused("entitlement", "create", "vip"))["type"] == "conflict"
    assert (await terminal.refused("entitlement", "delete", "pro", "--yes"))["type"] == "in_use"
    assert (await terminal.ask("entitlement", "delete", "vip", "--yes"))["id"] == "vip"
    assert ("entitlement.deleted", "vip", "done") in await terminal.audited()


async def test_offerings_are_created_filled_shown_and_deleted(terminal: Terminal) -> None:
    made = await terminal.ask("offering", "create", "spring", "--package", "$rc_monthly=pro_monthly")
    (package,) = made["packages"]["items"]
    assert (package["lookup_key"], package["products"]["items"][0]["product"]["id"]) == ("$rc_monthly", "pro_monthly")
    grown = await terminal.ask("offering", "add", "spring", "--package", "$rc_monthly=pro_yearly")
    assert len(grown["packages"]["items"][0]["products"]["items"]) == 2
    assert (await terminal.ask("offering", "current", made["id"]))["is_current"] is True
    assert "$rc_monthly: pro_monthly, pro_yearly" in (await terminal.type("offering", "list")).stdout
    assert "spring" in [one["lookup_key"] for one in (await terminal.ask("offering", "list"))["items"]]
    assert (await terminal.refused("offering", "add", "spring", code=2))["type"] == "usage"
    assert (await terminal.refused("offering", "create", "x", "--package", "alone", code=2))["type"] == "usage"
    assert (await terminal.refused("offering", "current", "autumn"))["type"] == "not_found"
    assert (await terminal.refused("offering", "delete", "spring", "--yes"))["type"] == "in_use"
    await terminal.type("offering", "create", "autumn")
    assert (await terminal.ask("offering", "delete", "autumn", "--yes"))["object"] == "offering"


async def test_purchase_links_are_created_listed_and_archived(terminal: Terminal) -> None:
    app = (await terminal.ask("app", "create", "Web", "--store", "stripe"))["id"]
    create = ("purchase-link", "create", app, "--product", "pro_yearly")
    # Without an address of the service there is none for a link, and none is made.
    assert "LATCHKEY_PUBLIC_URL" in (await terminal.refused(*create))["message"]
    terminal.environment["LATCHKEY_PUBLIC_URL"] = "https://pay.example.com"
    made = await terminal.ask(*create)
    assert made["url"] == f"https://pay.example.com/buy/{made['id']}"
    assert made["url"] in (await terminal.type("purchase-link", "list")).stdout
    assert [one["id"] for one in (await terminal.ask("purchase-link", "list"))["items"]] == [made["id"]]
    assert (await terminal.refused("purchase-link", "create", app))["type"] == "invalid"
    assert (await terminal.ask("purchase-link", "archive", made["id"], "--yes"))["archived_at"]
    assert ("purchase_link.archived", made["id"], "done") in await terminal.audited()


async def test_a_year_passes_on_a_clock(terminal: Terminal) -> None:
    made = await terminal.ask("clock", "create", "a year", "--at", "2030-01-31T00:00", "--customer", "joan")
    assert ("test_clock.customer_created", f"joan, {made['id']}", "done") in await terminal.audited()
    buy = Action(name="purchase", app_user_id="joan", product_id="pro_monthly", new_id="t9")
    await test_store.act(Changes(terminal.database, real_now), terminal.project_id, buy)
    moved = await terminal.ask("clock", "advance", "a year", "--by", "1 year")
    assert (moved["id"], moved["events_count"]) == (made["id"], 12)
    assert "2031-01-31" in (await terminal.type("clock", "list")).stdout
    assert "Events on the way: 1." in (await terminal.type("clock", "advance", made["id"], "--to", "2031-03-01")).stdout
    assert (await terminal.ask("clock", "list"))["items"][0]["name"] == "a year"
    for words, kind, code in (
        (("advance", "a year"), "usage", 2),
        (("advance", "no year", "--by", "P1D"), "not_found", 1),
        (("create", "x", "--customer", "null"), "invalid", 1),
        (("create", "x", "--customer", "hedy", "--customer", "joan"), "conflict", 1),
        # Whatever is refused leaves no clock behind.
        (("delete", "x", "--yes"), "not_found", 1),
        (("delete", "a year", "--yes"), "in_use", 1),
    ):
        assert (await terminal.refused("clock", *words, code=code))["type"] == kind, words
    for _ in range(2):
        await terminal.type("clock", "create", "twin")
    assert "Several clocks" in (await terminal.refused("clock", "delete", "twin", "--yes"))["message"]


async def test_apps_are_created_and_deleted(terminal: Terminal) -> None:
    made = await terminal.ask("app", "create", "Notes", "--store", "play_store")
    assert made["public_api_key"]["key"].startswith("goog_")
    assert "app_store" in (await terminal.refused("app", "create", "x", "--store", "corner_shop"))["message"]
    assert (await terminal.ask("app", "delete", made["id"], "--yes"))["object"] == "app"
    assert (await terminal.refused("app", "delete", made["id"], "--yes"))["type"] == "not_found"


async def test_webhooks_are_created_tested_paused_and_their_deliveries_sent_again(
    terminal: Terminal, tmp_path: Path
) -> None:
    certificates = ensure_certificates(tmp_path / "tls", [], time.time_ns() // 1_000_000)
    arrivals: list[ReceivedWebhook] = []
    receiver = Receiver(lambda arrival, _: arrivals.append(arrival))
    header = tmp_path / "header"
    header.write_text("Bearer very s3cret\n")
    async with listening(receiver, tls(certificates.cert, certificates.key)) as port:
        terminal.environment |= {
            "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(certificates.authority),
        }
        url = f"https://127.0.0.1:{port}/"
        made = await terminal.type(
            "webhook", "create", "--name", "mine", "--url", url, "--authorization-from", str(header)
        )
        assert made.stdout.startswith("whsec_"), "The signing secret alone is on stdout."
        (hook,) = (await terminal.ask("webhook", "list"))["items"]
        assert (hook["url"], hook["has_authorization_header"], hook["health"]["state"]) == (url, True, "ok")
        assert made.stdout.strip() not in json.dumps(hook)
        id = hook["id"]
        assert url in (await terminal.type("webhook", "show", id)).stdout
        tried = await terminal.ask("webhook", "test", id, "--type", "renewal")
        assert (tried["delivered"], tried["event_type"]) == (True, "RENEWAL")
        assert arrivals[0].event.type == "RENEWAL"
        edited = await terminal.ask("webhook", "edit", id, "--type", "renewal", "--environment", "sandbox")
        assert (edited["event_types"], edited["environment"]) == (["RENEWAL"], "sandbox")
        assert (await terminal.ask("webhook", "edit", id, "--all-types", "--environment", "both"))["event_types"] == []
        assert (await terminal.ask("webhook", "pause", id))["health"]["state"] == "paused"
        assert (await terminal.ask("webhook", "resume", id))["enabled"] is True

        changes = Changes(terminal.database, real_now)
        cancel = Action(name="cancel", app_user_id="ada", product_id="pro_monthly", new_id="t2")
        await test_store.act(changes, terminal.project_id, cancel)
        (delivery,) = (await terminal.ask("webhook", "deliveries", id, "--customer", "ada"))["items"]
        assert (delivery["event_type"], delivery["status"]) == ("CANCELLATION", "waiting")
        assert "CANCELLATION" in (await terminal.type("webhook", "deliveries", id)).stdout
        assert (await terminal.ask("webhook", "resend", id, delivery["id"]))["id"] == delivery["id"]
        assert (await terminal.ask("webhook", "resend", id, "--failed-since", "1d"))["status"] == "failed"
        assert (await terminal.refused("webhook", "resend", id, "none"))["type"] == "not_found"
        assert (await terminal.refused("webhook", "resend", id, code=2))["type"] == "usage"
    # Nobody listens any more.
    assert json.loads((await terminal.type("webhook", "test", id, "--json", code=1)).stdout)["delivered"] is False
    assert (await terminal.refused("webhook", "create", "--name", "x", "--url", "http://a"))["type"] == "invalid"
    assert (await terminal.refused("webhook", "edit", id, "--type", "nonsense", code=2))["type"] == "usage"
    assert (await terminal.ask("webhook", "delete", id, "--yes"))["id"] == id
    assert "no webhook yet" in (await terminal.type("webhook", "list")).stdout
    terminal.environment |= {"LATCHKEY_SECRET_KEY": ""}
    refused = await terminal.refused("webhook", "list", code=2)
    assert refused["type"] == "settings"
    assert refused["problems"][0]["setting"] == "LATCHKEY_SECRET_KEY"
    outcomes = {action: outcome for action, _, outcome in reversed(await terminal.audited())}
    assert outcomes["webhook.created"] == "refused"
    assert {"webhook.tested", "webhook.paused", "webhook.resumed", "delivery.resent", "webhook.replayed"} <= set(
        outcomes
    )


async def test_a_destination_takes_its_secrets_from_a_file_or_the_environment(
    terminal: Terminal, tmp_path: Path
) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret4711\n")
    terminal.environment |= {"MIXPANEL_SECRET": "s3cret4711"}
    create = "webhook", "create", "--name", "theirs", "--destination"
    for words in (
        ("amplitude", "--set", "region=eu", "--set-from", f"api_key={secret}"),
        ("mixpanel", "--set", "project_id=1", "--set", "username=robot", "--set-env", "password=MIXPANEL_SECRET"),
    ):
        made = await terminal.ask(*create, *words)
        assert made["destination"]["preset"] == words[0]
        assert "s3cret4711" not in json.dumps(made)
        assert "signing_secret" not in made
    for wrong in (("slack", "--set", "webhook_url"), ("slack", "--set-env", "webhook_url=NOT_THERE")):
        assert (await terminal.refused(*create, *wrong, code=2))["type"] == "usage"
    assert (await terminal.refused(*create, "nowhere"))["type"] == "refused"
    for preset, said in (
        ("slack", "Webhook URL is missing: give --set-from webhook_url=FILE."),
        ("mixpanel", "Project id is missing: give --set project_id=VALUE."),
    ):
        assert (await terminal.refused(*create, preset))["message"] == said
