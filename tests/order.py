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
    "subjects/database_restore/test_point_in_time.py",
    "subjects/database_restore/test_backup_commands.py",
    "crash",
    "restarts",
    "failover",
    "convergence",
    "campaign",
    "docs",
    "process",
    "cli",
    "subjects/webhooks/delivery",
    "runtime",
    "push",
    "observability",
    "subjects/imports/test_command.py",
    "subjects/accounts/test_command.py",
    "subjects/purchase_intake/test_command.py",
)
WORK = ("contract", "subjects", "dashboard", "consumer", "web_sdk", "domain", "test_architecture.py")


def ordered(files: Iterable[Path]) -> list[Path]:
    """Test files in the order in which test processes should take them."""
    files = list(files)
    waiting = sorted((file for file in files if _rank(file, WAIT) < len(WAIT)), key=lambda file: _rank(file, WAIT))
    working = sorted((file for file in files if file not in waiting), key=lambda file: _rank(file, WORK))
    return list(_mixed(waiting, working))


def _mixed(waiting: Sequence[Path], working: Sequence[Path]) -> Iterator[Path]:
    others = iter(working)
    for file in waiting:
        yield file
        yield from islice(others, 2)
    yield from others


def _rank(file: Path, places: Sequence[str]) -> int:
    """The number of the first of these folders and files that holds it, or their count."""
    name = file.relative_to(HERE).as_posix()
    return next(
        (rank for rank, place in enumerate(places) if name == place or name.startswith(f"{place}/")), len(places)
    )
