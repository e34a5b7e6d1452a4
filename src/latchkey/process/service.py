"""Composition root: builds what a service process runs, from its settings and roles."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from latchkey import logs
from latchkey.database.pool import Database
from latchkey.engine.clock import run_clock
from latchkey.engine.due_work import Lookout
from latchkey.http.services import Metrics, Services
from latchkey.now import real_now
from latchkey.observability import port
from latchkey.observability.peer_metrics import ProcessIdentity
from latchkey.observability.watch import Watch
from latchkey.process.supervision.supervisor_channel import SupervisorChannel, run_child, settings_from_wire
from latchkey.settings import Settings
from latchkey.subjects.alerts.usecases import run_alerts
from latchkey.subjects.bulk_grants.usecases import run_bulk_grants
from latchkey.subjects.checkout.usecases.checkouts import run_checkouts
from latchkey.subjects.exports.usecases.schedules import run_exports
from latchkey.subjects.mail.usecases import run_mail
from latchkey.subjects.money.usecases import RateSource, run_rates
from latchkey.subjects.purchase_intake.usecases.notifications import Processor, run_stores
from latchkey.subjects.request_log.usecases import run_pruning
from latchkey.subjects.segments.usecases.projector import run_roller
from latchkey.subjects.webhooks.delivery.queue.worker import Worker
from latchkey.subjects.webhooks.delivery.role import make_worker, run_delivery

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from latchkey.observability.otel import Otel


log = structlog.get_logger()

Restarting = Callable[[], tuple[str, ...]]


def load(roles: Sequence[str]) -> None:
    """Import what the api role needs, and build its routes. It is more than half of the code: a process without that
    role starts in half the time."""
    if "api" not in roles:
        return
    import latchkey.process.dashboard_application  # noqa: F401
    from latchkey.process.http_application import routes

    routes()


def main() -> None:
    """A process of the supervisor."""
    run_child(_run)


async def _run(channel: SupervisorChannel) -> None:
    orders = channel.orders
    settings = settings_from_wire(orders.settings)
    logs.configure(settings.log_level, settings.log_format, lasting=True)
    await run_process(
        settings,
        orders.roles,
        socket.socket(fileno=orders.listening) if orders.listening is not None else None,
        channel.stop,
        channel.ready,
        identity=ProcessIdentity(orders.process, orders.family, orders.processes),
        metrics=socket.socket(fileno=orders.metrics) if orders.metrics is not None else None,
        restarting=lambda: channel.restarting,
        number=orders.number,
        before=orders.ended,
    )


async def run_process(
    settings: Settings,
    roles: Sequence[str],
    listening: socket.socket | None,
    stop: asyncio.Event,
    ready: Callable[[], None],
    *,
    identity: ProcessIdentity | None = None,
    metrics: socket.socket | None = None,
    restarting: Restarting = tuple,
    number: int = 0,
    before: Sequence[int] = (),
) -> None:
    """Run these roles in this process until `stop` is set, then shut down cleanly. `identity` says which process this
    is, `metrics` is the socket that it shares with the others for their metrics, and `restarting` names the processes
    that crash again and again. `number` is its own, `before` are those of the processes
    before it, which have ended."""
    async with (
        open_database(settings, roles) as database,
        _watched(settings, database, roles, identity, metrics) as watch,
    ):
        worker = make_worker(database, settings, number, before) if "delivery" in roles else None
        process = _Process(settings, database, worker, listening, stop, watch, restarting)
        running = [asyncio.create_task(process.run(role)) for role in roles]
        ended = asyncio.create_task(stop.wait())
        try:
            await _started(running)
            ready()
            await asyncio.wait({ended, *running}, return_when=asyncio.FIRST_COMPLETED)
            # When one role ends by itself, the whole process ends: the supervisor restarts all of it.
            stop.set()
            async with asyncio.timeout(settings.stop_seconds + 5):
                await asyncio.gather(*running)
        finally:
            for task in (*running, ended):
                task.cancel()


@contextlib.asynccontextmanager
async def _watched(
    settings: Settings,
    database: Database,
    roles: Sequence[str],
    identity: ProcessIdentity | None,
    metrics: socket.socket | None,
) -> AsyncIterator[Watch]:
    watch = Watch(database, settings, real_now, identity, tuple(roles))
    await watch.siblings.open()
    if metrics is None and settings.metrics_port:
        metrics = port.listen(settings.metrics_host, settings.metrics_port)
    stop = port.serve(watch, metrics) if metrics is not None else lambda: None
    # What the database says is sent by one process of a machine, and by none that only answers.
    speaks = set(roles) != {"api"} and (identity is None or not identity.names or identity.name == identity.names[-1])
    otel = _otel(watch, roles, speaks) if settings.otel else None
    try:
        yield watch
    finally:
        if otel is not None:
            await otel.close()
        stop()
        await watch.siblings.close()


def _otel(watch: Watch, roles: Sequence[str], speaks: bool) -> Otel:
    """Imported only where it is on: an extra has it, and loading it takes a third of a second."""
    from latchkey.observability.otel import Otel

    async def families() -> list[Metric]:
        shared = await watch.standing.families() if speaks else []
        return [*watch.families(), *shared]

    otel = Otel(watch.name, roles, families)
    otel.start()
    return otel


def open_database(settings: Settings, roles: Sequence[str]) -> Database:
    # These wait for notifications with one connection each.
    listening = sum(role in roles for role in ("clock", "delivery"))
    return Database(
        settings.database_url,
        max_size=max(2, settings.database_connections - listening),
        statement_timeout_ms=settings.statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name=f"latchkey {','.join(roles)}",
    )


@dataclass(frozen=True, slots=True)
class _Process:
    settings: Settings
    database: Database
    worker: Worker | None
    listening: socket.socket | None
    stop: asyncio.Event
    watch: Watch
    restarting: Restarting

    async def run(self, role: str) -> None:
        settings, database, stop = self.settings, self.database, self.stop
        try:
            match role:
                case "api":
                    assert self.listening is not None, "the api role needs a listening socket"
                    await self._answer_requests(self.listening)
                case "clock":
                    services = Services(database, settings, real_now, Metrics(), deliverer=self.worker)
                    try:
                        await self._work(services, Lookout(database, real_now))
                    finally:
                        await services.close()
                case "delivery":
                    assert self.worker is not None, "the delivery role needs a worker"
                    await run_delivery(self.worker, database, settings, stop)
                case _:
                    raise ValueError(f"{role} is no role")
        except Exception:
            log.exception("role failed", role=role)
            raise

    async def _work(self, services: Services, lookout: Lookout) -> None:
        settings, database, stop, changes = self.settings, self.database, self.stop, services.changes
        processor = Processor(database, services.stores, changes, real_now)
        # An address of exchange rates is guarded as the address of a webhook is.
        rates = RateSource(allowed=settings.webhook_allow_networks, extra_ca=settings.webhook_extra_ca)
        await asyncio.gather(
            lookout.run(stop),
            run_pruning(database, real_now, settings.request_log_kept_days, settings.request_log_kept_rows, stop),
            run_clock(lookout, database, real_now),
            run_roller(lookout, database, real_now),
            run_bulk_grants(lookout, changes, real_now, stop),
            run_stores(lookout, processor, database, real_now, settings.store_journal_kept_days, stop),
            run_checkouts(lookout, services.checkouts, database, real_now, stop),
            run_alerts(lookout, services.alerts, real_now, stop),
            run_mail(lookout, database, services.alerts.send, real_now, stop),
            run_exports(lookout, services.exports, real_now, stop),
            run_rates(database, rates, settings.exchange_rates, real_now, stop),
        )

    async def _answer_requests(self, listening: socket.socket) -> None:
        from latchkey.process.dashboard_application import Dashboard
        from latchkey.process.http_application import create_application
        from latchkey.server import Listener

        opened, settings = list[Dashboard](), self.settings

        def pages(services: Services) -> Dashboard:
            opened.append(Dashboard(services, settings))
            return opened[0]

        application = create_application(
            self.database, settings, real_now, pages, self.watch, self.restarting, self.worker
        )
        listener = Listener(application, listening, settings)
        serving = asyncio.create_task(listener.serve())
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not serving.done():
            await listener.leave(settings.shutdown_delay_seconds)
        for dashboard in opened:
            dashboard.closing.set()
        listener.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settings.drain_seconds):
                await serving


async def _started(running: Sequence[asyncio.Task[None]]) -> None:
    """Let every role start; one that fails at once fails the process."""
    await asyncio.sleep(0.05)
    for task in running:
        if task.done():
            await task
