"""The command line. Every command has its own module; here they get their names, and their errors a plain voice."""

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
    help="Self-hosted subscription entitlements. `latchkey up` starts everything on this machine.",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks with local variables would show keys.
    pretty_exceptions_enable=False,
)
# In the order in which help shows them: the module, and its command or its group of commands.
_COMMANDS = (
    ("up", "up"),
    ("serve", "serve"),
    ("migration", "migrate"),
    ("project", "app"),
    ("key", "app"),
    ("user", "app"),
    ("trust", "trust"),
    ("trust", "untrust"),
    ("doctor", "doctor"),
    ("consumer", "app"),
    ("push", "app"),
    ("device", "device"),
    ("receiver", "receiver"),
)


def _add_commands() -> None:
    """Every command whose extra is installed: a server that only consumes has no database, and no `latchkey up`."""
    for name, attribute in _COMMANDS:
        try:
            found = getattr(import_module(f"latchkey.cli.{name}"), attribute)
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith("latchkey"):
                raise
            continue
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command()(found)


_add_commands()


@app.command()
def version() -> None:
    """Show which Latchkey this is."""
    Console(highlight=False).print(f"latchkey {installed('latchkey')} (Python {platform.python_version()})")


# Their messages say what to do; everything else is a bug and shows where.
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
        told.print("[bold red]Latchkey does not start with these settings:[/bold red]")
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
