"""The offerings of an app."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from latchkey.api.authentication import AppReadKey
from latchkey.api.models import PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.catalog.offerings import load_offered
from latchkey.wire.offerings import Offering, Offerings, Package, Placements

router = APIRouter(tags=["V1 subscribers"])

IDENTIFIER = "default"


@router.get("/v1/subscribers/{app_user_id}/offerings", responses=shows(Offerings), response_class=Response)
async def read_offerings(services: Provided, caller: AppReadKey, app_user_id: PathUserId) -> Response:  # noqa: ARG001 - the same for all users
    """All products on sale, as one offering; none if nothing is on sale."""
    packages = [
        Package(identifier=product.id, platform_product_identifier=product.id)
        for product in await load_offered(services.changes, caller.project_id)
    ]
    current = IDENTIFIER if packages else None
    offering = Offering(identifier=IDENTIFIER, description="Everything on sale", packages=packages)
    return reply(
        Offerings(
            current_offering_id=current,
            offerings=[offering] if packages else [],
            placements=Placements(fallback_offering_id=current),
        )
    )
