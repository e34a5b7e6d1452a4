"""The checkout of the web SDK. Nothing is sold here until a payment provider can be connected, so every route answers
the same error. The SDK shows it as a configuration error; it must not be a 404, which says that the path is wrong."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from latchkey.api.authentication import AppReadKey, AppWriteKey
from latchkey.api.errors import Unprocessable
from latchkey.api.models import AnyBody
from latchkey.api.replies import shows
from latchkey.wire.errors import V1Error

router = APIRouter(prefix="/rcbilling/v1", tags=["Apps: products and checkout"])

CONFIGURATION = 7000
MESSAGE = (
    "Purchases on web pages need a payment provider, and none is connected to this project. To try a purchase, use the "
    "key of an app in the test store (test_...)."
)


def not_connected() -> Unprocessable:
    return Unprocessable(MESSAGE, code=CONFIGURATION)


_answer: dict[str, Any] = {
    "responses": shows(V1Error, 422, "No payment provider is connected"),
    "status_code": 422,
    "response_class": Response,
}


@router.get("/branding", **_answer)
async def read_branding(caller: AppReadKey) -> Response:  # noqa: ARG001 - only checked
    """How a checkout looks. Refused until a payment provider is connected."""
    raise not_connected()


@router.get("/checkout/{operation_session_id}", **_answer)
async def read_checkout(caller: AppReadKey, operation_session_id: str) -> Response:  # noqa: ARG001 - only checked
    """How far a checkout is. Refused until a payment provider is connected."""
    raise not_connected()


@router.post("/checkout/prepare", **_answer)
@router.post("/checkout/start", **_answer)
async def start_checkout(caller: AppWriteKey, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """Begin a checkout. Refused until a payment provider is connected."""
    raise not_connected()


@router.patch("/checkout/{operation_session_id}", **_answer)
@router.post("/checkout/{operation_session_id}/complete", **_answer)
async def change_checkout(caller: AppWriteKey, operation_session_id: str, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """Change or complete a checkout. Refused until a payment provider is connected."""
    raise not_connected()
