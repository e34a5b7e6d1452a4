"""API keys: shown once, then masked, revoked for good. An app's public keys are on the app's page."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages
from latchkey.dashboard.statuses import status_of
from latchkey.dashboard.visit import Visit
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.usecases.access import keys

pages = Pages()

ON_A_PAGE = 100


@pages.get("/keys")
async def list_keys(visit: Visit) -> Response:
    after = visit.query.text("after") or None
    found = await keys.list_keys(visit.database, visit.project_id, kind="secret", after=after, limit=ON_A_PAGE + 1)
    shown = found[:ON_A_PAGE]
    more = visit.path("keys", after=shown[-1].id) if len(found) > ON_A_PAGE else None
    return visit.page("keys.html", here="keys", keys=shown, more=more, after=after)


@pages.get("/keys/new", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return _form(visit, name="", scopes=list(keys.SCOPES), rate_limit=str(keys.RATE_LIMIT))


@pages.post("/keys/new", Needs.MANAGE, "key.created")
async def create(visit: Visit) -> Response:
    form = visit.form
    name, scopes = form.text("name"), form.all("scope")
    try:
        limit = form.number("rate_limit", low=1, high=keys.FASTEST)
        issued = await keys.create_secret_key(
            visit.database, visit.project_id, name, visit.now, scopes=scopes, rate_limit=limit
        )
    except Refusal as refusal:
        return _form(visit, refusal, name=name, scopes=scopes, rate_limit=form.text("rate_limit"))
    visit.audit(issued.key.id, name=issued.key.name, scopes=list(issued.key.scopes), rate_limit=limit)
    return visit.page("key_once.html", 201, here="keys", issued=issued, app=None, back=visit.path("keys"))


@pages.post("/keys/{key_id}/revoke", Needs.MANAGE, "key.revoked")
async def revoke(visit: Visit) -> Response:
    visit.form.confirmed()
    key = await keys.load_key(visit.database, visit.project_id, visit.param("key_id"))
    if key.kind != "secret":
        raise NotFound(f"There is no secret key {key.id} in this project.", param="key_id")
    visit.audit(name=key.name)
    await keys.revoke_key(visit.database, visit.project_id, key.id, visit.now)
    return await visit.to(visit.path("keys"), f"{key.hint} is revoked: the next request with it is refused.")


def _form(visit: Visit, refusal: Refusal | None = None, **values: str | list[str]) -> Response:
    status, error = status_of(refusal) if refusal else (200, "")
    if refusal:
        visit.audit(refusal=error)
    return visit.page("key_new.html", status, here="keys", values=values, error=error, fastest=keys.FASTEST)
