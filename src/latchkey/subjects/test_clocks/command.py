"""`latchkey clock`: test clocks. Customers on a clock live in its time, which these commands move."""

import secrets

import typer

from latchkey.cli import output
from latchkey.cli.command import argument, command, option
from latchkey.cli.output import shown, typed_ahead, typed_duration
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.instants import parse_duration
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.domain.user_id import problem_with
from latchkey.now import real_now
from latchkey.subjects.test_clocks import render, rules, usecases

app = typer.Typer(no_args_is_help=True)

CLOCK = argument("The clock's id or name.", metavar="CLOCK")


@command(app, "list", project_context)
async def show_list(at: ProjectContext) -> None:
    """List the test clocks."""
    at.show_list(
        await _every(at),
        lambda one: render.test_clock(at.project_id, one),
        ("id", "name", "time"),
        lambda one: (one.id, one.name, shown(one.now)),
        "There is no test clock yet. Create one with `latchkey clock create`.",
    )


@command(app, "create", project_context)
async def create(
    at: ProjectContext,
    name: str = argument("The name that people see.", metavar="NAME"),
    start: str | None = option("Its time: a date and time in UTC, or 12h, 90d from now.", "--at"),
    customers: list[str] | None = option(
        "Create this customer on the clock. May be given several times.", "--customer"
    ),
) -> None:
    """Create a test clock. It stands still until it is moved."""
    now, id = real_now(), f"clk_{secrets.token_hex(12)}"
    begins = typed_ahead(start, now) if start is not None else now
    for customer in customers or []:
        if (problem := problem_with(customer)) is not None:
            raise Invalid(problem, param="customer")
        if await at.reader.read(at.project_id, customer) is not None:
            raise Conflict(f"There is a customer {customer!r} already. No clock was created.", param="customer")
    async with at.audited("test_clock.created", id, name=name):
        clock = await at.run(usecases.create_clock, id, checked_name(name), begins, now)
    for customer in customers or []:
        async with at.audited("test_clock.customer_created", f"{customer}, {id}"):
            await usecases.create_customer(at.changes, at.project_id, customer, id)
    words = f"The clock {clock.id} ({output.plain(clock.name)}) is at {shown(clock.now)}."
    at.done(render.test_clock(at.project_id, clock), words)


@command(app, "advance", project_context)
async def advance(
    at: ProjectContext,
    clock: str = CLOCK,
    by: str | None = option("How far: '1 month', '7 days', P1Y."),
    to: str | None = option("To a date and time in UTC such as 2027-01-31T08:00."),
) -> None:
    """Move a clock forward. Everything that falls due on the way happens, each at its own time."""
    if (by is None) == (to is None):
        raise typer.BadParameter("Give either --by or --to.", param_hint="--by")
    length = parse_duration(typed_duration(by, "--by") or "") if by is not None else None
    moment = typed_ahead(to, real_now()) if to is not None else None
    id = await _id_of(at, clock)
    async with at.audited("test_clock.advanced", id, by=by or "", to=to or ""):
        moved = await usecases.advance(at.changes, at.project_id, id, by=length, to=moment)
    words = f"It is {shown(moved.clock.now)}. Events on the way: {moved.events:,}."
    at.done(render.test_clock_advanced(at.project_id, moved), words)


@command(app, "delete", project_context, asks="Delete the test clock {clock!r}?")
async def delete(at: ProjectContext, clock: str = CLOCK) -> None:
    """Delete a clock without customers. Asks first."""
    id = await _id_of(at, clock)
    async with at.audited("test_clock.deleted", id):
        await at.run(usecases.delete_clock, id)
    at.show_deleted("test_clock", id, f"The clock {output.plain(clock)} is deleted.")


async def _every(at: ProjectContext) -> list[rules.TestClock]:
    return await at.run(usecases.list_clocks, None, None)


async def _id_of(at: ProjectContext, clock: str) -> str:
    ids = [one.id for one in await _every(at) if clock in (one.id, one.name)]
    if len(ids) > 1:
        raise Invalid(f"Several clocks are called {clock!r}. Give one of the ids: {', '.join(ids)}.", param="clock")
    if not ids:
        raise NotFound(f"There is no test clock {clock!r} in this project.", param="test_clock_id")
    return ids[0]
