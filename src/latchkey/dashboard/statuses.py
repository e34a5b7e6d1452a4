"""The HTTP status of a refusal on a page. Separate from the application, because pages with forms use it too."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from latchkey.domain.refusal import Conflict, Invalid, NotFound, Refusal
from latchkey.usecases.access.sessions import TooManyGuesses


def status_of(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    assert isinstance(error, Refusal)
    match error:
        case TooManyGuesses():
            return 429, error.message
        case Invalid():
            return 400, error.message
        case NotFound():
            return 404, error.message
        case Conflict():
            return 409, error.message
        case _:
            return 422, error.message
