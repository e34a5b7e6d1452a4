"""A page: a method, a path, the permission it needs, its handler, and the visit that the handler gets."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from inspect import signature
from pathlib import Path
from shlex import quote as shell_quote
from time import monotonic
from typing import Any, Concatenate, Literal, TypeVar
from urllib.parse import parse_qsl, quote

from msgspec import Struct, field, json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response as Response  # pages know the framework by this module alone

from latchkey.dashboard.form import Form
from latchkey.dashboard.refused_form import RefusedForm
from latchkey.dashboard.templates import render
from latchkey.database.pool import Database
from latchkey.database.rows import InProject
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict, Invalid, NotFound, NotReady, Refusal
from latchkey.engine.storage.catalog.app_rows import Project
from latchkey.http.services import Services
from latchkey.settings import Settings
from latchkey.subjects.accounts.rules import Account, Membership, NotBelieved, NotKnown, Permission, Role, may
from latchkey.subjects.accounts.usecases import sessions
from latchkey.subjects.accounts.usecases.openid import ProviderAway
from latchkey.subjects.accounts.usecases.second_factor import WrongCode
from latchkey.subjects.charts.usecases import Reading

ROOT = "/dashboard"
JSON = "-H 'Content-Type: application/json'"

Item = TypeVar("Item")


class Visit(InProject, Struct):
    request: Request
    services: Services
    settings: Settings
    now: Ms
    address: str
    session: sessions.Session | None = None
    # For pages of a project; the guard has checked the membership.
    project: Project | None = None
    # Pages that the menu folds away, because the project has nothing for them yet.
    unused: frozenset[str] = frozenset()
    # All projects of the account, for the project switcher.
    places: list[Membership] = field(default_factory=list)
    form: Form = field(default_factory=lambda: Form([]))
    # Why the form was refused that is shown again.
    refusal: Refusal | None = None
    # The same of a query, and its fields that are left out because they are wrong.
    wrong_query: Refusal | None = None
    left_out: set[str | None] = field(default_factory=set)
    # What no field of the page is about.
    unplaced: list[Refusal] = field(default_factory=list)
    # What the audit entry says, besides who and when.
    subject: str = ""
    # The account that a sign-in is about, and the address that was tried; nobody is signed in before it succeeds.
    concerned: Account | None = None
    actor: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=monotonic)

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def charts(self) -> Reading:
        return Reading(self.services.charts, self.began)

    @property
    def account(self) -> Account:
        assert self.session is not None, "the guard lets nobody in here who is not signed in"
        return self.session.account

    @property
    def project_id(self) -> str:
        assert self.project is not None, "the guard has loaded the project of every page below one"
        return self.project.id

    @property
    def role(self) -> Role | None:
        return self.session.role if self.session else None

    def may(self, permission: str) -> bool:
        return self.role is not None and may(self.role, Permission(permission))

    def param(self, name: str) -> str:
        """A parameter of the path, decoded."""
        value: str = self.request.path_params[name]
        return value

    @property
    def query(self) -> Form:
        """The query string, parsed like a form."""
        return self._asked.without(self.left_out)

    @property
    def _asked(self) -> Form:
        return Form(parse_qsl(self.request.url.query, keep_blank_values=True))

    def path(self, *pieces: str, **query: object) -> str:
        """A URL below the project: `visit.path("customers", id, tab="events")`."""
        start = f"{ROOT}/projects/{quote(self.project_id, safe='')}" if self.project else ROOT
        return address(start, pieces, query)

    @property
    def after(self) -> str | None:
        """What the asked page of a list starts after."""
        return self.query.text("after") or None

    def paged(
        self, found: Sequence[Item], most: int, *pieces: str, name: str = "id", cursor: str = "after", **query: object
    ) -> tuple[Sequence[Item], str | None]:
        """The items of a page, and the URL of the next one. The query asked for one more than `most`."""
        if len(found) <= most:
            return found, None
        return found[:most], self.path(*pieces, **query, **{cursor: getattr(found[most - 1], name)})

    def audit(self, subject: str = "", **detail: Any) -> None:
        """Sets what the audit entry says. Never a secret."""
        if subject:
            self.subject = subject
        self.detail.update(detail)

    def page(self, template: str, status: int | None = None, **values: Any) -> Response:
        refusal = self.refusal or self.wrong_query
        wait = {}
        if isinstance(refusal, sessions.TooManyGuesses):
            wait["retry-after"] = str(-(-refusal.retry_after // 1000))
        if status is None or self.wrong_query or wait:
            status = status_of(refusal)[0] if refusal else 200
        refusals = refusal.all if refusal else ()
        shown = {
            "visit": self,
            "session": self.session,
            "project": self.project,
            "places": self.places,
            "notice": self.session.notice if self.session else None,
            "may": self.may,
            "path": self.path,
            "now": self.now,
            **values,
            "error": values.get("error") or "\n".join(one.message for one in refusals),
        }
        html = render(template, shown)
        if refusals:
            sent = self.form if self.request.method == "POST" else self._asked
            again = RefusedForm(html, self.request.method, self.request.url.path, sent, refusals)
            html, self.unplaced = again.html, again.unplaced
        return HTMLResponse(html, status, wait)

    def curl(self, path: str, body: dict[str, Any] | None = None) -> str:
        """A command to copy, with our address but never a key: a V2 API call below the project, or to another path of
        this service if it begins with a slash."""
        lines = self.curl_call(path)
        if body is not None:
            lines += [JSON, f"-d {shell_quote(json.encode(body).decode())}"]
        return " \\\n  ".join(lines)

    def curl_call(self, path: str) -> list[str]:
        host = self.request.headers.get("host", "localhost")
        below = path if path.startswith("/") else f"/v2/projects/{quote(self.project_id, safe='')}/{path}"
        authority = _local_authority(self.settings.tls_cert)
        trust = f"--cacert {shell_quote(str(authority))} " if authority is not None else ""
        return [f"curl {trust}{shell_quote(f'https://{host}{below}')}", '-H "Authorization: Bearer $LATCHKEY_KEY"']

    async def to(self, path: str, notice: str | None = None, kind: str = "done") -> Response:
        """Redirects (303); the next page shows `notice`."""
        if notice is not None and self.session is not None:
            await sessions.leave_notice(self.database, self.session, notice, kind)
        return RedirectResponse(path, 303)


@cache
def _local_authority(cert: Path | None) -> Path | None:
    """`latchkey up` keeps its authority beside the certificate; curl has to be told of it."""
    authority = cert.absolute().with_name("authority.pem") if cert is not None else None
    return authority if authority is not None and authority.is_file() else None


def address(start: str, pieces: tuple[str, ...], query: Mapping[str, object]) -> str:
    path = "/".join((start, *(quote(str(piece), safe="") for piece in pieces)))
    said = [
        f"{quote(name)}={quote(str(value), safe='')}"
        for name, value in query.items()
        if value is not None and value != ""
    ]
    return path + ("?" + "&".join(said) if said else "")


Answer = Callable[[Visit], Awaitable[Response]]
# A handler of a page. Its other parameters are those of the path with the same names.
AnyHandler = Callable[Concatenate[Visit, ...], Awaitable[Response]]
Handler = TypeVar("Handler", bound=AnyHandler)
PROJECT = "/projects/{project_id}"


class Needs(StrEnum):
    # Anybody: sign-in, style sheet.
    NOTHING = "nothing"
    # A signed-in account, whatever its projects.
    ACCOUNT = "account"
    # An operator of the whole deployment, whatever its projects.
    OPERATE = "operate"
    # A member of the path's project whose role has the permission.
    READ = Permission.READ
    GRANT = Permission.GRANT
    MANAGE = Permission.MANAGE
    OWN = Permission.OWN


# Their paths are not below a project.
_OUTSIDE = frozenset({Needs.NOTHING, Needs.ACCOUNT, Needs.OPERATE})


class Page(Struct, frozen=True):
    method: Literal["GET", "POST"]
    path: str
    needs: Needs
    answer: Answer
    # Its name in the audit log; every page that changes something has one.
    action: str | None = None
    # What shows the form again if it is refused.
    again: Answer | None = None
    # Whether the form needs the confirmation box, so that nothing irreversible happens by accident.
    confirms: bool = False
    # Whether its path has a secret of ours, so that any site may post to it, in any form: mail programs do.
    one_click: bool = False

    @property
    def in_project(self) -> bool:
        return self.needs not in _OUTSIDE


# What pages do, as the audit log names it, and the permission that it needs: of several, the highest.
ACTIONS: dict[str, Needs] = {}


class Pages:
    """The pages of one module. Paths are below the project, unless a page does not need a member."""

    def __init__(self, root: str = ROOT) -> None:
        self._root = root
        self.all: list[Page] = []

    def get(self, path: str, needs: Needs = Needs.READ, **declared: Any) -> Callable[[Handler], Handler]:
        """With an action: a link that changes something, such as the way back from an OpenID provider."""
        return self._page("GET", path, needs, **declared)

    def post(
        self, path: str, needs: Needs, action: str, again: AnyHandler | None = None, **declared: bool
    ) -> Callable[[Handler], Handler]:
        """If the form is refused, `again` shows it with the reason (`error`) and what was typed."""
        ACTIONS[action] = max(needs, ACTIONS.get(action, needs), key=list(Needs).index)
        return self._page("POST", path, needs, again, action=action, **declared)

    def confirmed(
        self, path: str, needs: Needs, action: str, again: AnyHandler | None = None
    ) -> Callable[[Handler], Handler]:
        """The same for a form with the confirmation box."""
        return self.post(path, needs, action, again, confirms=True)

    def _page(
        self, method: Literal["GET", "POST"], path: str, needs: Needs, again: AnyHandler | None = None, **declared: Any
    ) -> Callable[[Handler], Handler]:
        place = self._root + ("" if needs in _OUTSIDE else PROJECT) + path
        declared["again"] = _answer(again) if again is not None else None

        def add(handler: Handler) -> Handler:
            self.all.append(Page(method, place, needs, _answer(handler), **declared))
            return handler

        return add


# Of each status the refusals that have it.
_STATUSES: dict[int, tuple[type[Refusal], ...]] = {
    429: (sessions.TooManyGuesses,),
    401: (sessions.WrongCredentials, WrongCode, NotBelieved),
    403: (NotKnown,),
    502: (ProviderAway,),
    400: (Invalid,),
    404: (NotFound,),
    409: (Conflict,),
    503: (NotReady,),
}


def _answer(handler: AnyHandler) -> Answer:
    names = list(signature(handler).parameters)[1:]
    return lambda visit: handler(visit, **{name: visit.param(name) for name in names})


def status_of(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    assert isinstance(error, Refusal)
    return next((status for status, kinds in _STATUSES.items() if isinstance(error, kinds)), 422), error.message
