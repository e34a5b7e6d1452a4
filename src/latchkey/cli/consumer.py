"""`latchkey consumer`: runs the reference consumer from LATCHKEY_CONSUMER_* settings, and commands to operate it."""

from __future__ import annotations

from types import ModuleType
from typing import Annotated

import typer

from latchkey.cli.output import JsonOption

app = typer.Typer(
    help="The reference consumer: keeps a local copy of entitlements up to date by webhook.", add_completion=False
)
events = typer.Typer(no_args_is_help=True, help="Events that were set aside because they could not be processed.")
app.add_typer(events, name="events")


class ConsumerFailedError(Exception):
    """A command of the consumer failed; the message says why."""


@app.callback(invoke_without_command=True)
def consumer(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; 0 chooses a free one.", min=0)] = None,
) -> None:
    """Run the consumer, or one of the commands below. docs/consumer.md lists the settings."""
    if context.invoked_subcommand is None:
        _commands().serve(host, port)


@app.command()
def check(as_json: JsonOption = False) -> None:
    """Check the settings, the connection to the service and the API key."""
    _commands().check(as_json=as_json)


@app.command()
def migrate(as_json: JsonOption = False) -> None:
    """Create or update the consumer's database tables."""
    _commands().migrate(as_json=as_json)


@app.command()
def reconcile(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report differences; change nothing.")] = False,
    from_start: Annotated[bool, typer.Option("--from-start", help="Read all events, not only new ones.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the local copy with the service, correct it, and report what differed and why."""
    if not _commands().reconcile(mend=not dry_run, from_start=from_start, as_json=as_json):
        raise typer.Exit(1)


@events.command("list-set-aside")
def list_set_aside(as_json: JsonOption = False) -> None:
    """List the events that were set aside, with the reason."""
    _commands().list_set_aside(as_json=as_json)


@events.command()
def reprocess(
    event_id: Annotated[str | None, typer.Argument(help="The id of one event. All of them unless given.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Process the events that were set aside again."""
    if not _commands().reprocess(event_id, as_json=as_json):
        raise typer.Exit(1)


def _commands() -> ModuleType:
    # Loaded only when needed: other commands should not wait for this code.
    from latchkey.cli import consumer_commands

    return consumer_commands
