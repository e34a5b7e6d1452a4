"""Behind a real proxy, a restart fails no request. `make chaos WHAT=restarts` does more of them."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests import machine
from tests.restarts.chaos import PROXIES, issue_key, run

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("proxy", PROXIES)
async def test_machines_restarted_in_turn_fail_no_request(proxy: str, database_url: str, tmp_path: Path) -> None:
    if shutil.which(proxy) is None:
        machine.skip(proxy, f"Install it to see restarts behind {proxy}.")
    answers = await asyncio.to_thread(run, database_url, await issue_key(database_url), proxy, tmp_path, 2)
    assert answers.total() == answers["answered"] > 0, answers
