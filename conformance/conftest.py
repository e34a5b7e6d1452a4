"""The service under test, one receiver and one consumer for the whole run, and the results by statement."""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance import waits
from conformance.consumer import WEBHOOK_SECRET, Consumer, consuming
from conformance.https import Server, close_connections, serving
from conformance.life import World
from conformance.lives import LIVES, lived
from conformance.service import Service, reached

_outcomes: dict[str, dict[str, str]] = defaultdict(dict)
_marked: dict[str, tuple[str, list[str]]] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(*numbers): the statements of the specification that a test shows")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("shows")
        if mark is not None:
            _marked[item.nodeid] = (_name(item.nodeid), list(mark.args))


def _name(nodeid: str) -> str:
    file, _, test = nodeid.partition("::")
    return f"{Path(file).name}::{test.partition('[')[0]}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.nodeid not in _marked or (report.when != "call" and report.outcome == "passed"):
        return
    name, numbers = _marked[report.nodeid]
    outcome: str = report.outcome
    if report.when != "call" or outcome == "skipped":
        # What a test needs could not be made: that says nothing about its statements.
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "what it needs could not be made"
        outcome = reason.removeprefix("Skipped: ")
    for number in numbers:
        # A test with several parameters: failed counts more than not run, and that more than passed.
        before = _outcomes[number].get(name, "passed")
        if before == "passed" or outcome == "failed":
            _outcomes[number][name] = outcome


def pytest_sessionfinish() -> None:
    results = os.environ.get("CONFORMANCE_RESULTS")
    if results:
        Path(results).write_text(json.dumps(_outcomes))


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with reached() as service:
        found = {product["id"] for product in service.call("GET", "products?limit=100")["items"]}
        missing = {"pro_monthly", "pro_yearly", "team_monthly", "pro_lifetime", "coins_100"} - found
        assert not missing, f"the project has no {', '.join(sorted(missing))}: apply conformance/catalog.yaml"
        yield replace(service, key=service.new_key("suite"))
        close_connections()


@pytest.fixture(scope="session")
def minute(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Any]]]:
    with ThreadPoolExecutor(6) as threads:
        yield waits.begin(threads, service, tmp_path_factory.mktemp("waits"))


@pytest.fixture(scope="session", autouse=True)
def begun(request: pytest.FixtureRequest) -> None:
    """What takes a minute begins before the first test."""
    if any("minute" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("minute")


@pytest.fixture(scope="session")
def receiver(service: Service) -> Iterator[Server]:
    with serving(*service.certificates, service.host) as server:
        made = configure(service, f"{server.address}/hook", "Bearer of the suite")
        tried = service.call("POST", f"integrations/webhooks/{made['id']}/test", {"type": "RENEWAL"})
        assert tried["status"] == 200, f"the service cannot deliver to {server.address}: {tried}"
        yield server
        service.call("DELETE", f"integrations/webhooks/{made['id']}")


@pytest.fixture(scope="session")
def push(service: Service) -> Iterator[Server]:
    """A push provider of the suite's own."""
    with serving(*service.certificates) as server:
        server.answer = lambda _: (200, {"id": "sent", "recipients": 1})
        yield server


@pytest.fixture(scope="session")
def consumer(service: Service, push: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consumer]:
    settings = {"PUSH_API_URL": push.address, "PUSH_APP_ID": "app-of-the-suite", "PUSH_REST_API_KEY": "rest-key"}
    folder = tmp_path_factory.mktemp("consumer")
    settings |= {"PUSH_CA": service.ca or "", "API_KEY": service.new_key("consumer")}
    with consuming(service, folder, **settings) as consumer:
        made = configure(service, f"{consumer.base}/webhooks/billing", f"Bearer {WEBHOOK_SECRET}")
        yield consumer
        service.call("DELETE", f"integrations/webhooks/{made['id']}")


@pytest.fixture(scope="session")
def world(service: Service, receiver: Server, consumer: Consumer) -> World:
    return World(service, receiver, consumer)


@pytest.fixture(scope="session")
def lives(world: World) -> Mapping[str, Future[list[dict[str, Any]]]]:
    """The events of a life at each store. The lives run beside each other, and are over."""
    with ThreadPoolExecutor(len(LIVES)) as threads:
        return {store: threads.submit(lived, world, store) for store in LIVES}


def configure(service: Service, url: str, authorization: str, **more: Any) -> Any:
    wanted = {"name": "conformance", "url": url, "authorization_header": authorization, **more}
    return service.call("POST", "integrations/webhooks", wanted)
