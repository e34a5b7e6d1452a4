"""`make bench`: measure, and print one table. Name parts to measure only those: `python -m bench reads storm`,
or `make bench PARTS="reads storm"`."""

import argparse
import asyncio
import os
import sys
import warnings
from functools import partial
from pathlib import Path

import uvloop

from bench import (
    big,
    burst,
    charts,
    consumer,
    delivery,
    distributed,
    exporting,
    feed,
    importing,
    kill,
    lists,
    notifications,
    pages,
    peers,
    reads,
    sizing,
    startup,
    steady,
    storm,
    trips,
    workers,
)
from bench.ground import ground
from bench.svix import REDIS_URL, SVIX, Installed
from bench.table import Row, show

PARTS = {
    "burst": burst.run,
    "consumer": consumer.run,
    "delivery": delivery.run,
    "export": exporting.run,
    "import": importing.run,
    "notifications": notifications.run,
    "pages": pages.run,
    "reads": reads.run,
    "startup": startup.run,
    "steady": steady.run,
    "storm": storm.run,
}
# Only when they are named: `steady` contains `trips`, and the others compare nothing with a ceiling.
ALONE = {
    "big": big.run,
    "charts": charts.run,
    "citus": distributed.run,
    "feed": feed.run,
    "lists": lists.run,
    "sizing": sizing.run,
    "trips": trips.run,
    "workers": workers.run,
}


# Beside a Svix server that the user has, so they need options.
PEERS = {"peers": peers.run, "kill": kill.run}


async def main(names: list[str], installed: Installed) -> int:
    parts = PARTS | ALONE | {name: partial(run, installed=installed) for name, run in PEERS.items()}
    rows: list[Row] = []
    for name in names:
        # Each with its own database, so that the rows of one do not slow down another.
        async with ground() as stand:
            rows += await parts[name](stand)
        show(rows, f"after {name}", SVIX if name == "peers" else "ceiling")
    return 0 if all(row.holds is not False for row in rows) else 1


def _options() -> argparse.Namespace:
    names = sorted([*PARTS, *ALONE, *PEERS])
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(names))
    parser.add_argument("--svix", type=Path, metavar="PATH", help="for peers and kill: the program svix-server")
    own = "default: a database in the benchmark's own"
    parser.add_argument("--svix-db", default="", metavar="URL", help=f"its PostgreSQL ({own})")
    parser.add_argument("--svix-redis", default=REDIS_URL, metavar="URL", help="its Redis (default: %(default)s)")
    given = parser.parse_args()
    if unknown := [name for name in given.parts if name not in names]:
        parser.error(f"There is no part {', '.join(unknown)}. The parts are {', '.join(names)}.")
    for name in PEERS:
        if name in given.parts and (given.parts != [name] or given.svix is None):
            parser.error(f"`{name}` is measured alone, beside a Svix server: python -m bench {name} --svix PATH")
    if given.svix is not None and not os.access(given.svix, os.X_OK):
        parser.error(f"There is no program {given.svix}. Give the path of svix-server: --svix PATH")
    return given


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    given = _options()
    installed = Installed(given.svix and given.svix.absolute(), given.svix_db, given.svix_redis)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main(given.parts, installed)))
