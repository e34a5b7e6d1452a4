"""A webhook under `latchkey up`, with real processes: made, tried, fed by a purchase, verified by the receiver."""

import asyncio
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package
from standardwebhooks.webhooks import Webhook as Verifier

from latchkey.database.pool import connect
from tests.cli.running import Up
from tests.cli.webhook_app import App
from tests.patience import wait_until
from tests.subjects.webhooks.delivery import certificates


def healthy(up: Up, webhook_id: str) -> Any:
    health = up.call("GET", f"integrations/webhooks/{webhook_id}")["health"]
    return health if health["last_success_at"] is not None else None


def test_settings_of_the_environment_are_taken_or_said_not_to_apply(short_folder: Path) -> None:
    certs = certificates.make(short_folder / "receivers")
    # A bundle: the authority that is needed is not the first in it.
    bundle = short_folder / "receivers" / "bundle.pem"
    bundle.write_bytes(certs.stranger[0].read_bytes() + certs.authority.read_bytes())
    with Up(
        short_folder / "told",
        "--no-stores",
        LATCHKEY_PORT="0",
        LATCHKEY_WEBHOOK_EXTRA_CA=str(bundle),
        LATCHKEY_LOG_LEVEL="warning",
        LATCHKEY_DATABASE_URL="postgresql://elsewhere/latchkey",
    ) as up:
        up.wait_until_ready()
        told = " ".join(up.output.split())
        assert "Settings used LATCHKEY_PORT, LATCHKEY_WEBHOOK_EXTRA_CA, LATCHKEY_LOG_LEVEL" in told
        assert "LATCHKEY_DATABASE_URL: `up` ignores it, because it has a database of its own" in told
        own = up.folder / "tls"
        for cert, key in (certs.good, (own / "server.pem", own / "server.key")):
            with App(cert, key) as listening:
                made = up.call("POST", "integrations/webhooks", {"name": "Mine", "url": listening.url})
                tried = up.call("POST", f"integrations/webhooks/{made['id']}/test", {"type": "RENEWAL"})
                assert (tried["status"], tried["body"]) == (200, '{"ok": true}'), tried
        with App(*certs.expired) as listening:
            made = up.call("POST", "integrations/webhooks", {"name": "Mine", "url": listening.url})
            tried = up.call("POST", f"integrations/webhooks/{made['id']}/test", {"type": "RENEWAL"})
            assert tried["status"] is None
        assert '"event":"request"' not in (up.folder / "latchkey.log").read_text()
        assert up.terminate() == 0


def test_a_webhook_to_this_machine_needs_nothing_configured(up: Up) -> None:
    tls = up.folder / "tls"
    with App(tls / "server.pem", tls / "server.key") as listening:
        made = up.call("POST", "integrations/webhooks", {"name": "Mine", "url": listening.url})
        tried = up.call("POST", f"integrations/webhooks/{made['id']}/test", {"type": "RENEWAL"})
        assert (tried["status"], tried["body"]) == (200, '{"ok": true}'), tried
        bought = {"action": "purchase", "app_user_id": "hilda", "product_id": "pro_monthly"}
        up.call("POST", "test_store/actions", bought)
        health = wait_until(lambda: healthy(up, made["id"]), "the purchase was not delivered")
        assert (health["state"], health["waiting"]) == ("ok", 0)
        # As a receiver does it: body and headers as they came, with the library's own tolerance of time.
        verified = [Verifier(made["signing_secret"]).verify(body, headers) for _, headers, body in listening.messages]
        assert [one["event"]["type"] for one in verified] == ["RENEWAL", "INITIAL_PURCHASE"]
        assert verified[0]["event"]["id"].startswith("test_")
        up.call("DELETE", f"integrations/webhooks/{made['id']}")


async def lengthen_leases(database_url: str) -> None:
    connection = await connect(database_url)
    await connection.execute("update lanes set lease_until = lease_until + 3600 * 1000 where lease_until > 0")
    await connection.close()


def test_what_a_killed_process_was_sending_is_sent_again_as_soon_as_its_successor_is_up(short_folder: Path) -> None:
    with Up(short_folder / "up", "--no-stores") as up:
        connection = up.wait_until_ready()
        tls = up.folder / "tls"
        with App(tls / "server.pem", tls / "server.key") as listening:
            hook = {"name": "Mine", "url": listening.url, "in_flight_limit": 400}
            up.call("POST", "integrations/webhooks", hook)
            listening.answers.clear()
            bought = {"action": "purchase", "app_user_id": "hilda", "product_id": "pro_monthly"}
            up.call("POST", "test_store/actions", bought)
            wait_until(lambda: len(listening.messages) == 1, "the purchase was not sent")
            asyncio.run(lengthen_leases(connection["database_url"]))
            [sending] = [child for child in psutil.Process(up.process.pid).children() if child.name() == "api,delivery"]
            sending.kill()
            listening.answers.set()
            wait_until(lambda: len(listening.messages) == 2, "it was not sent again")
            first, second = ((headers["webhook-id"], body) for _, headers, body in listening.messages)
            assert first == second
