"""A purchase in one trace, from the request to the receiver's answer, through two real processes and a collector."""

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from latchkey import spans as tracing
from latchkey.engine.changes import Change, Changes, unchanged
from latchkey.engine.storage import event_feed as traces
from latchkey.now import real_now
from latchkey.process import safety
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.settings import Settings
from tests.cli.running import Running
from tests.databases import DemoShelf
from tests.http.client import NOW, Shop
from tests.http.receiving import SECRET_KEY, Post, posting
from tests.observability.collector import Collector, collecting
from tests.patience import until, wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SERVER, CLIENT = 2, 3


@pytest.fixture
async def told(demo_shelf: DemoShelf, short_folder: Path) -> AsyncIterator[Post]:
    async with (
        demo_shelf.shelf.lend() as database,
        posting(database, short_folder, demo=demo_shelf.demo) as receiver,
    ):
        yield receiver


def settings_of(told: Post, collector: Collector, folder: Path) -> dict[str, str]:
    certificates = ensure_certificates(folder / "receiver-tls", [], real_now())
    return {
        "LATCHKEY_DATABASE_URL": told.database.url,
        "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
        "LATCHKEY_BEHIND_PROXY": "true",
        "LATCHKEY_PORT": "0",
        "LATCHKEY_LOG_FORMAT": "json",
        "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
        "LATCHKEY_WEBHOOK_EXTRA_CA": str(certificates.authority),
        "LATCHKEY_OTEL": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }


def posted(url: str, value: Any, headers: dict[str, str]) -> int:
    body = json.dumps(value).encode()
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(asked) as reply:
        status: int = reply.status
        return status


async def test_a_purchase_is_one_trace_from_the_request_to_the_receivers_answer(told: Post, short_folder: Path) -> None:
    hook = await told.hook()
    with collecting() as collector:
        settings = settings_of(told, collector, short_folder)
        with Running("serve", "--workers", "1", **settings) as running:
            address = f"http://127.0.0.1:{running.wait_for_event('ready')['port']}"
            action = {"action": "purchase", "app_user_id": "margot", "product_id": "pro_monthly"}
            headers = {
                "Authorization": f"Bearer {told.secret}",
                "X-Forwarded-For": "203.0.113.1",
                "traceparent": f"00-{TRACE}-{CALLER}-01",
            }
            path = f"/v2/projects/{told.project_id}/test_store/actions"
            assert await asyncio.to_thread(posted, address + path, action, headers) == 200

            async def arrived() -> bool:
                return bool(told.arrivals) and len([one for one in collector.of(TRACE) if one.kind == CLIENT]) == 1

            await until(arrived)
            spans = {one.name: one for one in collector.of(TRACE)}
            request = spans["POST /v2/projects/{project_id}/test_store/actions"]
            claim, sent = spans["delivery claim"], spans["POST webhook"]
            assert spans.keys() == {request.name, "changes look", "changes write", claim.name, sent.name}
            assert (request.parent, request.kind, request.about["http.response.status_code"]) == (CALLER, SERVER, 200)
            for name in ("changes look", "changes write"):
                assert (spans[name].parent, spans[name].about["latchkey.batch.size"]) == (request.id, 1)
            assert (claim.parent, sent.parent) == (request.id, claim.id)
            assert sent.about["http.response.status_code"] == 200
            assert sent.about["latchkey.webhook_id"] == hook["id"]
            # The process that commits also sends.
            assert request.process == sent.process
            (arrival,) = told.arrivals
            assert arrival.headers["traceparent"] == f"00-{TRACE}-{sent.id}-01"
            # Nothing names the customer, and no key is sent.
            assert "margot" not in str(collector.spans)
            assert told.secret not in str(collector.spans)

            logged = wait_until(lambda: [line for line in running.lines if '"trace_id"' in line])
            assert json.loads(logged[0])["trace_id"] == TRACE
            # Metrics go the same way, those of the database from one process.
            wanted = {"latchkey_requests", "latchkey_request_seconds", "latchkey_clock_lag_seconds", "latchkey_build"}
            wait_until(lambda: wanted <= collector.metrics.keys(), lambda: sorted(collector.metrics))
            assert running.terminate() == 0
            assert "Traceback" not in running.output


class Kept:
    """A tracer that remembers what it was told, for tests inside this process."""

    def __init__(self) -> None:
        self.shares: list[tuple[str, list[Any]]] = []

    def shared(self, name: str, parents: list[Any], *_: Any) -> None:
        self.shares.append((name, parents))


class Request:
    trace_id = TRACE
    is_recorded = True

    def __init__(self, number: int) -> None:
        self.traceparent = f"00-{TRACE}-{number:016x}-01"


async def test_requests_that_share_a_batch_share_its_spans(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Any = Kept()
    monkeypatch.setattr(tracing, "tracer", kept)
    changes = Changes(shop.database, shop.clock)

    async def ask(number: int) -> None:
        if number != 2:
            tracing.current.set(Request(number))  # type: ignore[arg-type]  # as much of a span as this needs
        await changes.make(Change(project_id="proj_demo", app_user_id=f"u{number}", apply=unchanged, create=True))

    await asyncio.gather(*(asyncio.create_task(ask(number)) for number in (1, 2, 3)))
    assert [(name, len(parents)) for name, parents in kept.shares] == [("changes look", 2), ("changes write", 2)]


def test_links_name_the_other_requests_of_the_batch() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from latchkey.observability.otel import OtelTracer

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = OtelTracer(provider.get_tracer("test"))
    requests = [tracer.request({b"traceparent": f"00-{TRACE[:-1]}{n}-{CALLER}-01".encode()}, "GET") for n in range(3)]
    tracer.shared("write", requests, 1, 2, {})
    made = exporter.get_finished_spans()
    assert [f"{one.context.trace_id:032x}"[-1] for one in made] == ["0", "1", "2"]
    assert [[f"{link.context.trace_id:032x}"[-1] for link in one.links] for one in made] == [
        ["1", "2"],
        ["0", "2"],
        ["0", "1"],
    ]
    # A header that is no traceparent begins a trace of its own.
    assert tracer.request({b"traceparent": b"nonsense"}, "GET").trace_id not in ("0" * 32, TRACE)


async def test_while_traces_are_off_a_purchase_has_no_trace(shop: Shop) -> None:
    assert tracing.tracer is None
    await shop.act("purchase", "ada", "pro_monthly")
    assert await shop.database.pool.fetchval("select count(*) from event_traces") == 0


async def test_traces_of_events_are_forgotten_after_a_while(shop: Shop) -> None:
    async with shop.database.acquire() as connection:
        await traces.keep(connection, "proj_demo", {"old": "00-a", "other": "00-b"}, NOW - 1)
        await traces.keep(connection, "proj_demo", {"new": "00-c", "old": "00-d"}, NOW)
    await traces.prune(shop.database, NOW, at_once=1)
    found = await traces.load(shop.database, [("proj_demo", "old"), ("proj_demo", "new"), ("proj_x", "new")])
    assert found == {("proj_demo", "new"): "00-c"}


def test_without_the_extra_the_start_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "find_spec", lambda _: None)
    said = [str(one) for one in safety.problems_of(Settings(otel=True), real_now())]
    assert any("LATCHKEY_OTEL" in one and "latchkey[otel]" in one for one in said)
