from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from pydantic import AfterValidator, Field

from latchkey.domain.refusal import Invalid
from latchkey.http.errors import Unprocessable
from latchkey.http.models import without_nul
from latchkey.subjects.segments.rules.filter import NAMES, Filter, parse

FilterText = Annotated[str, Field(max_length=200), AfterValidator(without_nul)]


@contextmanager
def unprocessable(named: str = "filter") -> Iterator[None]:
    """A filter is text whose form a schema cannot describe, so what cannot be understood is 422 and not 400. `named` is
    the field that the filter came in."""
    try:
        yield
    except Invalid as refusal:
        raise Unprocessable(refusal.message, param=named if refusal.param == "filter" else refusal.param) from None


def parsed(given: Mapping[str, str]) -> Filter:
    """A filter in a body. A name that it does not have is refused: ignored, the list would be longer than was meant."""
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise Unprocessable(f"A filter has no {unknown[0]!r}. It has {', '.join(NAMES)}.", param="filter")
    _refuse_blank(given)
    with unprocessable():
        return parse(given)


def _refuse_blank(given: Mapping[str, str]) -> None:
    """A value that a script forgot to fill in must not make the list longer than was meant."""
    for name, text in given.items():
        if not text.strip():
            raise Unprocessable(f"{name} is empty. Leave it out, or give a value.", param=name)
