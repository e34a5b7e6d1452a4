"""The parts of a campaign, and one round of one of them."""

import asyncio
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Part:
    # It has `async def run(folder, seed, seconds, figures)`.
    module: str
    # Of the time of all parts together; of one round.
    percent: int
    seconds: int
    does: str
    checks: str


PARTS = {
    "fuzz": Part(
        "campaign.fuzz", 32, 240,
        "Requests to every operation of the OpenAPI document, over HTTPS: valid ones, and such with other types, sizes,"
        " encodings, headers, ids, keys and methods; and bytes that are no HTTP.",
        "Each reply has a documented status and body, no 5xx but 503, and nothing of the inside; the log has no fault;"
        " no process ended.",
    ),
    "consumer": Part(
        "tests.convergence.chaos", 16, 120,
        "Lives with purchases, transfers, merges and erasures, while API, delivery and the reference consumer are"
        " killed (kill -9) and a network between them loses, repeats and reorders webhooks or lies that they arrived.",
        "Each local copy equals V2, each event was processed once, and balances agree.",
    ),
    "delivery": Part(
        "tests.subjects.webhooks.delivery.chaos", 8, 60,
        "Delivery workers and a writer killed (kill -9) and PostgreSQL crashed under load, with receivers that fail,"
        " hang and lie.",
        "Each committed event arrived at each webhook, for each customer in order.",
    ),
    "service": Part(
        "tests.crash.chaos", 5, 60,
        "Processes of `latchkey serve` killed (kill -9) amid purchases that phones repeat until they are answered.",
        "Each acknowledged purchase is there once, nothing is half written, and each event arrived in order.",
    ),
    "failover": Part(
        "tests.failover.chaos", 22, 180,
        "PostgreSQL's primary killed, frozen or shut down, its standby promoted, and the old primary brought back.",
        "Each acknowledged purchase is there once; each event arrived, in order; refusals are 503 with Retry-After.",
    ),
    "stores": Part(
        "tests.stores.chaos", 6, 60,
        "Lives at emulators of the App Store, Google Play and Stripe that lose, repeat, reorder and delay"
        " notifications.",
        "In the end Latchkey knows of every purchase what the store knows.",
    ),
    "rules": Part(
        "campaign.rules", 5, 90,
        "The property tests with fresh seeds: lives against an oracle, any order of store messages, bodies that lie.",
        "What each property says.",
    ),
    "disk": Part(
        "tests.crash.full_disk", 3, 60,
        "The disk of `latchkey up` filled to the last block amid purchases, sometimes until PostgreSQL stops.",
        "Replies keep their documented form, the service recovers by itself, and no acknowledged purchase is lost.",
    ),
    "restarts": Part(
        "tests.restarts.chaos", 3, 60,
        "Two machines behind HAProxy and nginx, restarted in turn under load.",
        "No request fails.",
    ),
}  # fmt: skip


def play(what: str, seed: int, seconds: float) -> int:
    """One round, in this process. The last line that it prints has the figures; the exit code says whether it held."""
    figures: Counter[str] = Counter()
    began, skipped, held = time.monotonic(), "", False
    with tempfile.TemporaryDirectory(prefix="lk-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            asyncio.run(import_module(PARTS[what].module).run(folder, seed, seconds, figures))
            held = True
        except pytest.skip.Exception as reason:
            skipped = str(reason)
        except Exception:
            for log in sorted(folder.rglob("*.log")):
                # Lines of requests that went well would leave no room for others.
                lines = (line for line in log.read_text(errors="replace").splitlines() if '"level":"info"' not in line)
                end = "\n".join(lines)[-8_000:]
                print(f"--- {log.relative_to(folder)}, its end\n{end}")
            print(f"--- {what}, seed {seed}\n{traceback.format_exc()}")
    took = round(time.monotonic() - began, 1)
    told = {"what": what, "seed": seed, "seconds": took, "held": held, "skipped": skipped, "figures": figures}
    print(json.dumps(told))
    sys.stdout.flush()
    return not (held or skipped)
