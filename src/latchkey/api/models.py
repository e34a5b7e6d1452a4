"""What request bodies and parameters are made of. Unknown fields, and values of another type, are refused.

Bodies are strict: `"1"` is no number and `1` is no text. For a choice use `Literal`, not an Enum.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.domain.user_id import MAX_LENGTH, problem_with
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT, LARGEST_LIMIT

# The kinds of validation error that V1 has codes of its own for.
EMPTY_USER_ID = "empty_app_user_id"
INVALID_USER_ID = "invalid_app_user_id"


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _user_id(value: str) -> str:
    problem = problem_with(value)
    if problem is not None:
        # Braces would be read as a template.
        kind = INVALID_USER_ID if value.strip() else EMPTY_USER_ID
        raise PydanticCustomError(kind, "{problem}", {"problem": problem})
    return value


_id_schema = Field(json_schema_extra={"minLength": 1, "maxLength": MAX_LENGTH})
AppUserId = Annotated[str, AfterValidator(_user_id), _id_schema]
PathUserId = Annotated[str, AfterValidator(_user_id), Path(json_schema_extra={"minLength": 1, "maxLength": MAX_LENGTH})]
Instant = Annotated[int, Field(ge=EARLIEST, le=LATEST, description="Epoch milliseconds.")]
Limit = Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description=f"Items on a page; {DEFAULT_LIMIT} unless given.")]
StartingAfter = Annotated[str | None, Query(max_length=500, description="The last item of the page before.")]
