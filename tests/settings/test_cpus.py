"""How many processors we count: what the machine has, what we may use of it, and what a container's quota allows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latchkey import cpus, settings
from latchkey.cpus import available_cpus
from latchkey.settings import Settings


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def counted(folder: Path, group: str, files: dict[str, str]) -> int:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    own = folder / "own"
    own.write_text(group)
    return available_cpus(folder, own)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        # In a container, its own group is the root that it sees.
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "9900000 100000\n"}, 8),
        ("0::/\n", {}, 8),
        # A unit of systemd: its quota, and that of the slice above it.
        ("0::/system.slice/latchkey.service\n", {"system.slice/latchkey.service/cpu.max": "300000 100000\n"}, 3),
        (
            "0::/system.slice/latchkey.service\n",
            {"system.slice/latchkey.service/cpu.max": "max 100000\n", "system.slice/cpu.max": "400000 100000\n"},
            4,
        ),
        # The first version, where each controller has a tree. In a container the path is the host's.
        (
            "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n",
            {"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        # What we do not understand limits nothing.
        ("0::/\n", {"cpu.max": "much\n"}, 8),
        ("0::/\n", {"cpu.max": "100000 0\n"}, 8),
    ],
)
def test_a_quota_counts_as_so_many_processors(group: str, files: dict[str, str], expected: int, tmp_path: Path) -> None:
    assert counted(tmp_path, group, files) == expected


def test_the_set_of_processors_counts_where_it_is_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5})
    assert counted(tmp_path, "0::/\n", {"cpu.max": "300000 100000\n"}) == 2


def test_a_machine_without_control_groups_has_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_cpus(tmp_path, tmp_path / "none") == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpus.available_cpus(tmp_path, tmp_path / "none") == 1


def test_by_default_there_is_one_process_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "available_cpus", lambda: 6)
    assert (Settings().api_processes, Settings().processes) == (6, 7)
    assert (Settings(workers=2).api_processes, Settings(workers=2, roles=("api",)).processes) == (2, 2)
    assert Settings(roles=("clock", "delivery")).processes == 1
