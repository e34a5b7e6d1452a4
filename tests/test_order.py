from __future__ import annotations

from pathlib import Path

from tests.order import HERE, WAIT, WORK, ordered


def test_each_file_that_waits_comes_after_two_that_work_and_short_ones_come_last() -> None:
    names = ("api/a", "api/b", "cli/a", "cli/b", "contract/a", "crash/a", "domain/a", "domain/b", "wire/a", "test_x")
    found = [file.relative_to(HERE).with_suffix("").as_posix() for file in ordered(HERE / f"{one}.py" for one in names)]
    assert " ".join(found) == "crash/a contract/a domain/a cli/a domain/b api/a cli/b api/b wire/a test_x"


def test_every_folder_and_file_in_the_order_exists() -> None:
    assert [name for name in (*WAIT, *WORK) if not (HERE / name).exists()] == []


def test_no_file_is_lost() -> None:
    files = sorted(Path(HERE).rglob("test_*.py"))
    assert sorted(ordered(files)) == files
