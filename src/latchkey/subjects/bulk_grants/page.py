"""Granting access to many customers: from a list or from pasted ids, with a preview before anything happens."""

from latchkey.dashboard.customer_filter import read_chosen
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.customers.promotion import DURATIONS, in_words
from latchkey.domain.formats import instant
from latchkey.subjects.bulk_grants import usecases
from latchkey.subjects.bulk_grants.rules import GrantTerms
from latchkey.subjects.catalog.usecases.entitlement_catalog import list_entitlements
from latchkey.subjects.segments.usecases.customer_lists import count

pages = Pages()

# The most entitlements in a select field.
CHOICES = 500


@pages.get("/bulk-grants")
async def show_list(visit: Visit) -> Response:
    newest = await visit.run(usecases.list_grants, None, usecases.LISTED, True)
    return visit.page("bulk_grants.html", grants=newest)


@pages.get("/bulk-grants/new", Needs.GRANT)
async def show_form(visit: Visit) -> Response:
    chosen = await read_chosen(visit, visit.form if visit.refusal else visit.query)
    found = await visit.run(list_entitlements, limit=CHOICES)
    return visit.page(
        "bulk_grant_new.html",
        chosen=chosen,
        counted=await visit.run(count, chosen.filter, visit.now),
        entitlements=[(entitlement.id, f"{entitlement.display_name} ({entitlement.id})") for entitlement in found],
        durations=tuple(DURATIONS),
        most=usecases.MOST_CUSTOMERS,
    )


@pages.post("/bulk-grants", Needs.GRANT, "bulk_grant.prepared", show_form)
async def prepare(visit: Visit) -> Response:
    """The preview. Nobody gets anything yet."""
    chosen = await read_chosen(visit, visit.form)
    pasted = visit.form.raw("ids")
    by_filter = visit.form.text("of") == "list"
    terms = _terms(visit)
    visit.audit(entitlement=terms.entitlement_id)
    wanted = chosen.filter if by_filter else [line.strip() for line in pasted.splitlines() if line.strip()]
    made = await usecases.draft(
        visit.database, visit.services.catalogs, visit.project_id, terms, wanted, visit.account.email, visit.now
    )
    visit.audit(made.id)
    return await visit.to(visit.path("bulk-grants", made.id))


@pages.get("/bulk-grants/{bulk_grant_id}")
async def show(visit: Visit, bulk_grant_id: str) -> Response:
    grant, failed = await visit.run(usecases.load_with_failures, bulk_grant_id)
    length = in_words(grant.duration) if grant.duration else None
    return visit.page("bulk_grant.html", grant=grant, length=length, failures=failed, most=usecases.MOST_SHOWN)


@pages.confirmed("/bulk-grants/{bulk_grant_id}/start", Needs.GRANT, "bulk_grant.started")
async def start(visit: Visit, bulk_grant_id: str) -> Response:
    grant = await visit.run(usecases.load, bulk_grant_id)
    until = instant(grant.ends_at) if grant.ends_at is not None else grant.duration or "for ever"
    visit.audit(entitlement=grant.entitlement_id, customers=grant.total, until=until)
    await visit.run(usecases.start, bulk_grant_id, visit.now)
    return await visit.to(visit.path("bulk-grants", bulk_grant_id), "The grant was started. You can leave this page.")


@pages.confirmed("/bulk-grants/{bulk_grant_id}/stop", Needs.GRANT, "bulk_grant.stopped")
async def stop(visit: Visit, bulk_grant_id: str) -> Response:
    await visit.run(usecases.stop, bulk_grant_id, visit.now)
    return await visit.to(visit.path("bulk-grants", bulk_grant_id), "Stopped. Customers who got it before keep it.")


def _terms(visit: Visit) -> GrantTerms:
    until = visit.form.instant("until")
    duration = None if until is not None else visit.form.choice("duration", DURATIONS)
    return GrantTerms(
        entitlement_id=visit.form.needed("entitlement_id"),
        duration=None if duration == "lifetime" else duration,
        ends_at=until,
        skip_holders=visit.form.ticked("skip_holders"),
    )
