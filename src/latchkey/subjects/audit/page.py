"""The audit log: who changed what in the project, and sign-ins of its members."""

from latchkey.dashboard.page import ACTIONS, Pages, Response, Visit
from latchkey.domain.refusal import found
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.audit import usecases

pages = Pages()

ON_A_PAGE = 50
# Actions that only the command line or the API does, so no page declares them.
_ELSEWHERE = """
    config.applied app.changed account.invited account.second_factor_reset customer.attributes_set customer.cancelled
    customer.created customer.offering_assigned customer.offering_cleared export.run entitlement.products_attached
    entitlement.products_detached product.price_deleted product.price_set project.created purchase.fed
"""
# The largest possible position.
MOST = 2**63 - 1


@pages.get("/audit")
async def show_log(visit: Visit) -> Response:
    query = visit.query
    actor, action = query.text("actor")[:300] or None, query.text("action")[:100] or None
    before = query.number("before", 0, low=0, high=MOST) or None
    listed = await visit.run(usecases.entries, before=before, actor=actor, action=action, limit=ON_A_PAGE + 1)
    kept = {"actor": actor, "action": action}
    entries, older = visit.paged(listed, ON_A_PAGE, "audit", name="position", cursor="before", **kept)
    return visit.page(
        "audit.html",
        entries=entries,
        older=older,
        first=before is None,
        actor=actor or "",
        action=action or "",
        actions=actions(),
        people=[member.account.email for member in await visit.run(team.members)],
        keys=[api_keys.actor_of(key) for key in await visit.run(api_keys.list_keys, kind="secret")],
    )


@pages.get("/audit/{position}")
async def show_entry(visit: Visit, position: str) -> Response:
    number = int(position) if position.isascii() and position.isdigit() and len(position) < 20 else 0
    entry = await visit.run(usecases.entry, min(number, MOST))
    return visit.page("audit_entry.html", entry=found(entry, "There is no such entry.", "position"))


def actions() -> list[str]:
    """All actions that can be in the log, from the declarations of the pages."""
    return sorted(ACTIONS.keys() | set(_ELSEWHERE.split()))
