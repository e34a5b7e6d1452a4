"""`latchkey import` of a million transactions: how long it takes, how much memory, and whether `latchkey export` gives
the same rows again. `LATCHKEY_BENCH_ROWS` chooses another number."""

import asyncio
import csv
import gzip
import os
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from random import Random

from bench.ground import Ground
from bench.table import Row
from latchkey.subjects.exports.wire import CustomerRow, TransactionRow, columns
from latchkey.subjects.projects.usecases import create_app

COUNT = 1_000_000
BAR = 8_000
# Months of the longest subscription; a customer has one or two subscriptions and now and then a one-time purchase.
LONGEST = 14
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
# What the file says, and the export has to say again.
COMPARED = (
    "app_user_id", "store", "environment", "kind", "subscription_id", "transaction_id", "renewal_number", "product_id",
    "period_type", "cause", "purchased_at", "expires_at", "price", "currency", "country", "usd_rate", "tax_percentage",
    "commission_percentage", "refunded_at", "auto_renew", "unsubscribe_detected_at", "updated_at",
)  # fmt: skip


async def run(ground: Ground, count: int | None = None) -> list[Row]:
    count = count or int(os.environ.get("LATCHKEY_BENCH_ROWS", COUNT))
    app = await create_app(ground.database, ground.project_id, "bench", "app_store", 1_767_960_000_000)
    transactions, people = ground.folder / "transactions.csv.gz", ground.folder / "customers.csv"
    _write(transactions, people, count, app.id)
    went_in = _sum_of(_lines(transactions))
    words = ("import", str(people), str(transactions), "--project", ground.project_id)
    taken, cpu, peak = await _latchkey(ground, *words)
    again, _, _ = await _latchkey(ground, *words)
    out = ground.folder / "out"
    exporting, _, _ = await _latchkey(
        ground, "export", "--to", str(out), "--what", "transactions", "--format", "csv", "--project", ground.project_id
    )
    files = sorted(one for one in out.rglob("*") if one.is_file() and "transactions" in one.name)
    came_out = _sum_of(line for one in files for line in _lines(one, imported_only=True))
    assert came_out == went_in, f"{came_out[0]:,} rows came out of {went_in[0]:,}, or they differ"
    return [
        Row(f"import of {count:,} transactions", taken, "s"),
        Row("import, rows a second", count / taken, "rows/s", bar=f"≥ {BAR:,}", holds=count / taken >= BAR),
        # Unlike the time, it says something on a machine that does other things too.
        Row("import, CPU of the process for a row", cpu / count * 1e6, "µs"),
        Row("import, memory of the process", peak / 1024, "MB"),
        Row("the same files again", again, "s"),
        Row("export of the same, compared and equal", exporting, "s"),
    ]


async def _latchkey(ground: Ground, *words: str) -> tuple[float, float, float]:
    """Of a command in a process of its own: seconds, seconds of CPU, and the peak memory in KiB."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MEASURED, *words,
        env={**os.environ, "LATCHKEY_DATABASE_URL": ground.server.url()},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    taken = time.perf_counter() - began
    assert process.returncode == 0, errors.decode()[-2000:]
    cpu, peak = output.decode().split()[-2:]
    return taken, float(cpu), float(peak)


_MEASURED = """
import atexit, resource, sys, time
from latchkey.cli.entry import main
sys.argv[0] = "latchkey"
atexit.register(lambda: print("\\n", time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
main()
"""


def _write(transactions: Path, people: Path, count: int, app_id: str) -> None:
    random, names = Random(1), [one.name for one in columns(TransactionRow)]
    with gzip.open(transactions, "wt", compresslevel=1, newline="") as file, people.open("w", newline="") as listed:
        rows = csv.DictWriter(file, names)
        rows.writeheader()
        customers = csv.DictWriter(listed, [one.name for one in columns(CustomerRow)])
        customers.writeheader()
        written = number = 0
        while written < count:
            number += 1
            user = f"bench{random.getrandbits(48):012x}{number}"
            anonymous = f"$RCAnonymousID:{random.getrandbits(128):032x}"
            noted = f'{{"$email": {{"value": "{user}@example.com", "updated_at_ms": 1767225600000}}}}'
            customers.writerow(
                {"app_user_id": user, "original_app_user_id": anonymous, "attributes": noted,
                 "aliases": f'["{anonymous}", "{user}"]', "first_seen_at": "2024-01-01T00:00:00.000Z"}
            )  # fmt: skip
            for one in _life(random, user, app_id, number, count - written):
                rows.writerow(one)
                written += 1


def _life(random: Random, user: str, app_id: str, number: int, most: int) -> Iterator[dict[str, object]]:
    months = min(random.randint(1, LONGEST), most)
    begin = TODAY - timedelta(days=30 * months - random.choice((0, 15)), hours=random.randint(1, 20))
    off = random.random() < 0.3
    for month in range(months):
        at, end = begin + timedelta(days=30 * month), begin + timedelta(days=30 * (month + 1))
        cells: dict[str, object] = {
            "app_user_id": user, "store": "app_store", "app_id": app_id, "environment": "PRODUCTION",
            "kind": "subscription", "subscription_id": f"3{number:014}", "renewal_number": month,
            "transaction_id": f"3{number:014}" if not month else f"4{number:011}{month:03}",
            "product_id": "pro_monthly", "period_type": "normal", "cause": "renewal" if month else "purchase",
            "purchased_at": _iso(at), "expires_at": _iso(end), "price": "8.99", "currency": "EUR", "country": "DE",
            "usd_rate": "1.0834", "usd_rate_date": f"{at:%Y-%m-%d}", "tax_percentage": "0.19",
            "commission_percentage": "0.15", "updated_at": _iso(at),
        }  # fmt: skip
        if month == months - 1:
            cells |= {"auto_renew": "false" if off else "true"}
            if off:
                cells |= {"unsubscribe_detected_at": _iso(at), "cancellation_reason": "UNSUBSCRIBE"}
        yield cells


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _lines(path: Path, *, imported_only: bool = False) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
        for one in csv.DictReader(file):
            if not imported_only or one["app_user_id"].startswith("bench"):
                yield one


def _sum_of(lines: Iterable[dict[str, str]]) -> tuple[int, int]:
    """How many there are, and a sum that does not depend on their order."""
    count = total = 0
    for one in lines:
        digest = blake2b("\x1f".join(one.get(name) or "" for name in COMPARED).encode(), digest_size=16).digest()
        total = (total + int.from_bytes(digest)) % 2**128
        count += 1
    return count, total
