"""A webhook under `latchkey up`, with real processes: made, tried, fed by a purchase, verified by the receiver."""

from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook as Verifier

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
