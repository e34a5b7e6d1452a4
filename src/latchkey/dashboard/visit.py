"""One request to one page: account, project, input, and the methods to respond."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from latchkey.dashboard.form import Form
from latchkey.dashboard.templates import render
from latchkey.domain.instants import Ms
from latchkey.domain.team.account import Permission, Role, may
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.usecases.access import sessions
from latchkey.usecases.access.accounts import Account
from latchkey.usecases.access.projects import Project
from latchkey.usecases.access.sessions import Session
from latchkey.usecases.access.team import Membership
from latchkey.usecases.services import Services

ROOT = "/dashboard"


@dataclass(slots=True)
class Visit:
    request: Request
    services: Services
    settings: Settings
    now: Ms
    address: str
    session: Session | None = None
    # For pages of a project; the guard has checked the membership.
    project: Project | None = None
    # All projects of the account, for the project switcher.
    places: list[Membership] = field(default_factory=list)
    form: Form = field(default_factory=lambda: Form([]))
    # What the audit entry says, besides who and when.
    subject: str = ""
    # The account that a sign-in is about, and the address that was tried; nobody is signed in before it succeeds.
    concerned: Account | None = None
    actor: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def database(self) -> Database:
        return self.services.database

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
        return Form(parse_qsl(self.request.url.query, keep_blank_values=True))

    def path(self, *pieces: str, **query: object) -> str:
        """A URL below the project: `visit.path("customers", id, tab="events")`."""
        start = f"{ROOT}/projects/{quote(self.project_id, safe='')}" if self.project else ROOT
        return address(start, pieces, query)

    def audit(self, subject: str = "", **detail: Any) -> None:
        """Sets what the audit entry says. Never a secret."""
        if subject:
            self.subject = subject
        self.detail.update(detail)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
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
        }
        return HTMLResponse(render(template, shown), status)

    async def to(self, path: str, notice: str | None = None, kind: str = "done") -> Response:
        """Redirects (303); the next page shows `notice`."""
        if notice is not None and self.session is not None:
            await sessions.leave_notice(self.database, self.session, notice, kind)
        return RedirectResponse(path, 303)


def address(start: str, pieces: tuple[str, ...], query: Mapping[str, object]) -> str:
    path = "/".join((start, *(quote(str(piece), safe="") for piece in pieces)))
    said = [
        f"{quote(name)}={quote(str(value), safe='')}"
        for name, value in query.items()
        if value is not None and value != ""
    ]
    return path + ("?" + "&".join(said) if said else "")
