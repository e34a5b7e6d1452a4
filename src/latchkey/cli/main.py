"""The command line. Each command has its own module; this one names them and prints their errors."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version as installed

import typer
from rich.console import Console

from latchkey.cli.consumer import ConsumerFailedError
from latchkey.cli.entry import INTERRUPTED
from latchkey.cli.listeners import CannotListenError
from latchkey.cli.readiness import NotReadyError
from latchkey.cli.start import loaded
from latchkey.cli.supervisor import DidNotBecomeReadyError
from latchkey.domain.refusal import Refusal
from latchkey.push.errors import PushError
from latchkey.runtime.errors import DeviceError
from latchkey.settings import SettingsRefusedError
from latchkey.storage.errors import StorageError

# In the order in which help shows them: the module, its command or group of commands, and the extra that it needs.
_COMMANDS = (
    ("up", "up", "service"),
    ("serve", "serve", "service"),
    ("migration", "migrate", "service"),
    ("backup", "backup", "service"),
    ("backup", "restore", "service"),
    ("after_restore", "after_restore", "service"),
    ("project", "app", "service"),
    ("key", "app", "service"),
    ("user", "app", "service"),
    ("app", "app", "service"),
    ("journal", "app", "service"),
    ("rates", "app", "service"),
    ("importing", "import_files", "service"),
    ("export", "export", "service"),
    ("trust", "trust", "service"),
    ("trust", "untrust", "service"),
    ("doctor", "doctor", "service"),
    ("consumer", "app", "consumer"),
    ("push", "app", "service"),
    ("device", "device", "runtime"),
    ("receiver", "receiver", "service"),
    ("emulate", "app", "service"),
)


def command_line(words: Sequence[str]) -> typer.Typer:
    """The application for this command line. Where it names a command, only that one is imported: importing all of
    them takes most of a second."""
    app = typer.Typer(
        name="latchkey",
        help="Self-hosted subscription entitlements. `latchkey up` starts everything on this machine, "
        "`latchkey serve` runs the service in production.",
        no_args_is_help=True,
        add_completion=False,
        # Tracebacks with local variables would show keys.
        pretty_exceptions_enable=False,
    )
    # With a callback it stays a group of commands, even with one command in it.
    app.callback()(lambda: None)
    names = {_name(module, attribute) for module, attribute, _ in _COMMANDS} | {"version"}
    alone = words[0] if words and words[0] in names else None
    for module, attribute, extra in _COMMANDS:
        if alone is None or _name(module, attribute) == alone:
            _add(app, module, attribute, extra)
    app.command()(version)
    return app


# Words that cannot be names in Python.
_RESERVED = {"import_files": "import", "after_restore": "after-restore"}


def _name(module: str, attribute: str) -> str:
    return module if attribute == "app" else _RESERVED.get(attribute, attribute)


def _add(app: typer.Typer, module: str, attribute: str, extra: str) -> None:
    """Adds a command if its extra is installed. Otherwise it is hidden, and names its extra when called."""
    name = _name(module, attribute)
    try:
        found = getattr(import_module(f"latchkey.cli.{module}"), attribute)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("latchkey"):
            raise
        _add_unavailable(app, name, extra)
        return
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)


def _add_unavailable(app: typer.Typer, name: str, extra: str) -> None:
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, hidden=True, add_help_option=False, context_settings=anything)
    def unavailable() -> None:
        told = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        told.print(f"`latchkey {name}` needs the extra `{extra}`: pip install 'latchkey[{extra}]'")
        raise typer.Exit(2)


def version() -> None:
    """Show the version of Latchkey and of Python."""
    Console(highlight=False).print(f"latchkey {installed('latchkey')} (Python {platform.python_version()})")


# Errors whose message tells the user what to do. Any other exception is a bug, and its traceback is shown.
_TOLD = (
    StorageError,
    Refusal,
    CannotListenError,
    NotReadyError,
    DidNotBecomeReadyError,
    PushError,
    DeviceError,
    ConsumerFailedError,
)


def main() -> None:
    try:
        app = command_line(sys.argv[1:])
        loaded()
        app()
    except KeyboardInterrupt:
        # The command's code was being loaded.
        sys.exit(INTERRUPTED)
    except SettingsRefusedError as error:
        told = Console(stderr=True, highlight=False)
        told.print("[bold red]Latchkey cannot start with these settings:[/bold red]")
        for problem in error.problems:
            told.print(
                f"  [red]✗[/red] [bold]{problem.setting}[/bold] {problem.wrong} {problem.remedy}".rstrip(),
                soft_wrap=True,
            )
        sys.exit(2)
    except _TOLD as error:
        Console(stderr=True, highlight=False).print(f"[bold red]Error:[/bold red] {_escaped(error)}", soft_wrap=True)
        sys.exit(1)


def _escaped(error: Exception) -> str:
    return str(error).replace("[", r"\[")


if __name__ == "__main__":
    main()
