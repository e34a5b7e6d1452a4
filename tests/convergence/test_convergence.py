"""Whatever is lost, repeated or late, and whoever is killed: the local copy ends equal to the service."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from latchkey.storage.embedded import EmbeddedServer
from tests.convergence.chaos import Report, converge

SECONDS = 4.0
USERS = 240


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_local_copy_on_sqlite_ends_equal_to_v2(seed: int, database_url: str, tmp_path: Path) -> None:
    consumer_url = f"sqlite:///{tmp_path / 'consumer.db'}"
    _holds(await converge(tmp_path, database_url, consumer_url, seed=seed, seconds=SECONDS, users=USERS))


async def test_every_local_copy_on_postgresql_ends_equal_to_v2(
    database_url: str,
    postgres: EmbeddedServer,
    administration: asyncpg.Connection[asyncpg.Record],
    tmp_path: Path,
) -> None:
    await administration.execute("create database convergence strategy file_copy")
    try:
        consumer_url = postgres.url("convergence")
        _holds(await converge(tmp_path, database_url, consumer_url, seed=3, seconds=SECONDS, users=USERS))
    finally:
        await administration.execute("drop database convergence with (force)")


def _holds(report: Report) -> None:
    assert report.wrong == {}, report
    assert report.right == report.users, report
    # Every event was processed, and none twice.
    assert report.unprocessed == 0, report
    assert report.invented == 0, report
    assert report.balance_here == report.balance_there, report
    # It was worth a test: something happened, something was killed, and the network did its worst.
    assert report.events > 50, report
    assert sum(report.kills.values()) > 0, report
    assert len(report.network) > 4, report
