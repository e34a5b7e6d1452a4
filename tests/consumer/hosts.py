"""Apps that hold the consumer: the same cases are run through each of them.

The consumer of a test runs on the test's own event loop. Django and Flask block, so their requests run in threads.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import django
import flask
from django.conf import settings as django_settings
from django.contrib.auth.decorators import login_not_required
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View
from fastapi import Depends, FastAPI
from msgspec import json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from latchkey.consumer.blocking_consumer import BlockingConsumer, Running
from latchkey.consumer.django import DjangoConsumer
from latchkey.consumer.flask import FlaskConsumer
from latchkey.consumer.reference_consumer import Consumer
from tests.http.client import Client, Reply

Host = TypeVar("Host", bound=BlockingConsumer)
# More than a test asks at a time.
_threads = ThreadPoolExecutor(32)
URLS = "latchkey.urls"
# Where a server's environment has none.
DEFAULT_URLS: Any = None

if not django_settings.configured:
    django_settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="for these tests",
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        ROOT_URLCONF="",
        MIDDLEWARE=[
            "tests.consumer.hosts.choose_urls",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.auth.middleware.LoginRequiredMiddleware",
        ],
    )
    django.setup()


def choose_urls(get_response: Any) -> Any:
    """Each test has URLs of its own."""

    def choosing(request: Any) -> Any:
        request.urlconf = request.META.get(URLS, DEFAULT_URLS)
        return get_response(request)

    return choosing


class Body(io.RawIOBase):
    """Counts what is read of it."""

    def __init__(self, chunks: Iterable[bytes], client: WsgiClient) -> None:
        self._rest, self._chunks, self._client = b"", iter(chunks), client

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._chunks, b"")
        given, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(given)] = given
        self._client.bytes_read += len(given)
        return len(given)


@dataclass
class WsgiClient(Client):
    environ: dict[str, Any] = field(default_factory=dict)

    async def _exchange(self, scope: dict[str, Any], body: Iterable[bytes]) -> Reply:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        length = {"CONTENT_LENGTH": headers.pop("content-length")} if "content-length" in headers else {}
        environ = {
            "REQUEST_METHOD": scope["method"],
            "SCRIPT_NAME": "",
            "PATH_INFO": scope["path"],
            "QUERY_STRING": scope["query_string"].decode(),
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "443",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.url_scheme": "https",
            "wsgi.input": Body(body, self),
            "wsgi.input_terminated": True,
            "wsgi.errors": io.StringIO(),
            "CONTENT_TYPE": headers.pop("content-type", ""),
            **length,
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
            **self.environ,
        }
        return await asyncio.get_running_loop().run_in_executor(_threads, self._call, environ)

    def _call(self, environ: dict[str, Any]) -> Reply:
        started: list[Any] = []
        wsgi: Any = self.app
        answer: Any = wsgi(environ, lambda *words: started.append(words))
        body = b"".join(answer)
        if hasattr(answer, "close"):
            answer.close()
        status, headers = started[0][:2]
        return Reply(int(status.split()[0]), {name.lower(): value for name, value in headers}, body)


def blocking(kind: type[Host], consumer: Consumer, **options: Any) -> Host:
    """Uses the consumer that runs already, in place of one in a thread of its own."""
    made = kind(consumer.settings, **options)
    running = Running(consumer, asyncio.get_running_loop(), threading.Thread(), asyncio.Event())
    made._loop.start = lambda: running  # type: ignore[method-assign]
    return made


def fastapi_host(consumer: Consumer) -> Client:
    app = FastAPI()
    consumer.install(app)
    pro_user = Depends(consumer.require_entitlement("pro"))

    @app.get("/reports")
    async def reports(user: str = pro_user) -> str:
        return f"for {user}"

    return Client(app)


def starlette_host(consumer: Consumer) -> Client:
    @consumer.require_entitlement("pro")
    async def reports(_: Request) -> Response:
        return PlainTextResponse('"for ada"')

    return Client(Starlette(routes=[Route("/reports", reports), Mount("/", consumer.app)]))


def plain_starlette_host(consumer: Consumer) -> Client:
    @consumer.require_entitlement("pro")
    def reports(_: Request) -> Response:
        return PlainTextResponse('"for ada"')

    return Client(Starlette(routes=[Route("/reports", reports), Mount("/", consumer.app)]))


def flask_host(consumer: Consumer, prefix: str = "", **options: Any) -> WsgiClient:
    host = blocking(FlaskConsumer, consumer, **options)
    app = flask.Flask("notes")
    app.register_blueprint(host.blueprint, url_prefix=prefix or None)

    @app.get("/reports")
    @host.require_entitlement("pro")
    def reports() -> Any:
        return flask.jsonify(f"for {flask.g.app_user_id}")

    return WsgiClient(app)  # type: ignore[arg-type]  # a WSGI app


def django_urls(host: DjangoConsumer, prefix: str = "") -> ModuleType:
    @host.require_entitlement("pro")
    def reports(request: Any) -> Any:
        return HttpResponse(json.encode(f"for {request.app_user_id}"))

    @host.require_entitlement("pro")
    async def async_reports(request: Any) -> Any:
        return HttpResponse(json.encode(f"for {request.app_user_id}"))

    class ClassReports(View):  # type: ignore[misc]  # Django has no types
        def get(self, request: Any) -> Any:
            return HttpResponse(json.encode(f"for {request.app_user_id}"))

    guarded_class = method_decorator(host.require_entitlement("pro"), name="dispatch")(ClassReports)
    urls: Any = ModuleType("urls")
    urls.urlpatterns = [
        path("reports", login_not_required(reports)),
        path("async", login_not_required(async_reports)),
        path("class", login_not_required(guarded_class.as_view())),
        path(f"{prefix.strip('/')}/" if prefix else "", include(host.urls)),
    ]
    return urls  # type: ignore[no-any-return]


def django_host(consumer: Consumer, prefix: str = "", **options: Any) -> WsgiClient:
    urls = django_urls(blocking(DjangoConsumer, consumer, **options), prefix)
    return WsgiClient(get_wsgi_application(), environ={URLS: urls})


# Every app has a guarded route, /reports.
HOSTS: dict[str, Callable[[Consumer], Client]] = {
    "fastapi": fastapi_host,
    "starlette": starlette_host,
    "plain starlette": plain_starlette_host,
    "flask": flask_host,
    "django": django_host,
}
