"""`latchkey receiver --forward-to`: webhooks over HTTPS, passed on to an app that speaks plain HTTP."""

import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import typer
from standardwebhooks.webhooks import Webhook as Verifier

from latchkey.cli.receiver import Forwarder, check
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, _Seen
from tests.cli.running import Running, Up, typed
from tests.cli.webhook_app import App


def own_webhook(up: Up) -> Any:
    (found,) = [one for one in up.call("GET", "integrations/webhooks")["items"] if one["name"] == "latchkey receiver"]
    return found


def test_a_webhook_reaches_a_plain_http_app_with_everything_it_needs_to_check_it(up: Up) -> None:
    with (
        App() as app,
        Running("receiver", "--data", up.folder, "--forward-to", app.url, "--authorization", "Bearer mine") as running,
    ):
        running.wait_for("Press Ctrl-C")
        (secret,) = re.findall(r"whsec_\S+", running.output)
        assert "Authorization   Bearer mine" in running.output
        tried = up.call("POST", f"integrations/webhooks/{own_webhook(up)['id']}/test", {"type": "RENEWAL"})
        # What the app answered is what the service got.
        assert (tried["delivered"], tried["status"], tried["body"]) == (True, 200, '{"ok": true}')
        (path, headers, body) = app.messages[0]
        assert path == "/hook?from=latchkey"
        assert headers["authorization"] == "Bearer mine"
        assert headers["host"].startswith("localhost:")
        assert headers["content-type"] == "application/json"
        assert Verifier(secret).verify(body, headers)["event"]["type"] == "RENEWAL"
        running.wait_for("your app answered 200 in")
        assert re.search(r'RENEWAL +sample_user .*your app answered 200 in \d+ ms: {"ok": true}', running.output)
        assert running.ctrl_c() == 0


def test_a_failure_of_the_app_is_a_failed_delivery_with_the_apps_words(up: Up) -> None:
    with (
        App() as app,
        Running("receiver", "--data", up.folder, "--forward-to", app.url, "--dialect", "revenuecat") as running,
    ):
        running.wait_for("Press Ctrl-C")
        app.answer = (500, {"retry-after": "7"}, b"[red]TypeError\x1b[2J: x is undefined")
        tried = up.call("POST", f"integrations/webhooks/{own_webhook(up)['id']}/test", {"type": "RENEWAL"})
        assert (tried["delivered"], tried["status"]) == (False, 500)
        assert "x is undefined" in tried["body"]
        # What the app says cannot colour or clear the terminal.
        running.wait_for("your app answered 500 in")
        running.wait_for("[red]TypeError [2J: x is undefined")
        assert "\x1b[2J" not in running.output
        app.answer = (307, {"location": "http://localhost/elsewhere"}, b"")
        tried = up.call("POST", f"integrations/webhooks/{own_webhook(up)['id']}/test", {"type": "RENEWAL"})
        assert (tried["delivered"], tried["status"]) == (False, 307)
        app.answer = (204, {}, b"")
        tried = up.call("POST", f"integrations/webhooks/{own_webhook(up)['id']}/test", {"type": "RENEWAL"})
        assert (tried["delivered"], tried["status"]) == (False, 204)
        # The app gets the dialect that was asked for.
        (*_, body) = app.messages[-1]
        assert json.loads(body)["event"]["store"] == "TEST_STORE"
        assert running.ctrl_c() == 0


def test_an_app_that_does_not_run_is_answered_502(up: Up) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/hook"
        with Running("receiver", "--data", up.folder, "--forward-to", url) as running:
            running.wait_for("Press Ctrl-C")
            up.call(
                "POST",
                "test_store/actions",
                {"action": "purchase", "app_user_id": "ada", "product_id": "coins_100"},
            )
            running.wait_for("not forwarded, answered 502")
            running.wait_for(f"{url}: connection refused")
            tried = up.call("POST", f"integrations/webhooks/{own_webhook(up)['id']}/test", {"type": "RENEWAL"})
            assert (tried["delivered"], tried["status"]) == (False, 502)
            assert tried["body"] == f"{url}: connection refused\n"
            assert running.ctrl_c() == 0


ARRIVAL = ReceivedWebhook(0, "/", {"content-type": "application/json", "connection": "close"}, b"{}", _Seen())


async def test_an_app_that_is_too_slow_is_answered_502() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        async with Forwarder(url, patience_ms=100) as forwarder:
            reply = await forwarder.pass_on(ARRIVAL)
    assert (reply.status, reply.error) == (502, f"{url}: timed out after 0.1 s")
    assert reply.written().startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


async def test_an_app_that_hangs_up_or_talks_nonsense_is_answered_502() -> None:
    for said, words in ((b"", "closed the connection"), (b"\x00\x01 hello\r\n\r\n", "not HTTP")):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def once(server: socket.socket = server, said: bytes = said) -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(said)

            thread = threading.Thread(target=once)
            thread.start()
            async with Forwarder(f"http://127.0.0.1:{server.getsockname()[1]}/") as forwarder:
                reply = await forwarder.pass_on(ARRIVAL)
            thread.join()
        assert reply.status == 502
        assert words in (reply.error or "")


@pytest.mark.parametrize(
    "url",
    [
        "http://192.168.0.7:3000/hook",
        "http://example.com/hook",
        "http://localhost.example.com/",
        "http://127.0.0.1@example.com/",
        "ftp://localhost/",
        "localhost:3000",
        "http://",
        "http://[::1",
        "http://localhost:port/",
    ],
)
def test_plain_http_goes_to_this_machine_only(url: str) -> None:
    with pytest.raises(typer.BadParameter):
        check(url)
    told = typed("receiver", "--forward-to", url)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    "url", ["http://localhost:3000/hook", "http://[::1]:3000/", "http://127.0.0.2/", "https://a.dev/"]
)
def test_these_can_be_forwarded_to(url: str) -> None:
    assert check(url) == url


def test_the_service_itself_still_refuses_plain_http(up: Up) -> None:
    with pytest.raises(AssertionError, match="https"):
        up.call("POST", "integrations/webhooks", {"name": "Mine", "url": "http://localhost:3000/hook"})


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [({"base_url": "https://127.0.0.1:1"}, "still running"), ({"api_key": "sk_wrong"}, "refused the key")],
)
def test_without_a_webhook_the_receiver_says_why(
    up: Up, tmp_path: Path, changed: dict[str, str], complaint: str
) -> None:
    """`up` was killed and its folder is still there, or another `up` has made it anew."""
    (tmp_path / "tls").symlink_to(up.folder / "tls")
    (tmp_path / "connection.json").write_text(json.dumps({**up.connection, **changed}))
    refused = typed("receiver", "--data", str(tmp_path))
    assert refused.returncode == 1
    assert complaint in refused.stderr
