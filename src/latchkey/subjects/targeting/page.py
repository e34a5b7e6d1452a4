"""The pages of targeting: the rules in their order with how many customers each reaches, why one customer sees what,
and the form of a rule."""

from typing import Any

from latchkey.dashboard.customer_filter import STATUSES
from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.catalog import TargetingRule
from latchkey.domain.refusal import NotFound
from latchkey.subjects.catalog.usecases.entitlement_catalog import list_entitlements
from latchkey.subjects.offerings import usecases as offerings
from latchkey.subjects.segments.rules.filter import AUDIENCE_NAMES
from latchkey.subjects.segments.usecases.customer_lists import in_words
from latchkey.subjects.targeting import usecases
from latchkey.subjects.targeting.rules import audience_of

pages = Pages()


@pages.get("/catalog/targeting")
async def list_rules(visit: Visit) -> Response:
    preview = await usecases.preview(visit.services.changes, visit.project_id, visit.now)
    who, reason, unknown = visit.query.text("customer"), None, ""
    if who:
        try:
            reason = await usecases.explain(visit.services.changes, visit.project_id, who, visit.now)
        except NotFound as missing:
            unknown = missing.message
    return visit.page(
        "targeting.html",
        404 if unknown else None,
        rules=await visit.run(usecases.list_rules),
        preview=preview,
        counts={one.rule_id: one.customers for one in preview.rules},
        words=lambda rule: in_words(audience_of(rule)),
        offerings=await _offerings(visit),
        who=who,
        reason=reason,
        unknown=unknown,
    )


@pages.get("/catalog/new-targeting-rule", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return await _form(visit, None)


@pages.post("/catalog/new-targeting-rule", Needs.MANAGE, "targeting_rule.created", offer_new)
async def create(visit: Visit) -> Response:
    fields = _fields(visit.form)
    visit.audit(fields["name"], **fields)
    made = await visit.run(usecases.create_rule, **fields, now=visit.now)
    visit.audit(made.id)
    return await visit.to(visit.path("catalog", "targeting"), f"The rule is number {made.position}.")


@pages.get("/catalog/targeting/{rule_id}")
async def show_rule(visit: Visit, rule_id: str) -> Response:
    return await _form(visit, await visit.run(usecases.load_rule, rule_id))


@pages.post("/catalog/targeting/{rule_id}", Needs.MANAGE, "targeting_rule.updated", show_rule)
async def update(visit: Visit, rule_id: str) -> Response:
    fields = _fields(visit.form)
    visit.audit(**fields)
    await visit.run(usecases.update_rule, rule_id, **fields)
    return await visit.to(visit.path("catalog", "targeting"), "Saved.")


@pages.post("/catalog/targeting/{rule_id}/move", Needs.MANAGE, "targeting_rule.updated", list_rules)
async def move(visit: Visit, rule_id: str) -> Response:
    position = visit.form.number("position", low=1, high=usecases.MOST_RULES)
    visit.audit(position=position)
    moved = await visit.run(usecases.update_rule, rule_id, position=position)
    return await visit.to(visit.path("catalog", "targeting"), f"{moved.name} is number {moved.position} now.")


@pages.post("/catalog/targeting/{rule_id}/switch", Needs.MANAGE, "targeting_rule.updated", list_rules)
async def switch(visit: Visit, rule_id: str) -> Response:
    is_active = visit.form.choice("is_active", ("yes", "no")) == "yes"
    visit.audit(is_active=is_active)
    changed = await visit.run(usecases.update_rule, rule_id, is_active=is_active)
    said = "is switched on." if is_active else "is switched off. Its customers see something else at once."
    return await visit.to(visit.path("catalog", "targeting"), f"{changed.name} {said}")


@pages.confirmed("/catalog/targeting/{rule_id}/delete", Needs.MANAGE, "targeting_rule.deleted", show_rule)
async def delete(visit: Visit, rule_id: str) -> Response:
    await visit.run(usecases.delete_rule, rule_id)
    return await visit.to(visit.path("catalog", "targeting"), "The rule is deleted.")


def _fields(form: Form) -> dict[str, Any]:
    texts = {name: ",".join(form.all(name)) for name in AUDIENCE_NAMES}
    return {
        "name": form.text("name"),
        "offering_id": form.text("offering_id"),
        "conditions": {name: text for name, text in texts.items() if text},
        "is_active": form.ticked("is_active"),
    }


async def _form(visit: Visit, rule: TargetingRule | None) -> Response:
    values: dict[str, str] = {"is_active": "yes"}
    if rule is not None:
        values = {"name": rule.name, "offering_id": rule.offering_id, **rule.conditions}
        values |= {"is_active": "yes"} if rule.is_active else {}
    entitlements = await visit.run(list_entitlements, limit=None)
    return visit.page(
        "targeting_rule.html",
        rule=rule,
        words=in_words(audience_of(rule)) if rule is not None else "",
        values=values,
        statuses=STATUSES,
        chosen=values.get("status", "").split(","),
        choices=[(id, key) for id, key in (await _offerings(visit)).items()],
        entitlements=[("", "Does not matter"), *((one.id, one.display_name) for one in entitlements)],
    )


async def _offerings(visit: Visit) -> dict[str, str]:
    known = await visit.run(offerings.list_offerings, limit=offerings.MOST_OFFERINGS)
    return {offering.id: offering.lookup_key for offering in known}
