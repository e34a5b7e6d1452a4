"""The test store over HTTP: cause any event, and see what came of it."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from latchkey.api.authentication import WriteKey
from latchkey.api.models import AppUserId, Body, Instant
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.domain.purchase import Environment, Ownership, Reason
from latchkey.usecases import test_store
from latchkey.usecases.admission import Caller
from latchkey.usecases.rendering import v2 as render
from latchkey.usecases.services import Services
from latchkey.wire.actions import EventReference, TestStoreResult

router = APIRouter(tags=["V2 test store"])

ROUTE = "/v2/projects/{project_id}/test_store/actions"

Name = Annotated[str, Field(min_length=1, max_length=200)]


class NewAction(Body):
    action: test_store.Name
    app_user_id: AppUserId
    product_id: Name | None = None
    environment: Literal["SANDBOX", "PRODUCTION"] = "SANDBOX"
    trial: bool = False
    ownership_type: Literal["PURCHASED", "FAMILY_SHARED"] = "PURCHASED"
    reason: (
        Literal["UNSUBSCRIBE", "BILLING_ERROR", "DEVELOPER_INITIATED", "PRICE_INCREASE", "CUSTOMER_SUPPORT", "UNKNOWN"]
        | None
    ) = None
    grace_days: Annotated[int, Field(ge=0, le=365)] = 0
    new_product_id: Name | None = None
    when: Literal["now", "at_renewal"] = "now"
    resume_at_ms: Instant | None = None
    days: Annotated[int, Field(ge=1, le=3650)] | None = None


@router.post(ROUTE, responses=shows(TestStoreResult), response_class=Response)
async def act(services: Provided, caller: WriteKey, new: NewAction) -> Response:
    """Do something in the test store. What makes no sense in the present state is a 422 that says why."""
    return reply(await do(services, caller, new))


async def do(services: Services, caller: Caller, new: NewAction) -> TestStoreResult:
    now = services.now()
    action = test_store.Action(
        name=new.action,
        app_user_id=new.app_user_id,
        new_id=f"test_{now}_{uuid4()}",
        product_id=new.product_id,
        environment=Environment(new.environment),
        trial=new.trial,
        ownership=Ownership(new.ownership_type),
        reason=Reason(new.reason) if new.reason is not None else None,
        grace_days=new.grace_days,
        new_product_id=new.new_product_id,
        at_renewal=new.when == "at_renewal",
        resumes_at=new.resume_at_ms,
        days=new.days,
    )
    done = await test_store.act(services.changes, caller.project_id, action)
    return TestStoreResult(
        events=[EventReference(id=event.id, type=event.type) for event in done.events],
        customer=render.customer(done.view(services.now())),
    )
