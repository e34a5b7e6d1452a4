"""Tests on a real Citus cluster, where one is named (`cluster.py` says how). Elsewhere they are skipped, and the last
lines of the run say how many."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import machine
from tests.citus.cluster import HOW_TO_RUN, Cluster, cluster, is_named
from tests.citus.moving import prepare


@pytest.fixture(scope="session")
async def citus(short_folder: Path) -> AsyncIterator[Cluster]:
    """One cluster for all tests of this process."""
    if not is_named():
        machine.skip("Citus", HOW_TO_RUN)
    async with cluster(short_folder / "citus") as started:
        yield started


@pytest.fixture
async def citus_url(citus: Cluster) -> AsyncIterator[str]:
    """The coordinator's address of a new database on all nodes, without tables."""
    async with citus.database() as url:
        yield url


@pytest.fixture(scope="session")
async def spread_url(citus: Cluster) -> AsyncIterator[str]:
    """One distributed database for all tests that have projects of their own: making one takes longer than most of
    them."""
    async with citus.database() as url:
        await prepare(url)
        yield url
