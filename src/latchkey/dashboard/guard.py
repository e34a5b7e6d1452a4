"""Every request passes here: session, permission, origin of the form; and every change is written to the audit log."""

import hmac
from collections.abc import Awaitable, Callable
from datetime import UTC
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from latchkey.dashboard import cookie, texts
from latchkey.dashboard.form import Form
from latchkey.dashboard.page import ROOT, Needs, Page, Visit, address
from latchkey.domain.refusal import Refusal
from latchkey.domain.time_zones import zone_of
from latchkey.http.audited import named_by
from latchkey.http.exchange import SCOPE_KEY, Exchange
from latchkey.http.services import Services
from latchkey.settings import Settings
from latchkey.subjects.accounts.usecases import sessions, team
from latchkey.subjects.audit import rules as audit_rules
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.onboarding.usecases import unused_parts
from latchkey.subjects.projects.usecases import load_project

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 10_000
SET_UP = f"{ROOT}/account/second-factor"
# What somebody may do who must have a second factor and has none yet.
WITHOUT_SECOND_FACTOR = (SET_UP, f"{ROOT}/sign-out")

Endpoint = Callable[[Request], Awaitable[Response]]


class Guard:
    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings

    def route(self, page: Page) -> Route:
        async def endpoint(request: Request) -> Response:
            request.scope["route"] = page  # the access log names it
            return await self._admit(page, request)

        return Route(page.path, endpoint, methods=[page.method])

    def visit(self, request: Request) -> Visit:
        texts.ZONE.set(UTC)
        exchange: Exchange = request.scope[SCOPE_KEY]
        address = exchange.address(behind_proxy=self._settings.behind_proxy)
        return Visit(request, self._services, self._settings, self._services.now(), address)

    async def visit_in_project(self, request: Request) -> Visit:
        """For a page about an error: in the project of its path, if the visitor belongs to it."""
        visit, token = self.visit(request), request.cookies.get(cookie.SESSION)
        below, _, rest = request.scope["path"].partition(f"{ROOT}/projects/")
        if below or not rest or not token:
            return visit
        project_id = rest.split("/")[0]
        session = await sessions.find_session(visit.database, token, project_id, visit.now)
        if session is None or self._lacks_second_factor(session):
            return visit
        visit.session = session
        visit.places = await team.places(visit.database, visit.account.id)
        if visit.role is not None:
            await _enter(visit, project_id)
        return visit

    async def _admit(self, page: Page, request: Request) -> Response:
        visit = self.visit(request)
        project_id = request.path_params.get("project_id") if page.in_project else None
        token = request.cookies.get(cookie.SESSION)
        if token:
            visit.session = await sessions.find_session(visit.database, token, project_id, visit.now)
        if page.needs is not Needs.NOTHING:
            if visit.session is None:
                return sign_in_first(request)
            if self._lacks_second_factor(visit.session) and not page.path.startswith(WITHOUT_SECOND_FACTOR):
                return set_up_first(request)
            await self._let_in(page, visit, project_id)
        if page.action is not None:
            return await self._change(page, page.action, visit)
        response = await _shown(page, visit)
        await self._said(visit, response)
        return response

    def _lacks_second_factor(self, session: sessions.Session) -> bool:
        required = self._settings.require_second_factor and not session.is_openid
        return required and not session.account.has_second_factor

    async def _let_in(self, page: Page, visit: Visit, project_id: str | None) -> None:
        visit.request.scope[SCOPE_KEY].key_id = visit.account.id
        visit.places = await team.places(visit.database, visit.account.id)
        if page.needs is Needs.OPERATE and not (visit.session and visit.account.is_operator):
            raise HTTPException(
                403,
                "This page is about the whole deployment. An operator can give you access: "
                f"`latchkey user operator {visit.account.email}`.",
            )
        if not page.in_project:
            return
        if project_id is None or visit.role is None:
            # The same response for a project of others and for one that does not exist.
            raise HTTPException(404, "There is no such project, or you do not belong to it.")
        if not visit.may(page.needs):
            raise HTTPException(403, f"Your role here, {visit.role}, does not allow this. Ask an owner of the project.")
        await _enter(visit, project_id)

    async def _change(self, page: Page, action: str, visit: Visit) -> Response:
        session = visit.session
        if page.method == "POST" and not page.one_click:
            require_own_page(visit.request)
            visit.form = await read_form(visit.request)
            csrf = visit.form.raw("csrf").encode()
            if session is not None and not hmac.compare_digest(csrf, session.csrf.encode()):
                raise HTTPException(403, "This form is from another session. Go back, reload the page and try again.")
        position = await audit.begin(
            visit.database,
            project_id=visit.project.id if visit.project else None,
            account_id=session.account.id if session else None,
            actor=session.account.email if session else "somebody",
            action=action,
            now=visit.now,
            subject=named_by(visit.request.path_params),
            address=visit.address,
        )
        visit.subject = visit.subject or named_by(visit.request.path_params)
        try:
            response = await _answered(page, visit)
        except Exception as error:
            refused = isinstance(error, Refusal | HTTPException)
            if isinstance(error, Refusal):
                visit.audit(refusal=error.message)
            await self._tell(visit, position, "refused" if refused else "failed")
            raise
        await self._tell(visit, position, "done" if response.status_code < 400 else "refused")
        return response

    async def _tell(self, visit: Visit, position: int, outcome: audit_rules.Outcome) -> None:
        concerned = visit.concerned.id if visit.concerned else None
        await audit.finish(
            visit.database,
            position,
            outcome,
            visit.subject,
            visit.detail,
            account_id=concerned,
            actor=visit.actor or (visit.concerned.email if visit.concerned else None),
        )

    async def _said(self, visit: Visit, response: Response) -> None:
        """Clears a notice after the first full page that showed it."""
        html = response.headers.get("content-type", "").startswith("text/html")
        if visit.session is not None and visit.session.notice is not None and html:
            await sessions.leave_notice(visit.database, visit.session, None)


async def _enter(visit: Visit, project_id: str) -> None:
    visit.project = await load_project(visit.database, project_id)
    visit.unused = await unused_parts(visit.database, project_id)
    texts.ZONE.set(zone_of(visit.project.time_zone))


async def _shown(page: Page, visit: Visit) -> Response:
    """A filter that cannot be used is left out, and its field says why. Without such a field it is an error."""
    while True:
        try:
            response = await page.answer(visit)
        except Refusal as refusal:
            wrong = {one.param for one in refusal.all if one.param in visit.query}
            if not wrong:
                raise (visit.wrong_query or refusal) from None
            if visit.wrong_query is None:
                visit.wrong_query = refusal
            else:
                visit.wrong_query.others += refusal.all
            visit.left_out |= wrong
            visit.unplaced = list(visit.wrong_query.all)
        else:
            if visit.wrong_query is not None and visit.unplaced:
                raise visit.wrong_query
            return response


async def _answered(page: Page, visit: Visit) -> Response:
    """A form that is refused is shown again, with the reason."""
    try:
        visit.form.require_storable()
        if page.confirms:
            visit.form.confirmed()
        return await page.answer(visit)
    except Refusal as refusal:
        if page.again is None:
            raise
        visit.audit(refusal=refusal.message)
        visit.refusal = refusal
    return await page.again(visit)


def sign_in_first(request: Request) -> Response:
    if request.method != "GET":
        raise HTTPException(401, "You are signed out. Sign in and try again.")
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(address(ROOT, ("sign-in",), {"next": wanted if wanted != ROOT else None}), 303)


def set_up_first(request: Request) -> Response:
    if request.method != "GET":
        raise HTTPException(403, "Set up your second factor first.")
    return RedirectResponse(SET_UP, 303)


def require_own_page(request: Request) -> None:
    """Browsers send the origin of a form. A form from another site is refused before it is read."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host")
    if foreign or site not in {"same-origin", "none"}:
        raise HTTPException(403, "This form came from another site.")


async def read_form(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415, "A form is expected here.")
    try:
        text = (await request.body()).decode()
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "This form cannot be read.") from None
    return Form(fields)
