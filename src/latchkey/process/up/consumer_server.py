"""The consumer as its own process: standalone (`latchkey consumer`), or as a child of `latchkey up`."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from latchkey import logs
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.storage.schema import migrate
from latchkey.first_of import first_of
from latchkey.process.supervision.listeners import ConsumerFailedError
from latchkey.process.supervision.supervisor_channel import SupervisorChannel, run_child
from latchkey.server import served
from latchkey.settings import Settings as Transport

DRAIN_SECONDS = 10.0


async def serve(
    settings: Settings,
    listening: socket.socket,
    stop: asyncio.Event,
    ready: Callable[[], None],
    *,
    demo_key: str | None = None,
) -> None:
    """Serve on this socket until `stop` is set, then shut down cleanly. With a key, also serve the demo app."""
    consumer = Consumer(settings)
    # Before listening: a database that cannot be used is reported clearly.
    await migrate(consumer._store.database)
    tls = Transport(
        tls_cert=Path(settings.tls_cert) if settings.tls_cert else None,
        tls_key=Path(settings.tls_key) if settings.tls_key else None,
    )
    demo = None
    if demo_key is not None:
        # Imported only here: the demo is not part of a real consumer.
        from latchkey.cli.demo_app.application import DemoApp

        demo = DemoApp(consumer, demo_key)
    application = demo.application if demo is not None else consumer._standalone
    async with contextlib.AsyncExitStack() as stack:
        if demo is not None:
            stack.push_async_callback(demo.close)
        serving = await stack.enter_async_context(served(application, listening, tls, DRAIN_SECONDS))
        if demo is not None:
            stack.callback(demo.hang_up)
        ready()
        # In the background: the service may be unreachable for a moment, and events are received all the same.
        await first_of(asyncio.wait([serving]), stop.wait(), _refuse_misconfigured(consumer))


async def _refuse_misconfigured(consumer: Consumer) -> None:
    """Fails if the connection to the service has a certain problem, for which waiting would not help."""
    found = await consumer.check_connection()
    if found.certain:
        raise ConsumerFailedError(found.problem)
    await asyncio.Event().wait()


def main() -> None:
    run_child(_run)


async def _run(channel: SupervisorChannel) -> None:
    told = channel.orders.settings
    settings = msgspec.convert(told, Settings)
    logs.configure(settings.log_level, settings.log_format, lasting=True)
    assert channel.orders.listening is not None
    listening = socket.socket(fileno=channel.orders.listening)
    await serve(settings, listening, channel.stop, channel.ready, demo_key=told.get("demo_key"))
