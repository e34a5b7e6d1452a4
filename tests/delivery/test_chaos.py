from __future__ import annotations

from pathlib import Path

from tests.delivery.chaos import chaos


async def test_workers_writer_and_database_killed_at_random_lose_nothing(short_folder: Path) -> None:
    report = await chaos(short_folder / "chaos", seed=7, seconds=6)
    assert report.lost == 0, report
    assert report.in_order, report
    assert report.events > 0, report
    assert report.workers_killed + report.writers_killed > 0, report
