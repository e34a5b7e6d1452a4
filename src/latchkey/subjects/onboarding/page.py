"""What the overview begins with in a new project: the first steps; and in the demo, what is made up."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.subjects.demo.usecases.project import PROJECT_ID, has_history
from latchkey.subjects.onboarding.usecases import checklist, dismiss

pages = Pages()

# By step: what to do, why, and the page for it.
STEPS = (
    ("store", "Connect a store", "The App Store, Google Play or Stripe notify Latchkey of purchases.", ("apps",)),
    ("product", "Create a product", "What you sell, and the entitlement that it grants.", ("catalog", "products")),
    ("test_event", "Send a test event", "To a webhook of your server. You see its reply at once.", ("webhooks",)),
    ("delivery", "See a delivery", "Of a real event, for example of a purchase in the test store.", ("webhooks",)),
)


async def welcome(visit: Visit) -> dict[str, Any]:
    """Values for `welcome.html`."""
    left = await checklist(visit.database, visit.project_id) if visit.may("manage") else None
    return {
        "checklist": left,
        "first_steps": STEPS if left is not None else (),
        "made_up": visit.project_id == PROJECT_ID and await has_history(visit.database, PROJECT_ID),
    }


@pages.post("/first-steps/dismiss", Needs.MANAGE, "onboarding.dismissed")
async def dismiss_first_steps(visit: Visit) -> Response:
    await dismiss(visit.database, visit.project_id, visit.now)
    return await visit.to(visit.path(), "The first steps are no longer shown in this project.")
