from __future__ import annotations

import asyncio

from latchkey.usecases.rolling.turns import in_turns


async def test_others_run_between_the_turns_of_long_work() -> None:
    seen: list[object] = []

    async def other() -> None:
        for number in range(2):
            seen.append(f"other {number}")
            await asyncio.sleep(0)

    async def work() -> None:
        async for item in in_turns(range(5), at_once=2):
            seen.append(item)  # noqa: PERF401 - the order in which both add is tested

    await asyncio.gather(work(), other())
    assert seen == [0, 1, "other 0", 2, 3, "other 1", 4]
