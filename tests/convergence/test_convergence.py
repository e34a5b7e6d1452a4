"""Whatever is lost, repeated or late, and whichever process is killed: the local copy ends equal to the service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg

from latchkey.database.embedded.postgres import EmbeddedServer
from tests.convergence.chaos import converge

# Each seed, with the kind of database for the consumer's copy.
SEEDS = {1: "sqlite", 3: "postgresql"}
SECONDS = 3.0
TOGETHER = 30
# Jobs of a killed consumer wait for its lease; the reconciliation does not wait for them.
JOB_PATIENCE = 1.0


async def test_every_local_copy_ends_equal_to_v2(
    postgres: EmbeddedServer,
    template: str,
    administration: asyncpg.Connection[asyncpg.Record],
    tmp_path: Path,
) -> None:
    for seed in SEEDS:
        await administration.execute(f"create database service_{seed} template {template} strategy file_copy")
        await administration.execute(f"create database consumer_of_{seed} strategy file_copy")
    # Each run mostly waits for retries and for leases to run out, so they run at the same time.
    reports = await asyncio.gather(
        *(
            converge(
                tmp_path / str(seed),
                postgres.url(f"service_{seed}"),
                postgres.url(f"consumer_of_{seed}") if kind == "postgresql" else f"sqlite:///{tmp_path / str(seed)}.db",
                seed=seed,
                seconds=SECONDS,
                together=TOGETHER,
                job_patience=JOB_PATIENCE,
            )
            for seed, kind in SEEDS.items()
        )
    )
    for report in reports:
        assert report.good, report
        # The run was a real test: there were events, kills and network faults.
        assert report.books.events > 50, report
        assert sum(report.kills.values()) > 0, report
        assert len(report.network) > 4, report
