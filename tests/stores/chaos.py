"""Random lives in store emulators that lose, repeat, reorder and delay what they send, one seed after the other until
the time is over: `make chaos WHAT=stores`.

Each seed is lived at Apple, at Google and at Stripe. Afterwards Latchkey must know what the store knows. The first seed
that fails ends the run; the same seed makes the same life again.
"""

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import asyncpg
import structlog

from latchkey.database.embedded.postgres import DATABASE, EmbeddedServer
from latchkey.database.pool import Database
from latchkey.emulators.apple.apple_keys import make_apple_keys
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.google.google_keys import make_google_keys
from latchkey.emulators.stripe.stripe_emulator import make_stripe_keys
from tests.conftest import UNSAFE_BUT_FAST
from tests.connections import migrated
from tests.emulators.shops import app_store, play_store, stripe_account
from tests.stores.lives import converges, live
from tests.stores.world import PROJECT, world

# A seed is a part of the buyers' account tokens, which have room for six digits.
SEEDS = 1_000_000
Opening = Callable[[], AbstractAsyncContextManager[Emulator[Any, Any]]]


def stores() -> dict[str, Opening]:
    apple, google, stripe = make_apple_keys(), make_google_keys(), make_stripe_keys()
    return {
        "apple": lambda: app_store(apple, environment="Production"),
        "google": lambda: play_store(google),
        "stripe": lambda: stripe_account(stripe),
    }


async def run(folder: Path, first_seed: int, seconds: float, figures: Counter[str]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    ends, opened = time.monotonic() + seconds, stores()
    server = EmbeddedServer(folder / "server", settings=UNSAFE_BUT_FAST)
    await asyncio.to_thread(server.start)
    try:
        await migrated(server.url())
        # At least one seed, also when there is no time.
        for number in itertools.count():
            seed = (first_seed + number) % SEEDS
            for name, opening in opened.items():
                try:
                    figures["committed"] += await _one(server, f"chaos_{number}_{name}", opening, seed)
                except Exception as error:
                    error.add_note(f"At {name}. This life alone: make chaos WHAT=stores SEED={seed} SECONDS=1")
                    raise
                figures["lives"] += 1
            if time.monotonic() >= ends:
                return
    finally:
        await asyncio.to_thread(server.stop)


async def _one(server: EmbeddedServer, name: str, opening: Opening, seed: int) -> int:
    """The number of events."""
    administration = await asyncpg.connect(server.url("postgres"))
    await administration.execute(f"create database {name} template {DATABASE} strategy file_copy")
    try:
        async with (
            Database(server.url(name), max_size=8) as database,
            opening() as store,
            world(database, store) as made,
        ):
            await live(made, seed)
            await converges(made)
            return int(await database.pool.fetchval("select count(*) from events where project_id = $1", PROJECT))
    finally:
        await administration.execute(f"drop database {name} with (force)")
        await administration.close()
