"""A command: its function, and what it works with, which brings the options that several commands have."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Any, Concatenate, Self, TypeVar

import typer

from latchkey.cli import output
from latchkey.cli.output import YesOption

T = TypeVar("T")


def option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option, as the default of a command's parameter. With `...` as its own default it has to be given."""
    return typer.Option(default, *names, help=help, **more)


def flag(help: str, *names: str) -> Any:
    return typer.Option(False, *names, help=help)


def argument(help: str, *, default: Any = ..., **more: Any) -> Any:
    return typer.Argument(default, help=help, **more)


At = TypeVar("At")
Body = Callable[Concatenate[At, ...], Awaitable[None]]


def command(
    app: typer.Typer, name: str, opened: Callable[..., AbstractAsyncContextManager[At]], *, asks: str = ""
) -> Callable[[Body[At]], Body[At]]:
    """Adds a command that works with what `opened` opens. It has the options of its function and those of `opened`,
    among them --json. With `asks` it also has --yes, and asks that question first; the question may name options."""
    parameters = sorted(signature(opened, eval_str=True).parameters.values(), key=lambda one: one.name == "as_json")
    shared = {one.name: one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters}
    yes = [Parameter("yes", Parameter.KEYWORD_ONLY, annotation=YesOption, default=False)] if asks else []

    def add(body: Body[At]) -> Body[At]:
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
        app.command(name)(run)
        return body

    return add


class Options:
    """A dataclass of options, for commands that need nothing opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Printer:
    as_json: bool

    def done(self, value: Any, words: str) -> None:
        """The outcome of a change: JSON for programs, a line for people."""
        if self.as_json:
            output.write(value)
        else:
            output.done(words)

    def show_list(
        self,
        found: Sequence[T],
        as_data: Callable[[T], Any],
        columns: Sequence[str],
        row: Callable[[T], Sequence[str]],
        nothing: str,
        more: str = "",
    ) -> None:
        """`more` is empty if there are no more than these."""
        if self.as_json:
            output.write_list((as_data(one) for one in found), more=bool(more))
        else:
            output.show_list([row(one) for one in found], columns, nothing, more)
