"""`make soak HOURS=3 RATE=100`: hours of daily life against `latchkey up`, and a verdict on what grows.

Samples are written as they are taken. `python -m bench.soak --draw FILE` judges and draws those of an earlier run, or
of one that still runs. SIGINT and SIGTERM end a run as its time does.
"""

import argparse
import asyncio
import signal
import sys
import warnings
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import uvloop

from bench.buying import latchkey
from bench.ground import ground
from bench.soak.load import PURCHASE, RECEIVER, Life
from bench.soak.page import write
from bench.soak.plot import draw
from bench.soak.sampling import Sample, Watch, keep_sampling, read_samples
from bench.soak.verdict import judge
from bench.table import say, show
from latchkey.domain.instants import HOUR, SECOND

EVERY = 10.0


async def run(samples: Path, hours: float, rate: float) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    say(f"latchkey up, {rate:g} purchases a second for {hours:g} h; samples go to {samples}")
    async with ground() as stand, latchkey(stand, whole=True) as system:
        life = Life(system, rate)
        watch = Watch(system, life, stand.folder / "up")
        work = [asyncio.create_task(life.run()), asyncio.create_task(keep_sampling(watch, samples, EVERY, _tell))]
        ended = asyncio.create_task(stop.wait())
        await asyncio.wait([*work, ended], timeout=hours * HOUR / SECOND, return_when=asyncio.FIRST_COMPLETED)
        say("the load ends")
        for task in (*work, ended):
            task.cancel()
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, Exception):
                say(f"ended early: {type(result).__name__} {result}")


def _tell(sample: Sample) -> None:
    took = {kind: sample.timings[kind] for kind in (PURCHASE, RECEIVER) if kind in sample.timings}
    both = "".join(f"  {kind} {found.p50:.0f}/{found.p99:.0f} ms" for kind, found in took.items())
    failed = sum(sample.errors.values())
    say(f"{timedelta(seconds=int(sample.at))}  {sample.purchases:,} purchases{both}  {failed:,} failed")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak")
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=100.0, help="purchases a second (default: %(default)g)")
    parser.add_argument("--samples", type=Path, default=Path("soak.jsonl"), help="JSON lines (default: %(default)s)")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only judge and draw these samples")
    parser.add_argument("--write", action="store_true", help="write docs/images/soak.svg and docs/reliability.md")
    return parser.parse_args()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    given = _options()
    if given.draw is None:
        given.samples.unlink(missing_ok=True)
        # Whatever ends the run, what was measured until then is judged.
        with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(run(given.samples, given.hours, given.rate))
            except Exception as error:
                say(f"the run ended with {type(error).__name__}: {error}")
    samples = read_samples(given.draw or given.samples)
    rows = judge(samples)
    show(rows, "the last quarter beside the second", "second quarter")
    (given.draw or given.samples).with_suffix(".svg").write_text(draw(samples))
    if given.write:
        write(samples, rows)
    sys.exit(not all(row.holds is not False for row in rows))
