"""A page: a method, a path, the permission it needs, and its handler.

Every page declares what it needs. All requests pass `guard.py`, and a test checks every page, so that none can be
forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from starlette.responses import Response

from latchkey.dashboard.visit import ROOT, Visit
from latchkey.domain.team.account import Permission

Answer = Callable[[Visit], Awaitable[Response]]
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


@dataclass(frozen=True, slots=True)
class Page:
    method: Literal["GET", "POST"]
    path: str
    needs: Needs
    answer: Answer
    # Its name in the audit log; every page that changes something has one.
    action: str | None = None

    @property
    def in_project(self) -> bool:
        return self.needs not in _OUTSIDE


class Pages:
    """The pages of one module. Paths are below the project, unless a page does not need a member."""

    def __init__(self) -> None:
        self.all: list[Page] = []

    def get(self, path: str, needs: Needs = Needs.READ) -> Callable[[Answer], Answer]:
        return self._add("GET", path, needs, None)

    def post(self, path: str, needs: Needs, action: str) -> Callable[[Answer], Answer]:
        return self._add("POST", path, needs, action)

    def _add(
        self, method: Literal["GET", "POST"], path: str, needs: Needs, action: str | None
    ) -> Callable[[Answer], Answer]:
        below = ROOT + path if needs in _OUTSIDE else ROOT + PROJECT + path

        def add(answer: Answer) -> Answer:
            self.all.append(Page(method, below, needs, answer, action))
            return answer

        return add
