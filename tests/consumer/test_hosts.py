"""What only Django and Flask need: a thread for the consumer, the framework's own sign-in, bodies that it reads."""

import asyncio
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flask
import pytest
from django.core.asgi import get_asgi_application
from msgspec import json
from starlette.requests import Request

from latchkey.consumer import AccessUnknownError, Job, NewJob
from latchkey.consumer.api.access_guard import identified
from latchkey.consumer.api.http_endpoint import LARGEST_DISCARDED
from latchkey.consumer.blocking_consumer import REST_SECONDS, BlockingConsumer, host_identify
from latchkey.consumer.django import DjangoConsumer
from latchkey.consumer.flask import FlaskConsumer
from tests.consumer.hosts import WsgiClient, blocking, django_host, django_urls, flask_host
from tests.consumer.world import SECRET, World, event, settings, token, world
from tests.http.client import Client, Reply
from tests.patience import PATIENCE

ID = uuid.UUID(int=1)
MIB = 1024 * 1024
WEBHOOK = {"authorization": f"Bearer {SECRET}"}
both_hosts = pytest.mark.parametrize("mount", [flask_host, django_host])


def by_cookie(request: Any) -> str | None:
    cookies = request.cookies if hasattr(request, "cookies") else request.COOKIES
    found: str | None = cookies.get("user")
    return found


def _body(**more: Any) -> bytes:
    return json.encode({"event": event(**more)})


async def _deliver(asking: Client) -> Reply:
    return await asking.request("POST", "/webhooks/billing", body=_body(), key=None, headers=WEBHOOK)


# Who is signed in.


@both_hosts
async def test_the_app_says_who_is_signed_in_from_the_thread_of_the_request(sqlite_url: str, mount: Any) -> None:
    threads = set()

    def identify(request: Any) -> str | None:
        threads.add(threading.current_thread())
        return by_cookie(request)

    async with world(sqlite_url, identify=host_identify) as here:
        await here.deliver(event())
        asking = mount(here.consumer, identify=identify)
        for path, reply in (("/reports", "for ada"), ("/api/entitlement/pro", True)):
            assert (await asking.get(path, key=token("ada"))).status == 401
            answer = (await asking.get(path, key=None, headers={"cookie": "user=ada"})).json()
            assert reply in (answer, answer["hasAccess"] if isinstance(answer, dict) else None)
            assert (await asking.get(path, key=None, headers={"cookie": "user="})).status == 401
        assert threads
        assert threading.main_thread() not in threads
        threads.clear()
        assert (
            await asking.request("POST", "/webhooks/billing", body=_body(), key=None, headers=WEBHOOK)
        ).status == 200
        assert not threads, "a webhook has no user"


@pytest.mark.parametrize(
    ("found", "user"),
    [
        ("ada", "ada"),
        (7, "7"),
        (0, "0"),
        (uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (None, None),
        ("", None),
        (False, None),
    ],
)
async def test_ids_are_texts_numbers_or_uuids(found: Any, user: str | None) -> None:
    assert await identified(lambda _: found, Request({"type": "http"})) == user


@pytest.mark.parametrize("found", [True, object(), b"ada", ["ada"]])
async def test_what_is_no_id_is_refused(found: Any) -> None:
    """`str(request.user)` would be the same for everybody who is not signed in."""
    with pytest.raises(TypeError, match="`identify` returned a"):
        await identified(lambda _: found, Request({"type": "http"}))


@both_hosts
async def test_an_identify_that_fails_lets_nobody_in(sqlite_url: str, mount: Any) -> None:
    def broken(_: Any) -> str:
        raise LookupError("boom")

    async with world(sqlite_url, identify=host_identify) as here:
        asking = mount(here.consumer, identify=broken)
        reply = await asking.get("/api/entitlement/pro", key=None)
        assert (reply.status, reply.json()) == (500, {"error": "Internal server error"})
        reply = await asking.get("/reports", key=None)
        assert (reply.status, b"boom" in reply.body) == (500, False)


async def test_django_checks_forged_requests_where_a_session_identifies_the_user(sqlite_url: str) -> None:
    async with world(sqlite_url, identify=host_identify) as here:
        asking = django_host(here.consumer, identify=by_cookie)
        signed_in = {"cookie": "user=ada"}
        device = json.encode({"player_id": "phone of another site"})
        forged = await asking.request("POST", "/api/devices", body=device, key=None, headers=signed_in)
        assert (forged.status, b"CSRF" in forged.body) == (403, True)
        assert (await here.counts())["billing_devices"] == 0
        secret = "a" * 32
        meant = {"cookie": f"user=ada; csrftoken={secret}", "x-csrftoken": secret, "referer": "https://localhost/"}
        device = json.encode({"player_id": "phone"})
        assert (await asking.request("POST", "/api/devices", body=device, key=None, headers=meant)).status == 201
        # Servers send a secret, and no cookie.
        assert (
            await asking.request("POST", "/webhooks/billing", body=_body(), key=None, headers=WEBHOOK)
        ).status == 200


# Bodies.


@both_hosts
async def test_a_body_that_is_too_large_is_413_and_not_kept(here: World, mount: Any) -> None:
    asking = mount(here.consumer)
    reply = await asking.request("POST", "/webhooks/billing", body=b"x" * (3 * MIB), key=None, headers=WEBHOOK)
    assert (reply.status, reply.json(), asking.bytes_read) == (413, {"error": "Payload too large"}, 3 * MIB)
    declared = {**WEBHOOK, "content-length": str(LARGEST_DISCARDED + 1)}
    reply = await asking.request("POST", "/webhooks/billing", body=b"x", key=None, headers=declared)
    assert (reply.status, asking.bytes_read) == (413, 3 * MIB)


async def test_a_body_that_a_hook_of_the_app_has_read_is_still_received(here: World) -> None:
    asking: Any = flask_host(here.consumer)
    asking.app.before_request(lambda: flask.request.get_json() and None)
    headers = {**WEBHOOK, "content-type": "application/json"}
    reply = await asking.request("POST", "/webhooks/billing", body=_body(), key=None, headers=headers)
    assert reply.json() == {"message": "Event processed"}


@both_hosts
async def test_a_client_that_goes_away_while_sending_changes_nothing(here: World, mount: Any) -> None:
    def cut_off() -> Iterator[bytes]:
        yield b'{"event": '
        raise ConnectionError("reset")

    headers = {**WEBHOOK, "content-length": "500"}
    asking = mount(here.consumer)
    reply = await asking.request("POST", "/webhooks/billing", body=cut_off(), key=None, headers=headers)
    assert reply.status in (400, 500)
    assert sum((await here.counts()).values()) == 0


# Other kinds of views.


async def test_an_async_view_of_flask_is_guarded_too(here: World) -> None:
    await here.deliver(event())
    host = blocking(FlaskConsumer, here.consumer)
    app = flask.Flask("notes")

    @app.get("/async")
    @host.require_entitlement("pro")
    async def reports() -> Any:
        return flask.jsonify(f"for {flask.g.app_user_id}")

    asking = WsgiClient(app)  # type: ignore[arg-type]  # a WSGI app
    assert (await asking.get("/async", key=token("ada"))).json() == "for ada"
    assert (await asking.get("/async", key=token("bob"))).status == 403


async def test_async_views_and_classes_of_django_are_guarded_too(here: World) -> None:
    await here.deliver(event())
    urls = django_urls(blocking(DjangoConsumer, here.consumer))
    django: Any = get_asgi_application()

    async def served(scope: Any, receive: Any, send: Any) -> None:
        whole = False

        async def receive_once() -> Any:
            nonlocal whole
            if whole:
                # The client stays, and sends no more.
                await asyncio.Event().wait()
            message = await receive()
            whole = not message["more_body"]
            return message

        await django(scope, receive_once, send)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.consumer.hosts.DEFAULT_URLS", urls)
        asking = Client(served)
        for path in ("/async", "/class", "/reports"):
            assert (await asking.get(path, key=token("ada"))).json() == "for ada"
            assert (await asking.get(path, key=token("bob"))).status == 403
        reply = await _deliver(asking)
        assert reply.json() == {"message": "Event processed"}


# The thread.


@pytest.fixture
def threaded(tmp_path: Path) -> Iterator[FlaskConsumer]:
    made = FlaskConsumer(_settings(tmp_path / "consumer.db"))
    yield made
    made.stop()


def _settings(database: Path) -> Any:
    return settings(f"sqlite:///{database}", service_url="https://127.0.0.1:1", verify_timeout_ms=1)


def _client(consumer: FlaskConsumer) -> Any:
    app = flask.Flask("notes")
    app.register_blueprint(consumer.blueprint)
    return app.test_client()


def test_it_starts_with_the_first_request_and_again_after_a_stop(threaded: FlaskConsumer) -> None:
    asking = _client(threaded)
    assert threaded._loop.running is None
    assert asking.post("/webhooks/billing", data=_body(), headers=WEBHOOK).json == {"message": "Event processed"}
    assert threaded.has_entitlement("ada", "pro")
    threaded.stop()
    assert threaded._loop.running is None
    assert threaded.has_entitlement("ada", "pro")


def test_requests_that_arrive_together_start_it_once(threaded: FlaskConsumer) -> None:
    made = []
    make = threaded._loop._make
    threaded._loop._make = lambda: made.append(1) or make()  # type: ignore[func-returns-value]
    asking = _client(threaded)
    with ThreadPoolExecutor(20) as pool:
        assert {reply.status_code for reply in pool.map(lambda _: asking.get("/healthz"), range(20))} == {200}
    assert len(made) == 1


def test_everything_of_the_consumer_can_be_asked_without_await(threaded: FlaskConsumer) -> None:
    asking = _client(threaded)
    for sent in (
        event(),
        event("VIRTUAL_CURRENCY_TRANSACTION", amount=5, currency="C", transaction_type="credit"),
    ):
        asking.post("/webhooks/billing", data=json.encode({"event": sent}), headers=WEBHOOK)
    local = threaded.local("ada")
    assert local is not None
    assert local.subscription.is_active
    assert threaded.view("ada").source == "database"
    assert threaded.local("bob") is None
    assert threaded.balances("ada") == {"C": 5}
    assert (threaded.experiments("ada"), threaded.invoices("ada")) == ({}, [])
    with pytest.raises(AccessUnknownError, match="cannot be reached"):
        threaded.has_entitlement("bob", "pro")


def test_a_job_that_would_wait_for_itself_is_refused(tmp_path: Path) -> None:
    refused: list[str] = []
    done = threading.Event()

    async def ask(_: Job) -> None:
        try:
            consumer.has_entitlement("ada", "pro")
        except RuntimeError as error:
            refused.append(str(error))
        done.set()

    consumer = BlockingConsumer(_settings(tmp_path / "consumer.db"), jobs={"ask": ask})
    consumer.later(NewJob("ask", "ada"))
    assert done.wait(PATIENCE)
    assert "must not call blocking methods" in refused[0]
    consumer.stop()


def test_a_start_that_fails_is_500_and_tried_again_later(tmp_path: Path) -> None:
    consumer = FlaskConsumer(_settings(tmp_path / "later" / "consumer.db"))
    asking = _client(consumer)
    for _ in range(2):
        reply = asking.get("/healthz")
        assert (reply.status_code, reply.json) == (500, {"error": "Internal server error"})
    (tmp_path / "later").mkdir()
    assert asking.get("/healthz").status_code == 500, "the next request does not wait for the database again"
    with pytest.raises(RuntimeError, match="did not start"):
        consumer.local("ada")
    until, error = consumer._loop._failure or pytest.fail("it did not rest")
    consumer._loop._failure = until - REST_SECONDS, error
    assert asking.get("/healthz").status_code == 200
    consumer.stop()


FORKS = """
import os, sys
from pathlib import Path
from tests.consumer.test_hosts import WEBHOOK, FlaskConsumer, _body, _client, _settings

consumer = FlaskConsumer(_settings(Path(sys.argv[1])))
asking = _client(consumer)
if sys.argv[2] == "used":
    consumer.start()
child = os.fork()
who = "parent" if child else "child"
reply = asking.post("/webhooks/billing", data=_body(user=who, id=who), headers=WEBHOOK)
if child:
    os.waitpid(child, 0)
print(who, reply.status_code, file=sys.stderr)
"""


@pytest.mark.parametrize(("before", "status"), [("only imported", 200), ("used", 500)])
def test_workers_that_a_server_forks_have_a_consumer_each(tmp_path: Path, before: str, status: int) -> None:
    """As `gunicorn --preload` does: the app is imported once, and then its process is copied. If it was used before
    that, the HTTP client cannot work in the copy. The copy says so, and does not wait for a thread that it lacks."""
    words = [sys.executable, "-c", FORKS, str(tmp_path / "consumer.db"), before]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stderr) == (0, f"child {status}\nparent 200\n"), done.stdout
    assert ("the consumer did not start" in done.stdout) is (status == 500)
