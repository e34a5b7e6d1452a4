"""What the console of `/docs` asks for: who is signed in, and the reply to a request. Both as JSON."""

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from latchkey.dashboard.guard import require_own_page
from latchkey.dashboard.page import ACTIONS, Needs, Pages, Response, Visit
from latchkey.domain.instants import MINUTE
from latchkey.engine.admission import Caller
from latchkey.http.errors import ApiError, TooManyRequests
from latchkey.http.exchange import CALLER_KEY, segments_of
from latchkey.http.inner_request import Captured, inner_request
from latchkey.http.routing import reply
from latchkey.subjects.accounts.rules import Permission
from latchkey.subjects.api_keys.usecases import FASTEST, RATE_LIMIT
from latchkey.subjects.console.rules import needed, scopes

pages = Pages()

METHODS = ("POST", "PUT", "PATCH", "DELETE")
_SHOWN = frozenset({"content-type", "x-request-id", "retry-after", "location"})


@pages.get("/console", Needs.ACCOUNT)
async def show_session(visit: Visit) -> Response:
    """The form's token is no secret from this page; other sites can read neither."""
    require_own_page(visit.request)
    assert visit.session is not None
    projects = [{"id": place.project_id, "name": place.name, "role": place.role} for place in visit.places]
    return reply({"email": visit.account.email, "csrf": visit.session.csrf, "projects": projects})


@pages.get("/console")
async def send_read(visit: Visit) -> Response:
    if not (target := visit.query.text("target")):
        return await visit.to(f"/docs?project={visit.project_id}")
    require_own_page(visit.request)
    return await _send(visit, "GET", target)


@pages.post("/console", Needs.GRANT, "console.used", confirms=True)
async def send_write(visit: Visit) -> Response:
    method = visit.form.choice("method", METHODS)
    return await _send(visit, method, visit.form.text("target"), visit.form.raw("body").encode())


async def _send(visit: Visit, method: str, target: str, body: bytes = b"") -> Response:
    assert visit.role is not None
    if visit.services.console_requests.count(visit.account.id, visit.now) > RATE_LIMIT:
        raise TooManyRequests(MINUTE - visit.now % MINUTE, "You have used up your requests for now.")
    route = _route(visit, method, target)
    grants = {action for action, needs in ACTIONS.items() if needs is Needs.GRANT}
    permission = needed(method, route.path, getattr(route.endpoint, "audited_as", None), grants)
    visit.audit(route.path, request=f"{method} {route.path}")
    if not visit.may(permission):
        raise HTTPException(403, f"Your role here, {visit.role}, does not allow this. Ask an owner of the project.")
    caller = Caller(
        key_id=visit.account.id,
        project_id=visit.project_id,
        app_id=None,
        store=None,
        is_public=False,
        scopes=scopes(permission, manages=visit.may(Permission.MANAGE)),
        rate_limit=FASTEST,
        rate_used=None,
        email=visit.account.email,
    )
    made = inner_request(visit.request.scope, method, target, {"content-type": "application/json"} if body else {})
    captured = Captured(body)
    await visit.services.application({**made, CALLER_KEY: caller}, captured.receive, captured.send)
    visit.audit(status=captured.status)
    headers = {name.decode(): value.decode("latin-1") for name, value in captured.headers}
    shown = {name: value for name, value in headers.items() if name in _SHOWN}
    return reply({"status": captured.status, "headers": shown, "body": captured.body.decode(errors="replace")})


def _route(visit: Visit, method: str, target: str) -> APIRoute:
    """The operation that would answer, as the application finds it."""
    path = target.partition("?")[0]
    try:
        segments = segments_of(path.encode()) if path.startswith("/") and target.isascii() else [""]
    except ApiError as error:
        raise HTTPException(400, error.message) from None
    scope = {"type": "http", "method": method, "path": "/" + "/".join(segments)}
    for route in visit.services.application.app.routes:
        if isinstance(route, APIRoute) and route.matches(scope)[0] is Match.FULL:
            if route.include_in_schema and route.path.startswith(("/v1/", "/v2/", "/rcbilling/")):
                return route
            break
    raise HTTPException(404, "There is no such operation.")
