"""Promotional grants given and revoked by the operator."""

from __future__ import annotations

from latchkey.domain.customers import promotion
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.usecases.engine.changes import Change, Changes, Committed, Situation


async def grant(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    entitlement_id: str,
    *,
    ends_at: Ms | None = None,
    duration: str | None = None,
    counted_from: Ms | None = None,
    create: bool = False,
) -> Committed:
    """Until `ends_at`, or for a named duration from now (or from `counted_from`), or for ever."""

    def granted(situation: Situation) -> Customer:
        _known(situation, entitlement_id)
        end = promotion.end_of(duration, counted_from or situation.now) if duration is not None else ends_at
        return promotion.grant(situation.customer, entitlement_id, end, situation.now, duration=duration)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=granted, create=create))


async def revoke(changes: Changes, project_id: str, app_user_id: str, entitlement_id: str) -> Committed:
    """Ends every active promotional grant of this entitlement; purchases are not affected."""

    def revoked(situation: Situation) -> Customer:
        _known(situation, entitlement_id)
        return promotion.revoke(situation.customer, entitlement_id, situation.now)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=revoked))


def _known(situation: Situation, entitlement_id: str) -> None:
    if entitlement_id not in situation.catalog.entitlements:
        raise NotFound(f"There is no entitlement {entitlement_id!r} in this project.", param="entitlement_id")
