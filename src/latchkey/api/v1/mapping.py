"""The product-entitlement mapping: with it an app computes access while the service cannot be reached."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.api.authentication import AppReadKey
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.catalog.loading import load_catalog
from latchkey.usecases.rendering.mapping import product_entitlement_mapping
from latchkey.wire.sdk import ProductEntitlementMapping

router = Router(tags=["V1 for SDKs"])


@router.get("/v1/product_entitlement_mapping", responses=shows(ProductEntitlementMapping), response_class=Response)
async def read_mapping(services: Provided, caller: AppReadKey) -> Response:
    """Every product of the catalog with the entitlements it grants."""
    return reply(product_entitlement_mapping(await load_catalog(services.changes, caller.project_id), caller.store))
