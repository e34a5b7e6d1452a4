"""The order of test files, so that both cores have work until the end.

Test processes take whole files from one queue. Files that start processes wait more than they work: if all of them came
first, every test process would wait at the same time. So each of them comes after two files that only work. Among both
kinds the longest come first, and the many short files last, so that all test processes end at about the same time.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

HERE = Path(__file__).parent

# Folders and files, the longest first.
WAIT = (
    "restoring",
    "crash",
    "failover",
    "convergence",
    "docs",
    "cli",
    "delivery",
    "runtime",
    "push",
    "watching",
)
WORK = ("contract", "subjects", "dashboard", "consumer", "web_sdk", "domain", "test_architecture.py")


def ordered(files: Iterable[Path]) -> list[Path]:
    """Test files in the order in which test processes should take them."""
    files = list(files)
    waiting = [file for file in files if _top(file) in WAIT]
    working = [file for file in files if _top(file) not in WAIT]
    waiting.sort(key=lambda file: WAIT.index(_top(file)))
    working.sort(key=lambda file: WORK.index(_top(file)) if _top(file) in WORK else len(WORK))
    return list(_mixed(waiting, working))


def _mixed(waiting: Sequence[Path], working: Sequence[Path]) -> Iterator[Path]:
    others = iter(working)
    for file in waiting:
        yield file
        yield from islice(others, 2)
    yield from others


def _top(file: Path) -> str:
    return file.relative_to(HERE).parts[0]
