"""`latchkey consumer`: the reference consumer by itself, from LATCHKEY_CONSUMER_*, and what operators do to it."""

from __future__ import annotations

from types import ModuleType
from typing import Annotated

import typer

app = typer.Typer(help="The reference consumer: a local copy of entitlements, kept by webhooks.", add_completion=False)
events = typer.Typer(no_args_is_help=True, help="Events that were set aside after an internal error.")
app.add_typer(events, name="events")


class ConsumerFailedError(Exception):
    """A command of the consumer could not be done; the message says why."""


@app.callback(invoke_without_command=True)
def consumer(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; 0 picks a free one.", min=0)] = None,
) -> None:
    """Run the consumer; docs/consumer.md lists its settings. With a command, do that instead."""
    if context.invoked_subcommand is None:
        _commands().serve(host, port)


@app.command()
def check() -> None:
    """Check the settings, and whether the service can be reached and accepts the key."""
    _commands().check()


@app.command()
def migrate() -> None:
    """Bring the consumer's tables up to date."""
    _commands().migrate()


@app.command()
def reconcile(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; mend nothing.")] = False,
    from_start: Annotated[bool, typer.Option("--from-start", help="Look at all events, not only new ones.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON on stdout.")] = False,
) -> None:
    """Compare the local copy with the service, mend it, and report what differed and why."""
    if not _commands().reconcile(mend=not dry_run, from_start=from_start, as_json=as_json):
        raise typer.Exit(1)


@events.command("list-set-aside")
def list_set_aside() -> None:
    """Show the events that could not be processed, and why."""
    _commands().list_set_aside()


@events.command()
def reprocess(
    event_id: Annotated[str | None, typer.Argument(help="One event; all of them by default.")] = None,
) -> None:
    """Try events that were set aside again."""
    if not _commands().reprocess(event_id):
        raise typer.Exit(1)


def _commands() -> ModuleType:
    # Only when one of them runs: no other command should wait for this code to load.
    from latchkey.cli import consumer_commands

    return consumer_commands
