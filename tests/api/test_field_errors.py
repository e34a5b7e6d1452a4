"""What replies say about wrong fields: one sentence in the words of JSON."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from latchkey.api.errors import InvalidParameter
from latchkey.api.field_errors import said


class Thing(BaseModel, extra="forbid", strict=True):
    name: str


def refuse(value: object) -> object:
    raise ValueError("The name is taken.")


@pytest.mark.parametrize(
    ("kind", "sent", "sentence"),
    [
        (Thing, {}, "This field is required."),
        (Thing, {"name": "a", "other": 1}, "There is no such field."),
        (Thing, {"name": 1}, "It must be a string."),
        (Thing, [], "It must be an object."),
        (dict[str, str], 1, "It must be an object."),
        (list[str], {}, "It must be a list."),
        (int, "many", "It must be a whole number."),
        (int, 1.5, "It must be a whole number."),
        (float, "much", "It must be a number."),
        (bool, "perhaps", "It must be true or false."),
        (date, "tomorrow", "It must be a date such as 2027-01-31."),
        (Literal["app", "store"], "x", "It must be 'app' or 'store'."),
        (Annotated[int, Field(ge=1)], 0, "It must be at least 1."),
        (Annotated[int, Field(le=90)], 91, "It must be at most 90."),
        (Annotated[float, Field(gt=0)], 0, "It must be greater than 0.0."),
        (Annotated[str, Field(max_length=3)], "long", "It may have at most 3 characters."),
        (Annotated[str, Field(min_length=1)], "", "It must have at least 1 character."),
        (Annotated[list[int], Field(min_length=1)], [], "It must have at least 1 entry."),
        (Annotated[list[int], Field(max_length=2)], [1, 2, 3], "It may have at most 2 entries."),
        (Annotated[str, Field(pattern="^[A-Z]{3}$")], "usd", "It does not have the required form; see /docs."),
        (Annotated[str, BeforeValidator(refuse)], "ada", "The name is taken."),
    ],
)
def test_a_wrong_field_gets_a_sentence_without_words_of_the_framework(kind: Any, sent: object, sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(sent)
    assert said(refused.value.errors()[0]) == sentence


def test_a_reply_does_not_repeat_a_megabyte() -> None:
    error = InvalidParameter(f"{'x' * 1_000_000}: There is no such field.", param="x" * 1_000_000)
    assert len(error.body("v2", "")) < 2_000
    assert error.message.endswith("x…")
