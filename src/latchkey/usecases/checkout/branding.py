"""How the checkout of an app looks, as far as the app's details say it."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.storage.database import Database
from latchkey.usecases.access.projects import load_app


@dataclass(frozen=True, slots=True)
class Branding:
    app_id: str
    app_name: str
    support_email: str | None


async def branding_of(database: Database, project_id: str, app_id: str) -> Branding:
    app = await load_app(database, project_id, app_id)
    return Branding(app.id, app.details.get("app_name") or app.name, app.details.get("support_email"))
