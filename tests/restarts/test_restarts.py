"""Behind a real proxy, a restart fails no request. `make chaos WHAT=restarts` does more of them."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests import machine
from tests.restarts.chaos import PROXIES, issue_key, storm

pytestmark = pytest.mark.processes


async def test_machines_restarted_in_turn_fail_no_request(database_url: str, tmp_path: Path) -> None:
    installed = [proxy for proxy in PROXIES if shutil.which(proxy)]
    if installed:
        key = await issue_key(database_url)
        for proxy, answers in (await asyncio.to_thread(storm, database_url, key, installed, tmp_path, (2, 2))).items():
            assert answers.total() == answers["answered"] > 0, (proxy, answers)
    for proxy in set(PROXIES) - set(installed):
        machine.skip(proxy, f"Install it to see restarts behind {proxy}.")
