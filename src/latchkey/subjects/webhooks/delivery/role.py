"""The delivery role of a process: the worker, its LISTEN connection, and periodic tasks beside it: replays, operational
events, new and old partitions."""

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from latchkey.database import database_identity
from latchkey.database.errors import DatabaseBusyError, RestoredError, StatementRefusedError
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.database.transient_errors import translated_errors
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.partitions import deleted_before, newest, next_part, to_drop
from latchkey.engine.storage import event_feed
from latchkey.garbage import collect_seldom
from latchkey.now import real_now
from latchkey.settings import Settings
from latchkey.subjects.webhooks.delivery import webhook_health
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.delivery.queue.worker import Worker, listen
from latchkey.subjects.webhooks.delivery.sending.mailbox import mailbox_of
from latchkey.subjects.webhooks.delivery.sending.sender import Sender, sender_of
from latchkey.subjects.webhooks.delivery.webhook_health import retry_through_outages
from latchkey.subjects.webhooks.rules import SECRET_PREFIX, Webhook
from latchkey.subjects.webhooks.storage import delivery_rows, lanes, webhook_rows

log = structlog.get_logger()

# Between two looks whether a restored database may be used.
_RESTORED_SECONDS = 5.0


def make_worker(database: Database, settings: Settings, number: int = 0, ended: Sequence[int] = ()) -> Worker:
    return Worker(
        database,
        sender_of(settings, mailbox_of(database, settings)),
        Sealer(settings.secret_key),
        now=real_now,
        chance=random.random,
        timeout_ms=settings.webhook_timeout_ms,
        in_flight=settings.webhook_in_flight,
        number=number,
        ended=ended,
    )


async def run_delivery(worker: Worker, database: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set, then finish what is under way. Nothing is delivered from a restored database until
    somebody has decided what becomes of its deliveries; the process may have other roles, and goes on."""
    collect_seldom()
    try:
        while not stop.is_set():
            if await _is_restored(database):
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _RESTORED_SECONDS)
            else:
                await _deliver(worker, database, settings, stop)
    finally:
        await worker.sender.close()


async def _deliver(worker: Worker, database: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Until `stop` is set, or the database was restored under the running service."""
    new_replays, ends = asyncio.Event(), asyncio.Event()

    async def look_around() -> None:
        if await _is_restored(database):
            ends.set()
            return
        new_replays.set()
        await retry_through_outages(worker.sweep)

    async def end() -> None:
        await stop.wait()
        ends.set()

    chores = [
        asyncio.create_task(end()),
        asyncio.create_task(listen(database, worker.woken, look_around)),
        asyncio.create_task(_every(10, lambda: _work_off_all(database), new_replays)),
        asyncio.create_task(_every(3600, lambda: _prune(database, settings))),
    ]
    if settings.operations_url:
        to = webhook_health.operations_webhook(settings.operations_url, operations_secret(settings.secret_key))
        chores.append(asyncio.create_task(_every(2, lambda: _tell(database, worker.sender, to, settings))))
    try:
        await worker.run(ends, settings.drain_seconds)
    finally:
        for task in chores:
            task.cancel()
        await asyncio.gather(*chores, return_exceptions=True)


async def _refuse_restored(database: Database) -> None:
    with translated_errors():
        async with database.acquire() as connection:
            await database_identity.require_settled(connection)


async def _is_restored(database: Database) -> bool:
    """Asked with every new connection: a database that was set back under a running service would deliver again what
    was delivered before."""
    try:
        await retry_through_outages(lambda: _refuse_restored(database))
    except RestoredError as error:
        log.error("nothing is delivered", reason=str(error))
        return True
    return False


def operations_secret(secret_key: bytes) -> str:
    """The secret that signs operational events. Derived, so that it is the same on every machine without a setting."""
    derived = HKDF(hashes.SHA256(), 24, salt=None, info=b"latchkey operations").derive(secret_key)
    return SECRET_PREFIX + base64.b64encode(derived).decode()


async def _work_off_all(database: Database) -> None:
    if await delivery_rows.some_unfinished(database):
        # New events come first: a pause after each batch of a replay.
        while await requeue_runs.work_off(database, real_now()):  # noqa: ASYNC110 - the pause is intended
            await asyncio.sleep(0.02)


async def _prune(database: Database, settings: Settings) -> None:
    # A clock that runs ahead must not delete what is still to be kept.
    now = min(real_now(), await lanes.database_time(database))
    kept_ms = settings.attempts_kept_days * DAY
    await turn_over(database, now, kept_ms)
    await prune(database, now, kept_ms)
    await webhook_rows.prune_announcements(database, now - kept_ms)
    await event_feed.prune(database, now - DAY)


async def _tell(database: Database, sender: Sender, to: Webhook, settings: Settings) -> None:
    while await webhook_health.tell(database, sender, to, real_now(), settings.webhook_timeout_ms, random.random):
        pass


async def _every(seconds: float, work: Callable[[], Awaitable[None]], woken: asyncio.Event | None = None) -> None:
    """Does the work again and again, earlier when it is woken."""
    woken = woken or asyncio.Event()
    while True:
        woken.clear()
        try:
            await retry_through_outages(work)
        except Exception as error:
            # Nobody waits for this task: without the next turn, the work would end without a word.
            log.error("periodic work failed", again="at its next turn", exc_info=error)
        with suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), seconds * random.uniform(0.9, 1.1))  # noqa: S311 - jitter, not a secret


# Each try makes others wait for at most a tenth of a second.
_TRIES = 20
_BUSY_SECONDS = 0.5


async def turn_over(database: Database, now: Ms, kept_ms: int) -> None:
    """What cannot be done now, because the tables are in use, is done at the next call. If the database's user may not
    create tables, the current part goes on, and old deliveries are deleted one by one."""
    known = await lanes.known(database)
    current = newest(known)
    number = next_part(current, await lanes.sizes(database, current.number), now, kept_ms)
    try:
        if number is not None:
            await lanes.open_part(database, number, now)
            log.info("part opened", part=number)
        for part in to_drop(known, now, kept_ms):
            if await lanes.settle(database, part, now - kept_ms):
                await _drop(database, part, now)
                log.info("part dropped", part=part)
    except DatabaseBusyError:
        log.info("parts are busy", again="at the next turn")
    except StatementRefusedError as error:
        # The database's user must own the tables (docs/retention.md).
        log.warning("parts refused", reason=str(error))


async def _drop(database: Database, part: int, now: Ms) -> None:
    for _ in range(_TRIES - 1):
        try:
            await lanes.drop(database, part, now)
        except DatabaseBusyError:
            await asyncio.sleep(_BUSY_SECONDS)
        else:
            return
    await lanes.drop(database, part, now)


# Small batches with a pause between them, so that deliveries are not slowed down.
_BATCH = 500
_PAUSE_SECONDS = 0.05


async def prune(database: Database, now: Ms, kept_ms: int) -> int:
    """Delete deliveries that succeeded longer ago than they are kept, and everything of deleted webhooks; returns how
    many."""
    removed = 0
    known = await lanes.known(database)
    limits = [(one.number, deleted_before(one.number, known, now, kept_ms)) for one in known]
    for webhook in await lanes.prunable_webhooks(database):
        key = webhook.key
        if webhook.deleted:
            await _in_batches(partial(lanes.remove_lanes, database, key, _BATCH))
            removed += await _in_batches(partial(lanes.remove_deliveries, database, key, _BATCH))
            await lanes.forget_webhook(database, key)
        else:
            for part, before in limits:
                removed += await _in_batches(partial(lanes.remove_delivered, database, key, before, _BATCH, part))
    return removed


async def _in_batches(remove: Callable[[], Awaitable[int]]) -> int:
    removed = 0
    while True:
        found = await remove()
        removed += found
        if found < _BATCH:
            return removed
        await asyncio.sleep(_PAUSE_SECONDS)
