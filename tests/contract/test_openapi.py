"""The OpenAPI document is true: schemathesis sends data that it allows, and data that it does not.

Cases go to the application in this process, over a real database, with a key without a rate limit. Seeds are fixed, so
that every run finds the same.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import asyncpg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import (
    ChecksConfig,
    CoveragePhaseConfig,
    GenerationConfig,
    PhasesConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.specs.openapi import checks

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.process.http_application import routes
from tests.http.client import APP, Shop
from tests.http.doings import unhurried
from tests.http.fixtures import opened
from tests.http.routes import NAMES, settle
from tests.patience import PATIENCE

pytestmark = pytest.mark.thorough

SEED = 20261115
EXAMPLES = 3

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]

# Rules that a schema cannot express: data that breaks one of them is refused with one of these messages.
UNSAID = (
    "There is no test clock",  # which ones there are is no pattern
    "may be sent with it",  # the object of another type
    "is missing",  # credentials are whole, or there are none
    "must be the content of the .p8 file",
    "root_certificates must be",
    "It must be a whole number",  # 1.0 is an integer to JSON Schema, and not to us
    "A price has at most 6 decimals",  # multipleOf is undone by binary fractions
    "is a duration of nothing",  # P0D
    "Each variant needs an id of its own",
    "until_ms must be later than since_ms",
    "address not allowed",  # which addresses are private is no pattern
    "could not be resolved",
    "The URL",
    "This is not a URL",
    "has sandbox keys",  # which depends on the app
    "An adjustment of 0 does nothing",
    "half of a surrogate pair",
    "NUL character",
    "A subscription needs a duration",  # and nothing else does
    "Only a subscription can have a trial",
    "type: This field is required",  # of a product: type or kind
    "is of the kind",  # which a product keeps for ever
    "There is no receipt in this request",  # fetch_token or app_transaction
    "The fetch_token is not a token of the test store",  # a token is whatever its store says it is
    "The product_id of a test store purchase is missing",  # a known token needs none
    "It is after ",  # the moments of a snapshot, in their order
    "It is before ",
    "It is not after ",
    "It is in the future",
    "It needs ",  # a field that goes with another one
    "Send periods, or auto_renew, or both",
    "Send price and currency together",
    "Leave price and currency out",
    "For a full refund, send refunded_at",
    "With refunded_at the whole price went back",
    "Another period has the same id",
    "List the period that it took the place of",
    "is built into Latchkey",  # a store that is no other store
    "Latchkey reads the",
    "name the buyer with app_user_id",  # a known purchase needs none
    "is not a product of this project",
    "has sandbox keys",  # only apps of some stores
    "This link is not valid",  # a token is what this service has sealed
    "Some attributes cannot be stored",  # names and values in attribute_errors
    "is not a day such as",  # 2026-02-30
    "A program does not end before it begins",
    "Give commission_rate, tax_rate, or both",
    "Two entries begin on the same day",
    "is JSON such as",  # a parameter that is itself JSON
    "The first day is after the last day",
    "A chart covers at most",
    "A chart has at most",
    "is after today",
    "The earliest day is",
)


def configured() -> SchemathesisConfig:
    generation = GenerationConfig(max_examples=EXAMPLES, deterministic=True, with_security_parameters=False)
    phases = PhasesConfig(coverage=CoveragePhaseConfig(enabled=False))
    # The document cannot know what exists or what makes sense at the moment; it must know what is malformed.
    acceptance = PositiveDataAcceptanceConfig(expected_statuses=["2xx", "404", "409", "422"])
    project = ProjectConfig(
        generation=generation, phases=phases, checks=ChecksConfig(positive_data_acceptance=acceptance)
    )
    return SchemathesisConfig(seed=SEED, projects=ProjectsConfig(default=project))


def operations() -> list[APIOperation[Any, Any, Any, Any]]:
    found = schemathesis.openapi.from_dict(routes().openapi(), config=configured()).get_all_operations()
    return [one.ok() for one in found if isinstance(one, Ok) and one.ok().path != "/metrics"]


HEALTH = list(HealthCheck)


class Service:
    """The application in a thread of its own, because schemathesis calls it from a thread without an event loop."""

    def __init__(self, server: EmbeddedServer, template: str) -> None:
        self._server = server
        self._template = template
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stop = asyncio.Event()
        self.shop: Shop
        self.names: dict[str, str] = {}

    def start(self) -> None:
        self._thread.start()
        ready = threading.Event()
        self._life = asyncio.run_coroutine_threadsafe(self._live(ready), self._loop)
        while not ready.wait(0.05):
            if self._life.done():
                self._life.result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._life.result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _live(self, ready: threading.Event) -> None:
        administration = await asyncpg.connect(self._server.url("postgres"))
        await administration.execute(f"create database openapi template {self._template} strategy file_copy")
        async with Database(self._server.url("openapi"), max_size=8) as database, opened(database) as shop:
            await unhurried(shop)
            self.shop, self.names = shop, await settle(shop)
            ready.set()
            await self._stop.wait()
        await administration.execute("drop database openapi with (force)")
        await administration.close()

    def ask(self, case: Case[Any]) -> Response:
        arguments = case.as_transport_kwargs(base_url="https://localhost")
        arguments = {name: value for name, value in arguments.items() if name in REQUEST_FIELDS}
        sent = requests.Request(**arguments).prepare()
        parts = urlsplit(sent.url or "")
        assert sent.body is None or isinstance(sent.body, bytes | str)
        body = sent.body if isinstance(sent.body, bytes) else (sent.body or "").encode()
        headers = {
            name.lower(): value if isinstance(value, str) else value.decode("latin-1")
            for name, value in sent.headers.items()
        }
        asking = self.shop.client.request(
            str(sent.method),
            parts.path + (f"?{parts.query}" if parts.query else ""),
            body=body,
            headers={name: value for name, value in headers.items() if name != "authorization"},
            key=APP if parts.path == "/v1/receipts" or parts.path.endswith("/restore/eligibility") else "",
            content_type=None,
        )
        reply = asyncio.run_coroutine_threadsafe(asking, self._loop).result(PATIENCE)
        answered = {name: [value] for name, value in reply.headers.items()}
        return Response(reply.status, answered, reply.body, sent, 0.0, False)


REQUEST_FIELDS = {"method", "url", "headers", "files", "data", "json", "params", "auth", "cookies"}


@pytest.fixture(scope="module")
def service(postgres: EmbeddedServer, template: str) -> Iterator[Service]:
    service = Service(postgres, template)
    service.start()
    yield service
    service.stop()


# One test with a subtest for each operation: their names would make every test process build the document.
def test_the_document_is_true(service: Service, subtests: pytest.Subtests) -> None:
    for operation in operations():
        with subtests.test(f"{operation.label} positive"):
            hold(operation, GenerationMode.POSITIVE, service)
        # A path parameter is any text, so an operation without a body has no negative cases; and all lists take the
        # same two parameters, so one list is enough.
        if operation.body or operation.path.endswith("}/events"):
            with subtests.test(f"{operation.label} negative"):
                hold(operation, GenerationMode.NEGATIVE, service)


def hold(operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, service: Service) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=HEALTH)
    @given(case=operation.as_strategy(mode))
    def holds(case: Case[Any]) -> None:
        check(case, service, positive=mode is GenerationMode.POSITIVE)

    holds()


def check(case: Case[Any], service: Service, *, positive: bool) -> None:
    assert case.meta is not None
    names = NAMES | service.names
    for name in case.path_parameters or {}:
        # Three of four cases name what exists, or everything would be 404; another project would always be 403.
        if name == "project_id" or (positive and name in names and crc32(repr(case.body).encode()) % 4):
            case.path_parameters[name] = names[name]
    reply = service.ask(case)
    asked = list(CHECKS)
    if positive:
        if not (reply.status_code == 400 and any(words in reply.text for words in UNSAID)):
            asked.append(checks.positive_data_acceptance)
    elif (part := case.meta.components.get(ParameterLocation.BODY)) and part.mode is GenerationMode.NEGATIVE:
        asked.append(checks.negative_data_rejection)
    case.validate_response(reply, checks=asked)
