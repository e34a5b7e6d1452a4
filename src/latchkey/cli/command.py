"""A command: its function, and what it works with, which brings the options that several commands have."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Any, Concatenate, Self, TypeVar

import typer

from latchkey.cli import output
from latchkey.cli.output import YesOption

T = TypeVar("T")
At = TypeVar("At")
Body = Callable[Concatenate[At, ...], Awaitable[None]]


def option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option, as the default of a command's parameter. With `...` as its own default it has to be given."""
    return typer.Option(default, *names, help=help, **more)


def flag(help: str, *names: str) -> Any:
    return typer.Option(False, *names, help=help)


def argument(help: str, *, default: Any = ..., **more: Any) -> Any:
    return typer.Argument(default, help=help, **more)


LIMIT = option("At most this many.", default=50, min=1, max=1000)


def command(
    app: typer.Typer, name: str, opened: Callable[..., AbstractAsyncContextManager[At]], *, asks: str = ""
) -> Callable[[Body[At]], Body[At]]:
    """Adds a command to a group."""

    def add(body: Body[At]) -> Body[At]:
        app.command(name)(runnable(opened, asks=asks)(body))
        return body

    return add


def runnable(
    opened: Callable[..., AbstractAsyncContextManager[At]], *, asks: str = ""
) -> Callable[[Body[At]], Callable[..., None]]:
    """A command that works with what `opened` opens. It has the options of its function and those of `opened`, among
    them --json. With `asks` it also has --yes, and asks that question first; the question may name options."""
    parameters = sorted(signature(opened, eval_str=True).parameters.values(), key=lambda one: one.name == "as_json")
    shared = {
        one.name: one.replace(kind=Parameter.KEYWORD_ONLY)
        for one in parameters
        if one.kind is not Parameter.VAR_KEYWORD
    }
    yes = [Parameter("yes", Parameter.KEYWORD_ONLY, annotation=YesOption, default=False)] if asks else []

    def made(body: Body[At]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            opening = {word: given.pop(word) for word in shared}
            if asks:
                output.confirm(asks.format(**given), yes=given.pop("yes"), as_json=opening["as_json"])

            async def work() -> None:
                async with opened(**opening) as at:
                    await body(at, **given)

            asyncio.run(work())

        own = list(signature(body, eval_str=True).parameters.values())[1:]
        run.__doc__ = body.__doc__
        run.__signature__ = Signature([*own, *yes, *shared.values()])  # type: ignore[attr-defined]  # Typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *yes, *shared.values()]}
        return run

    return made


class Options:
    """A dataclass of options, for commands that need nothing opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Printer:
    as_json: bool

    def say(self, value: Any, *lines: str) -> None:
        """JSON for programs, lines for people. What is from outside is escaped by the caller."""
        if self.as_json:
            output.write(value)
            return
        for line in lines:
            output.console().print(line, soft_wrap=True)

    def done(self, value: Any, words: str) -> None:
        """The outcome of a change."""
        self.say(value, f"[green]✓[/green] {words}")

    def reveal(self, value: Any, secret: str, *notes: str) -> None:
        """A new secret alone on stdout, so that a script can read it. The notes for people go to stderr."""
        if self.as_json:
            output.write(value)
            return
        for note in notes:
            output.told(note)
        output.bare(secret)

    def show_facts(self, value: Any, facts: Iterable[tuple[str, str]]) -> None:
        if self.as_json:
            output.write(value)
        else:
            output.show_facts(facts)

    def show_list(
        self,
        found: Sequence[T],
        as_data: Callable[[T], Any],
        columns: Sequence[str],
        row: Callable[[T], Sequence[str]],
        nothing: str = "",
        more: str = "",
    ) -> None:
        """`more` is empty if there are no more than these. Without `nothing`, an empty table has its columns."""
        if self.as_json:
            output.write_list((as_data(one) for one in found), more=bool(more))
        else:
            output.show_list([row(one) for one in found], columns, nothing, more)
