"""`latchkey admin cluster`: from a plain database to a Citus cluster while the service runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

import typer
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.output import JsonOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.storage.database import without_password
from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating import fence, following, progress, slot, switching
from latchkey.storage.relocating.connections import both

app = typer.Typer(
    help="Move a plain database into a Citus cluster while the service runs. docs/scaling.md says how.",
    no_args_is_help=True,
)

ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        envvar="LATCHKEY_CLUSTER_URL",
        help="The address of the new database, on the coordinator. It must be distributed already.",
    ),
]

# Between two looks for new changes, while there are none.
_PAUSE_SECONDS = 0.2
# Between two lines about how far it is.
_SAID_SECONDS = 10.0


@app.command("follow")
def follow(
    to: ToOption,
    config: ConfigOption = None,
    data: DataOption = DATA,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything up to now is copied.")] = False,
) -> None:
    """Copy all rows, then apply new changes until Ctrl-C. Run it again to continue."""
    asyncio.run(_follow(database_url(config, data), to, once, _told(False)))


@app.command("compare")
def compare(to: ToOption, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Compare every row of both databases as of one moment. The service can run meanwhile. Stop `follow` first."""
    _run(_compare(database_url(config, data), to, _told(as_json)), as_json)


@app.command("switch")
def switch(
    to: ToOption,
    config: ConfigOption = None,
    data: DataOption = DATA,
    no_compare: Annotated[
        bool, typer.Option("--no-compare", help="`latchkey admin cluster compare` was run just before.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Refuse writes to the old database, copy the last changes, and open the new one. Takes seconds.

    If a check fails, the old database accepts writes again."""
    _run(_switch(database_url(config, data), to, not no_compare, _told(as_json)), as_json)


@app.command("status")
def status(to: ToOption, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Show the progress of the copy."""
    _run(_status(database_url(config, data), to, _told(as_json)), as_json)


@app.command("cancel")
def cancel(to: ToOption, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Cancel the copy before the switch. The old database stays in use; the new one is emptied."""
    _run(_cancel(database_url(config, data), to, _told(as_json)), as_json)


@app.command("return")
def return_(
    to: Annotated[str, typer.Option("--to", envvar="LATCHKEY_PLAIN_URL", help="The address of the plain database.")],
    config: ConfigOption = None,
    data: DataOption = DATA,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete what the plain database has. Without it, it must be empty.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """After the switch: copy everything from the cluster back into a plain database. Nobody can write meanwhile."""
    _run(_return(database_url(config, data), to, replace, _told(as_json)), as_json)


def _run(work: Coroutine[Any, Any, dict[str, Any]], as_json: bool) -> None:
    report = asyncio.run(work)
    if as_json:
        output.write(report)


def _told(as_json: bool) -> Console:
    # With --json the lines for people go nowhere.
    return Console(highlight=False, soft_wrap=True, markup=False, quiet=as_json)


async def _follow(source_url: str, target_url: str, once: bool, console: Console) -> None:
    console.print(f"From {without_password(source_url)} to {without_password(target_url)}")
    async with both(source_url, target_url) as (source, target):
        it = await following.opened(source, target, source_url)
        await following.begin_or_resume(it, lambda words: console.print(f"  {words}"))
        if it.state == progress.DONE:
            raise NotRelocatableError("The switch was made already. There is nothing to follow any more.")
        if await fence.is_up(source):
            console.print("Nobody can write to the old database: a switch was interrupted. Run it again, or `cancel`.")
        console.print("✓ All rows are copied. Following the changes; Ctrl-C ends this, and it can be started again.")
        clock = asyncio.get_running_loop().time
        said = clock() - _SAID_SECONDS
        while True:
            found = await it.step()
            if clock() - said >= _SAID_SECONDS:
                said = clock()
                console.print(f"  {await slot.behind(source) / 1e6:,.1f} MB of changes behind")
            if not found:
                if once:
                    return
                await asyncio.sleep(_PAUSE_SECONDS)


async def _compare(source_url: str, target_url: str, console: Console) -> dict[str, Any]:
    async with both(source_url, target_url) as (source, target):
        it = await following.opened(source, target, source_url)
        await it.resume()
        await it.until_close()
        sums = await it.compare(lambda words: console.print(f"✓ {words}"))
    return {"same": True, "rows": {name: one.rows for name, one in sums.items()}}


async def _switch(source_url: str, target_url: str, compare: bool, console: Console) -> dict[str, Any]:
    report: dict[str, Any] = {"state": progress.DONE, "seconds": None}
    async with both(source_url, target_url) as (source, target):
        it = await following.opened(source, target, source_url)
        await it.resume()
        if it.state == progress.DONE:
            console.print("✓ The switch was made already.")
        else:
            done = await switching.switch(it, lambda words: console.print(f"  {words}"), compare=compare)
            console.print(f"✓ Switched. Nobody could write for {done.seconds:.2f} s.")
            report["seconds"] = round(done.seconds, 3)
        await switching.clean_up(it)
    console.print(
        "Processes that were started with the new address serve now. Stop the others. The old database stays as it "
        "is, and nobody can write to it."
    )
    return report


async def _status(source_url: str, target_url: str, console: Console) -> dict[str, Any]:
    async with both(source_url, target_url) as (source, target):
        found = await progress.load(target)
        behind = await slot.behind(source) if await slot.exists(source) else None
        refused = await fence.is_up(source)
    state = found.state if found is not None else "not begun"
    console.print(f"State: {state}")
    if behind is not None:
        console.print(f"Changes that are not applied: {behind / 1e6:,.1f} MB")
    console.print(f"Writes to the old database: {'refused' if refused else 'go on'}")
    return {"state": state, "bytes_behind": behind, "writes_refused": refused}


async def _cancel(source_url: str, target_url: str, console: Console) -> dict[str, Any]:
    async with both(source_url, target_url) as (source, target):
        await following.cancel(source, target)
    console.print("✓ Given up. The old database goes on as before, and the new one is empty.")
    return {"cancelled": True}


async def _return(source_url: str, target_url: str, replace: bool, console: Console) -> dict[str, Any]:
    async with both(source_url, target_url) as (source, target):
        done = await switching.copy_back(source, target, lambda words: console.print(f"  {words}"), replace=replace)
    console.print(f"✓ Copied back. Nobody could write for {done:.1f} s. Start the service with the plain address.")
    return {"seconds": round(done, 3)}
