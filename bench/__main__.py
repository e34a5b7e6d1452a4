"""`make bench`: measure, and print one table. Name parts to measure only those: `python -m bench reads storm`,
or `make bench PARTS="reads storm"`."""

import asyncio
import sys
import warnings

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
    lists,
    notifications,
    pages,
    reads,
    sizing,
    startup,
    steady,
    storm,
    trips,
    workers,
)
from bench.ground import ground
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


async def main(names: list[str]) -> int:
    rows: list[Row] = []
    for name in names:
        # Each with its own database, so that the rows of one do not slow down another.
        async with ground() as stand:
            rows += await (PARTS | ALONE)[name](stand)
        show(rows, f"after {name}")
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in wanted if name not in PARTS | ALONE]:
        sys.exit(f"There is no part {', '.join(unknown)}. The parts are {', '.join(sorted(PARTS | ALONE))}.")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main(wanted)))
