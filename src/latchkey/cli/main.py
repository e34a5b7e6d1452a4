"""The command line. Each command has its own module; this one names them and prints their errors."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from importlib.metadata import version as installed

import typer
from rich.console import Console

from latchkey.cli.consumer import ConsumerFailedError
from latchkey.cli.listeners import CannotListenError
from latchkey.cli.readiness import NotReadyError
from latchkey.cli.supervisor import DidNotBecomeReadyError
from latchkey.domain.refusal import Refusal
from latchkey.push.errors import PushError
from latchkey.runtime.errors import DeviceError
from latchkey.settings import SettingsRefusedError
from latchkey.storage.errors import StorageError

app = typer.Typer(
    name="latchkey",
    help="Self-hosted subscription entitlements. `latchkey up` starts everything on this machine, "
    "`latchkey serve` runs the service in production.",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks with local variables would show keys.
    pretty_exceptions_enable=False,
)
# In the order in which help shows them: the module, its command or group of commands, and the extra that it needs.
_COMMANDS = (
    ("up", "up", "service"),
    ("serve", "serve", "service"),
    ("migration", "migrate", "service"),
    ("project", "app", "service"),
    ("key", "app", "service"),
    ("user", "app", "service"),
    ("app", "app", "service"),
    ("journal", "app", "service"),
    ("trust", "trust", "service"),
    ("trust", "untrust", "service"),
    ("doctor", "doctor", "service"),
    ("consumer", "app", "consumer"),
    ("push", "app", "service"),
    ("device", "device", "runtime"),
    ("receiver", "receiver", "service"),
    ("emulate", "app", "service"),
)


def _add_commands() -> None:
    """Adds every command whose extra is installed. The others are hidden, and name their extra when called."""
    for module, attribute, extra in _COMMANDS:
        name = module if attribute == "app" else attribute
        try:
            found = getattr(import_module(f"latchkey.cli.{module}"), attribute)
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith("latchkey"):
                raise
            _add_unavailable(name, extra)
            continue
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)


def _add_unavailable(name: str, extra: str) -> None:
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, hidden=True, add_help_option=False, context_settings=anything)
    def unavailable() -> None:
        told = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        told.print(f"`latchkey {name}` needs the extra `{extra}`: pip install 'latchkey[{extra}]'")
        raise typer.Exit(2)


_add_commands()


@app.command()
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
        app()
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
