"""Questions of the iOS SDK before it restores a purchase or shows an introductory offer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from latchkey.api.authentication import AppWriteKey, address_of
from latchkey.api.errors import BadRequest, StoreNotConnected
from latchkey.api.exchange import SCOPE_KEY
from latchkey.api.models import AppBody, PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.api.v1.receipts import INVALID_RECEIPT
from latchkey.domain.customers.eligibility import intro_eligible
from latchkey.domain.team.client_address import network_of
from latchkey.usecases.catalog.loading import load_catalog
from latchkey.usecases.customers.receipts import CannotCheck, InvalidReceipt
from latchkey.usecases.rendering.view import look_at
from latchkey.usecases.stores.restore_eligibility import may_restore
from latchkey.wire.sdk import RestoreEligibility

router = Router(prefix="/v1/subscribers/{app_user_id}", tags=["V1 for SDKs"])


class ShownToken(AppBody):
    fetch_token: Annotated[str, Field(min_length=1)]


class ProductsInQuestion(AppBody):
    product_identifiers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=200)]


@router.post("/restore/eligibility", responses=shows(RestoreEligibility), response_class=Response)
async def restore_eligibility(
    request: Request, services: Provided, caller: AppWriteKey, app_user_id: PathUserId, new: ShownToken
) -> Response:
    """Whether this user could restore the purchases of this receipt, as the project's `restore_behavior` says. The
    receipt is checked with its store; nothing is changed."""
    # Each may ask the store, like a receipt.
    address = network_of(address_of(request.scope[SCOPE_KEY], services))
    if not services.receipt_limit.takes(caller.project_id, app_user_id, address, services.now()):
        raise StoreNotConnected("Too many receipts at once. Ask again later.")
    try:
        allowed = await may_restore(
            services.stores,
            services.reader,
            caller.project_id,
            caller.app_id,
            caller.store,
            app_user_id,
            new.fetch_token,
        )
    except InvalidReceipt as invalid:
        raise BadRequest(invalid.message, code=INVALID_RECEIPT, type="store_error", param=invalid.param) from invalid
    except CannotCheck as unknown:
        raise StoreNotConnected(unknown.message) from unknown
    return reply(RestoreEligibility(is_purchase_allowed_by_restore_behavior=allowed))


@router.post("/intro_eligibility", responses=shows(dict[str, bool | None]), response_class=Response)
async def intro_eligibility(
    services: Provided, caller: AppWriteKey, app_user_id: PathUserId, new: ProductsInQuestion
) -> Response:
    """For each product, whether this user can still have its introductory offer: true, false, or null if not known. By
    the history that Latchkey has; the store decides at the purchase."""
    row = await services.reader.read(caller.project_id, app_user_id)
    customer = look_at(row, services.now()).customer if row is not None else None
    catalog = row.catalog if row is not None else await load_catalog(services.changes, caller.project_id)
    return reply({id: intro_eligible(customer, catalog, caller.store, id) for id in new.product_identifiers})
