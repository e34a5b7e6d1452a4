"""Tests say what they install before they do, and what is missing where they cannot."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from tests import machine


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done on a machine that has apt-get and nothing else, in order."""
    done: list[str] = []
    installed = {"apt-get"}

    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        # A bare machine has no lists of packages until it is told to fetch them.
        updated = any("update" in command for command in done)
        done.append(" ".join(words))
        if "install" in words and updated:
            installed.add("browse")
        return subprocess.CompletedProcess(words, 0 if updated or "update" in words else 100)

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in installed else None)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "announce", done.append)
    monkeypatch.delenv(machine.INSTALL_NOTHING, raising=False)
    return done


def test_an_installation_is_announced_before_it_begins(done: list[str]) -> None:
    assert machine.ensure("browse", "browse-tools") == "/usr/bin/browse"
    words, *commands = done
    assert "`browse`" in words
    assert "apt-get install browse-tools" in words
    assert machine.INSTALL_NOTHING in words
    assert [command.split("Timeout=20 ")[1] for command in commands] == [
        "install -y --no-install-recommends browse-tools",
        "update",
        "install -y --no-install-recommends browse-tools",
    ]


def test_what_is_there_is_not_installed(done: list[str]) -> None:
    assert machine.ensure("apt-get") == "/usr/bin/apt-get"
    assert done == []


@pytest.mark.parametrize("why", ["forbidden", "not root", "no apt-get"])
def test_where_nothing_may_be_installed_it_says_what_is_missing_and_why(
    why: str, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "forbidden":
        monkeypatch.setenv(machine.INSTALL_NOTHING, "1")
    elif why == "not root":
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    else:
        monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(AssertionError, match=r"needs `browse`.*apt-get install browse-tools") as refused:
        machine.ensure("browse", "browse-tools")
    reason = {"forbidden": machine.INSTALL_NOTHING, "not root": "needs root", "no apt-get": "no apt-get"}[why]
    assert reason in str(refused.value)
    assert done == []


def test_what_tests_can_do_without_is_installed_where_that_is_possible(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(machine.INSTALL_NOTHING, "1")
    assert machine.wanted("browse") is None
    assert done == []
    monkeypatch.delenv(machine.INSTALL_NOTHING)
    assert machine.wanted("browse") == "/usr/bin/browse"
    assert "apt-get install browse" in done[0]
    assert machine.wanted("other") is None


def test_an_installation_that_did_not_help_is_said(done: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"`apt-get install other` did not help"):
        machine.ensure("other")


def test_an_announcement_is_written_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "_config", None)
    machine.announce("Installing a browser")
    assert capsys.readouterr().err == "\nInstalling a browser\n"
