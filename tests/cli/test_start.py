"""A command imports only what it needs, because the imports are most of its start."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from latchkey.cli import child, demo_consumer, demo_stores, main, start
from latchkey.cli.main import command_line


def imported(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after this statement."""
    script = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [(["project", "list"], {"project"}), (["untrust"], {"untrust"}), (["version"], set[str]())],
)
def test_a_named_command_comes_alone(words: list[str], names: set[str]) -> None:
    app = command_line(words)
    found = {group.name for group in app.registered_groups} | {one.name for one in app.registered_commands if one.name}
    assert found == names


@pytest.mark.parametrize("words", [[], ["--help"], ["nonsense"]])
def test_help_and_mistakes_get_all_of_them(words: list[str]) -> None:
    assert {"key", "emulate"} <= {group.name for group in command_line(words).registered_groups}


@pytest.mark.parametrize("module", ["latchkey.cli.child", "latchkey.cli.journal", "latchkey.cli.app"])
def test_only_what_answers_requests_loads_the_web_framework(module: str) -> None:
    assert not {"fastapi", "latchkey.dashboard.application"} & imported(f"import {module}")


def test_libraries_of_stores_and_exports_are_loaded_when_they_are_used() -> None:
    loaded = imported("from latchkey.app import load_api; load_api()")
    assert "fastapi" in loaded
    assert not {"appstoreserverlibrary", "stripe", "requests", "pyarrow", "obstore"} & loaded
    assert not {"alembic", "fastapi"} & imported("import latchkey.cli.consumer_server")


def test_ctrl_c_while_code_is_loaded_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "command_line", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130


def test_what_was_loaded_is_never_collected_and_garbage_is_again(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(gc.isenabled()))
    start.loaded()
    assert (gc.isenabled(), frozen) == (True, []), "nothing to do without `loading`"
    start.loading()
    assert not gc.isenabled()
    start.loaded()
    assert (gc.isenabled(), frozen) == (True, [False])


@pytest.mark.parametrize("module", [child.__name__, demo_consumer.MODULE, demo_stores.MODULE])
def test_a_process_of_the_supervisor_loads_its_code_and_then_runs(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(sys, "argv", ["start", module, "7", "api"])
    monkeypatch.setattr(signal, "signal", lambda number, action: log.append(f"{number.name} {action.name}"))
    for name in ("loading", "loaded"):
        monkeypatch.setattr(start, name, lambda name=name: log.append(name))
    monkeypatch.setattr(child, "load_api", lambda: log.append("api"))
    monkeypatch.setattr(import_module(module), "main", lambda: log.append(" ".join(sys.argv)))
    monkeypatch.setattr(start, "name_process", lambda name: log.append(name))
    start.main()
    loads = ["api"] if module == child.__name__ else []
    assert log == ["SIGINT SIG_IGN", "api", "loading", *loads, "loaded", "start 7 api"]


def test_each_step_and_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    timings = start.Timings()
    for seconds, step in ((0.7, "code"), (1.0, "database"), (2.25, "processes")):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: start.BEGAN + seconds)
        timings.done(step)
    assert str(timings) == "2.2 s (code 0.7, database 0.3, processes 1.2)"
