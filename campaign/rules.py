"""The property tests with fresh seeds, some files at a time until the time is over: `make chaos WHAT=rules`."""

import asyncio
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Files in one process of pytest, which takes seconds to start.
TOGETHER = 4


def files() -> list[Path]:
    """Those that draw examples. The test of the OpenAPI document has a seed of its own."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    drawing = [file for file in found if "from hypothesis import" in file.read_text()]
    return [file for file in drawing if file.name != "test_openapi.py"]


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    chances, ends = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < ends or not figures["examples"]:
        chosen = chances.sample(files(), TOGETHER)
        words = ["-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder / 'pytest'}"]
        words += [f"--hypothesis-seed={chances.randrange(1 << 32)}", "--hypothesis-show-statistics"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", *words, *map(str, chosen)),
            cwd=ROOT,
            env={**os.environ, "LATCHKEY_HYPOTHESIS": "fresh"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode(errors="replace")
        assert process.returncode == 0, output
        figures["examples"] += sum(map(int, re.findall(r"(\d+) passing, ", output)))
        figures["properties"] += len(re.findall(r"\d+ passing, ", output))
