"""Random lives in store emulators that lose, repeat, reorder and delay what they send, one seed after the other until
the time is over.

    python -m tests.stores.chaos --seed 7 --seconds 60

Each seed is lived at Apple, at Google and at Stripe. Afterwards Latchkey must know what the store knows. The first seed
that fails ends the run; the same seed makes the same life again.
"""

import argparse
import asyncio
import itertools
import logging
import random
import sys
import tempfile
import time
import traceback
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


async def chaos(
    server: EmbeddedServer, first_seed: int, seconds: float, steps: int, say: Callable[[str], None]
) -> bool:
    """At least one seed, also when there is no time. False: Latchkey did not end where the store did."""
    ends, opened, lived = time.monotonic() + seconds, stores(), Counter[str]()
    for number in itertools.count():
        seed = (first_seed + number) % SEEDS
        for name, opening in opened.items():
            began = time.monotonic()
            try:
                told = await _one(server, f"chaos_{number}_{name}", opening, seed, steps)
            except Exception:
                say(traceback.format_exc())
                say(f"Seed {seed} failed at {name}. Again: make chaos WHAT=stores SEED={seed} SECONDS=1")
                return False
            lived.update(lives=1, events=told)
            say(f"seed {seed} {name}: {told} events, {time.monotonic() - began:.1f} s")
        if time.monotonic() >= ends:
            say(f"{lived['lives']} lives, {lived['events']} events: Latchkey knows what the stores know.")
            return True
    raise AssertionError("unreachable")


async def _one(server: EmbeddedServer, name: str, opening: Opening, seed: int, steps: int) -> int:
    """The number of events."""
    administration = await asyncpg.connect(server.url("postgres"))
    await administration.execute(f"create database {name} template {DATABASE} strategy file_copy")
    try:
        async with (
            Database(server.url(name), max_size=8) as database,
            opening() as store,
            world(database, store) as made,
        ):
            await live(made, seed, steps)
            await converges(made)
            return int(await database.pool.fetchval("select count(*) from events where project_id = $1", PROJECT))
    finally:
        await administration.execute(f"drop database {name} with (force)")
        await administration.close()


async def _alone(folder: Path, arguments: argparse.Namespace) -> bool:
    server = EmbeddedServer(folder / "server", settings=UNSAFE_BUT_FAST)
    await asyncio.to_thread(server.start)
    try:
        await migrated(server.url())

        def say(line: str) -> None:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

        return await chaos(server, arguments.seed, arguments.seconds, arguments.steps, say)
    finally:
        await asyncio.to_thread(server.stop)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos WHAT=stores")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(SEEDS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=25, help="acts and sales in each life")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="latchkey-chaos-", ignore_cleanup_errors=True) as folder:
        good = asyncio.run(_alone(Path(folder), arguments))
    sys.exit(not good)


if __name__ == "__main__":
    main()
