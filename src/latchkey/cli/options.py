"""Options that several commands share."""

from typing import Annotated

import typer

from latchkey.domain.formats import iso_duration

NameOption = Annotated[str | None, typer.Option("--name", help="The name that people see. Default: the id.")]


def typed_duration(text: str | None, option: str) -> str | None:
    if text is None:
        return None
    try:
        return iso_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
