"""API keys: shown once, then masked; changed, replaced, revoked. An app's public keys are on the app's page."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.dashboard.texts import ZONE, day
from latchkey.domain.access import api_key as key_rules
from latchkey.domain.access.api_key import LONGEST_OVERLAP_DAYS, OVERLAP_DAYS, WARNED_BEFORE
from latchkey.domain.formats import as_date, instant
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Checks, NotFound
from latchkey.domain.time_zones import start_of
from latchkey.engine.storage import keys
from latchkey.subjects.api_keys import usecases

pages = Pages()

ON_A_PAGE = 100


@pages.get("/keys")
async def list_keys(visit: Visit) -> Response:
    found = await visit.run(usecases.list_keys, visit.after, ON_A_PAGE + 1, kind="secret")
    shown, more = visit.paged(found, ON_A_PAGE, "keys")
    return visit.page("keys.html", keys=shown, more=more, soon=visit.now + WARNED_BEFORE)


@pages.get("/keys/new", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    values = {"rate_limit": usecases.RATE_LIMIT, "expires_on": "", "networks": ""}
    return visit.page("key_new.html", values=values, scopes=usecases.USUAL_SCOPES, fastest=usecases.FASTEST)


@pages.post("/keys/new", Needs.MANAGE, "key.created", offer_new)
async def create(visit: Visit) -> Response:
    form = visit.form
    with Checks() as check:
        name = check(checked_name, form.text("name"))
        limits = _limits(visit, check)
    issued = await visit.run(
        usecases.create_secret_key, name, visit.now, scopes=form.all("scope"), shape=form.text("shape"), **limits
    )
    visit.audit(issued.key.id, scopes=list(issued.key.scopes), **_told(issued.key))
    return _once(visit, issued)


@pages.get("/keys/{key_id}", Needs.MANAGE)
async def offer_change(visit: Visit) -> Response:
    key = await _secret(visit)
    values = {
        "name": key.name,
        "rate_limit": key.rate_limit,
        # The last day on which it works.
        "expires_on": day(key.expires_at - 1) if key.expires_at else "",
        "networks": "\n".join(key.allowed_networks),
    }
    return visit.page(
        "key.html",
        values=values,
        fastest=usecases.FASTEST,
        key=key,
        overlap_days=OVERLAP_DAYS,
        longest_overlap=LONGEST_OVERLAP_DAYS,
    )


@pages.post("/keys/{key_id}", Needs.MANAGE, "key.changed", offer_change)
async def change(visit: Visit) -> Response:
    key, form = await _secret(visit), visit.form
    with Checks() as check:
        name = check(checked_name, form.text("name"))
        limits = _limits(visit, check, key.expires_at)
    changed = await visit.run(usecases.change_key, key.id, lambda key: replace(key, name=name, **limits), visit.now)
    visit.audit(**_told(changed))
    return await visit.to(visit.path("keys"), f"{changed.hint} is changed, from the next request on.")


@pages.confirmed("/keys/{key_id}/rotate", Needs.MANAGE, "key.rotated", offer_change)
async def rotate(visit: Visit) -> Response:
    key = await _secret(visit)
    days = visit.form.number("overlap_days", OVERLAP_DAYS, high=LONGEST_OVERLAP_DAYS)
    issued, old = await visit.run(usecases.rotate_key, key.id, visit.now, overlap_days=days)
    visit.audit(successor=issued.key.id, old_key_expires_at=old.expires_at, **_told(issued.key))
    return _once(visit, issued, old)


@pages.confirmed("/keys/{key_id}/revoke", Needs.MANAGE, "key.revoked", offer_change)
async def revoke(visit: Visit) -> Response:
    key = await _secret(visit)
    visit.audit(name=key.name)
    await visit.run(usecases.revoke_key, key.id, visit.now)
    return await visit.to(visit.path("keys"), f"{key.hint} is revoked: the next request with it is refused.")


async def _secret(visit: Visit) -> keys.ApiKey:
    key = await visit.run(usecases.load_key, visit.param("key_id"))
    if key.kind != "secret":
        raise NotFound(f"There is no secret key {key.id} in this project.", param="key_id")
    return key


def _once(visit: Visit, issued: usecases.IssuedKey, old: keys.ApiKey | None = None) -> Response:
    back = visit.path("keys")
    return visit.page("key_once.html", 201, here="keys", issued=issued, app=None, back=back, old=old)


def _end_of(form: Form) -> Ms | None:
    """The end of the last day."""
    start, zone = form.instant("expires_on"), ZONE.get()
    return start_of(as_date(start, zone).date() + timedelta(1), zone) if start is not None else None


def _limits(visit: Visit, check: Checks, known: Ms | None = None) -> dict[str, Any]:
    """`known`: when the key expires until now."""
    form = visit.form
    ends = check(_end_of, form)
    # The form has only the day: if that was not changed, neither is the time.
    if known is not None and form.text("expires_on") == day(known - 1):
        ends = known
    elif ends is not None:
        check(key_rules.checked_expiry, ends, visit.now)
    networks = check(key_rules.checked_networks, form.raw("networks").replace(",", " ").split())
    return {
        "rate_limit": check(form.number, "rate_limit", low=1, high=usecases.FASTEST),
        "expires_at": ends,
        "allowed_networks": tuple(networks or ()),
    }


def _told(key: keys.ApiKey) -> dict[str, Any]:
    """What the audit log says about a key."""
    return {
        "name": key.name,
        "rate_limit": key.rate_limit,
        "expires_at": instant(key.expires_at) if key.expires_at else None,
        "allowed_networks": list(key.allowed_networks),
        "shape": key.shape,
    }
