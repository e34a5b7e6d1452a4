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
from latchkey.process.supervision.listeners import ConsumerFailedError
from latchkey.process.supervision.supervisor_channel import SupervisorChannel, run_child
from latchkey.server import Listener
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
    listener = Listener(demo.application if demo is not None else consumer._standalone, listening, tls)
    serving = asyncio.create_task(listener.serve())
    stopping = asyncio.create_task(stop.wait())
    ready()
    # In the background: the service may be unreachable for a moment, and events are received all the same.
    checking = asyncio.create_task(_misconfigured(consumer))
    await asyncio.wait({serving, stopping, checking}, return_when=asyncio.FIRST_COMPLETED)
    problem = checking.result() if checking.done() else None
    if problem is None:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    checking.cancel()
    stopping.cancel()
    if demo is not None:
        demo.hang_up()
    listener.stop()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(serving, DRAIN_SECONDS)
    if demo is not None:
        await demo.close()
    if problem is not None:
        raise ConsumerFailedError(problem)


async def _misconfigured(consumer: Consumer) -> str | None:
    """A certain problem with the connection to the service, for which waiting would not help."""
    found = await consumer.check_connection()
    return found.problem if found.certain else None


def main() -> None:
    run_child(_run)


async def _run(channel: SupervisorChannel) -> None:
    told = channel.orders.settings
    settings = msgspec.convert(told, Settings)
    logs.configure(settings.log_level, settings.log_format, lasting=True)
    assert channel.orders.listening is not None
    listening = socket.socket(fileno=channel.orders.listening)
    await serve(settings, listening, channel.stop, channel.ready, demo_key=told.get("demo_key"))
