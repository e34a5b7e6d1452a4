"""The command line. Each command has its own module; this one names them and prints their errors."""

import errno
import os
import platform
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib import import_module, util
from importlib.metadata import version as installed
from importlib.resources import files
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from latchkey.cli import output
from latchkey.cli.entry import INTERRUPTED, requirement
from latchkey.database.errors import StorageError, WrongAddressError
from latchkey.domain.refusal import Conflict, InUse, Invalid, NotFound, Refusal, StoreRefused, StoreUnreachable
from latchkey.process.supervision.listeners import CannotListenError, ConsumerFailedError, NotReadyError
from latchkey.process.supervision.start import loaded
from latchkey.push.push_notification import PushError
from latchkey.runtime.device_errors import DeviceError
from latchkey.settings import SettingsRefusedError

NAME = "latchkey"
COMMANDS: dict[str, tuple[str, str]] = tomllib.loads((files("latchkey.cli") / "commands.toml").read_text("utf-8"))
# The extra that a command needs, if it is not `service`.
EXTRAS = {"up": "up", "consumer": "consumer", "device": "runtime", "mcp": "mcp"}


def command_line(words: Sequence[str], *, whole: bool = False) -> typer.Typer:
    """The application for this command line. Where it names a command, only that one is imported. Otherwise it has the
    names of all, for help and completion; `whole` imports them."""
    app = typer.Typer(
        name=NAME,
        help="Self-hosted subscription entitlements. `latchkey up` starts everything on this machine, "
        "`latchkey serve` runs the service in production.",
        no_args_is_help=True,
        # Tracebacks with local variables would show keys.
        pretty_exceptions_enable=False,
    )
    # With a callback it stays a group of commands, even with one command in it.
    app.callback()(_before)
    alone = next((word for word in words if not word.startswith("-")), None)
    for name, (place, summary) in COMMANDS.items():
        if whole or name == alone:
            _add(app, name, place, summary)
        elif alone not in (*COMMANDS, "version"):
            _add_name(app, name, place, summary)
    app.command()(version)
    return app


def _is_installed(extra: str) -> bool:
    """Only the service has FastAPI, only the consumer SQLAlchemy. What else is missing is found out on import."""
    needed = {"service": ("fastapi",), "up": ("fastapi", "sqlalchemy")}
    return all(util.find_spec(module) is not None for module in needed.get(extra, ()))


def _add_name(app: typer.Typer, name: str, place: str, summary: str) -> None:
    """A command's name and what help says of it, without its code."""
    if not _is_installed(EXTRAS.get(name, "service")):
        return
    if ":app" in place:
        app.add_typer(typer.Typer(help=summary), name=name)
    else:
        app.command(name, help=summary)(lambda: None)


def _add(app: typer.Typer, name: str, place: str, summary: str) -> None:
    """Adds a command if its extra is installed. Otherwise it is hidden, and names its extra when called."""
    module, _, attribute = place.partition(":")
    extra = EXTRAS.get(name, "service")
    try:
        if not _is_installed(extra):
            raise ModuleNotFoundError(name="fastapi")
        found = getattr(import_module(f"latchkey.{module}"), attribute)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("latchkey"):
            raise
        _add_unavailable(app, name, extra)
        return
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, help=summary)
    else:
        app.command(name)(found)


def _add_unavailable(app: typer.Typer, name: str, extra: str) -> None:
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, hidden=True, add_help_option=False, context_settings=anything)
    def unavailable() -> None:
        told = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        told.print(f"`latchkey {name}` needs the extra `{extra}`: pip install {shlex.quote(requirement(extra))}")
        raise typer.Exit(2)


def _version() -> str:
    return f"latchkey {installed('latchkey')} (Python {platform.python_version()})"


def _show_version(wanted: bool) -> None:
    if wanted:
        Console(highlight=False).print(_version())
        raise typer.Exit


def _before(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def version(as_json: output.JsonOption = False) -> None:
    """Show the version of Latchkey and of Python."""
    if as_json:
        output.write({"latchkey": installed("latchkey"), "python": platform.python_version()})
    else:
        Console(highlight=False).print(_version())


def words_of(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command line. When a shell asks for completions, it is in the environment, up to the cursor."""
    if "_LATCHKEY_COMPLETE" not in environ:
        return list(arguments)
    typed = environ.get("_TYPER_COMPLETE_ARGS") or environ.get("COMP_WORDS") or ""
    try:
        return shlex.split(typed)[1:]
    except ValueError:
        # An open quote.
        return typed.split()[1:]


# The parent of all errors in a command line. Newer versions of Typer have it under another name than older ones.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__bases__[0]

# Errors whose message tells the user what to do. Any other exception is a bug, and its traceback is shown.
_TOLD = (
    StorageError,
    Refusal,
    CannotListenError,
    NotReadyError,
    PushError,
    DeviceError,
    ConsumerFailedError,
)

# The word for an error in JSON, first match first.
_KINDS: dict[type[Exception], str] = {
    NotFound: "not_found",
    Invalid: "invalid",
    Conflict: "conflict",
    InUse: "in_use",
    StoreRefused: "store_refused",
    StoreUnreachable: "store_unreachable",
    Refusal: "refused",
    StorageError: "database",
}


def main() -> None:
    try:
        try:
            _run()
        finally:
            # Now, not when Python ends: an error then could not be reported.
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in output.UNWRITABLE:
            raise
        # Python would try to write the rest once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            message = f"The output could not be written: {error.strerror}."
            if output.is_json(sys.argv[1:]):
                output.write_error("output", message)
            else:
                sys.stderr.write(f"Error: {message}\n")
        sys.exit(output.FAILED)


def _run() -> None:
    words = words_of(sys.argv[1:], os.environ)
    as_json = output.is_json(words)
    try:
        app = command_line(words)
        loaded()
        if as_json:
            sys.exit(_run_for_programs(app))
        app(prog_name=NAME)
    except KeyboardInterrupt:
        # The command's code was being loaded.
        sys.exit(INTERRUPTED)
    except SettingsRefusedError as error:
        _refused(error, as_json)
        sys.exit(output.REFUSED)
    except _TOLD as error:
        if as_json:
            kind = next((name for known, name in _KINDS.items() if isinstance(error, known)), "failed")
            param = {"param": error.param} if isinstance(error, Refusal) and error.param is not None else {}
            output.write_error(kind, str(error), **param)
        else:
            output.told(f"[bold red]Error:[/bold red] {escape(str(error))}")
        sys.exit(output.REFUSED if isinstance(error, WrongAddressError) else output.FAILED)


def _run_for_programs(app: typer.Typer) -> int:
    """Runs the command; wrong arguments are reported as JSON, too."""
    try:
        code = app(standalone_mode=False, prog_name=NAME)
    except typer.Exit as ended:
        code = ended.exit_code
    except typer.Abort:
        output.write_error("aborted", "Interrupted, or not confirmed.")
        code = output.FAILED
    except _UsageError as error:
        output.write_error("usage", error.format_message())
        code = output.REFUSED
    return code if isinstance(code, int) else output.DONE


def _refused(error: SettingsRefusedError, as_json: bool) -> None:
    if as_json:
        problems = [{"setting": one.setting, "problem": one.wrong, "remedy": one.remedy} for one in error.problems]
        output.write_error("settings", "These settings are missing or wrong.", problems=problems)
        return
    told = Console(stderr=True, highlight=False)
    told.print("[bold red]These settings are missing or wrong:[/bold red]")
    for problem in error.problems:
        told.print(
            f"  [red]✗[/red] [bold]{problem.setting}[/bold] {problem.wrong} {problem.remedy}".rstrip(),
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
