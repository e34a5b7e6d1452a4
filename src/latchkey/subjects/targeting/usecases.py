"""Targeting rules: changed, applied to one customer, and previewed."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from latchkey.database.pool import Connection, Database
from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import TargetingRule
from latchkey.domain.customers.customer import LastSeen, merged_visits, newcomer, own_now, visible
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Checks, found
from latchkey.engine.changes import Changes
from latchkey.engine.due_transitions import at_present
from latchkey.engine.storage import state
from latchkey.engine.storage.catalog import offering_rows
from latchkey.engine.storage.catalog.catalogs import OfferingChoice, load_offering_choice, load_offering_choices
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS, TARGETING_RULES
from latchkey.engine.storage.catalog.product_rows import ENTITLEMENTS
from latchkey.subjects.catalog.usecases.version import changing_catalog, load_catalog
from latchkey.subjects.offerings.rules import ChosenBy, choices, placed
from latchkey.subjects.segments.rules.facets import facets_of
from latchkey.subjects.segments.rules.filter import EVERYBODY
from latchkey.subjects.segments.rules.matching import Viewer, unmet
from latchkey.subjects.segments.usecases.customer_lists import conditions, list_page
from latchkey.subjects.targeting import wire
from latchkey.subjects.targeting.rules import audience_of, checked_conditions, first_match
from latchkey.wire.attributes import from_attributes

# Every read of offerings goes through them.
MOST_RULES = 100
# Customers of a preview: those who were seen last. Others wait while a piece of them is looked at.
SAMPLED, AT_ONCE = 1_000, 100

load_rule = TARGETING_RULES.get
list_rules = TARGETING_RULES.load_page


async def create_rule(
    database: Database,
    project_id: str,
    id: str | None = None,
    name: str | None = None,
    *,
    offering_id: str,
    conditions: Mapping[str, str] | None = None,
    is_active: bool = True,
    position: int | None = None,
    now: Ms,
) -> TargetingRule:
    """At the position, or at the end. Without conditions it is for everybody."""
    with Checks() as check:
        id = check(checked_id, id if id is not None else f"tgtr_{secrets.token_hex(8)}")
        made = TargetingRule(
            id=id,
            name=check(checked_name, id if name is None else name),
            offering_id=offering_id,
            conditions=check(checked_conditions, conditions or {}),
            is_active=is_active,
            position=MOST_RULES,
            created_at=now,
        )
    async with changing_catalog(database, project_id) as connection:
        await TARGETING_RULES.require_room(connection, project_id, MOST_RULES)
        await _require_known(connection, project_id, made)
        TARGETING_RULES.require_new(await offering_rows.create_rule(connection, project_id, made), id)
        await _order(connection, project_id, id, position or MOST_RULES)
        return await load_rule(connection, project_id, id)


async def update_rule(
    database: Database, project_id: str, /, rule_id: str, *, position: int | None = None, **changes: Any
) -> TargetingRule:
    """Changes the fields that are given; `conditions` are replaced as a whole. The revision grows if others may match,
    or see something else."""
    async with changing_catalog(database, project_id) as connection:
        before = await load_rule(connection, project_id, rule_id)
        with Checks() as check:
            for field, checked in (("name", checked_name), ("conditions", checked_conditions)):
                if field in changes:
                    changes[field] = check(checked, changes[field])
        changed = replace(before, **changes)
        await _require_known(connection, project_id, changed)
        if replace(changed, name=before.name) != before:
            changed = replace(changed, revision=before.revision + 1)
        await offering_rows.update_rule(connection, project_id, changed)
        if position is not None:
            await _order(connection, project_id, rule_id, position)
        return await load_rule(connection, project_id, rule_id)


async def delete_rule(database: Database, project_id: str, rule_id: str) -> None:
    """Its customers see what the next rule that matches shows, or the current offering."""
    async with changing_catalog(database, project_id) as connection:
        await load_rule(connection, project_id, rule_id)
        await offering_rows.delete_rule(connection, project_id, rule_id)
        await _order(connection, project_id)


async def _require_known(connection: Connection, project_id: str, rule: TargetingRule) -> None:
    """What a rule names is of this project: it cannot show what another one sells, and nobody has an entitlement that
    does not exist."""
    await OFFERINGS.get(connection, project_id, rule.offering_id)
    for name in ("entitlement", "no_entitlement"):
        if name in rule.conditions:
            await ENTITLEMENTS.get(connection, project_id, rule.conditions[name])


async def _order(connection: Connection, project_id: str, moved: str = "", position: int = MOST_RULES) -> None:
    ids = [rule.id for rule in await TARGETING_RULES.page(connection, project_id)]
    ids = placed([id for id in ids if id != moved], moved, position) if moved else ids
    await offering_rows.order_rules(connection, project_id, ids)


def rule_for(
    choice: OfferingChoice, project_id: str, app_user_id: str, visit: LastSeen | None, now: Ms
) -> TargetingRule | None:
    """The rule that matches the customer, who need not exist, with what the app that asks says of itself."""
    rules = choice.catalog.offerings.targeting
    if not any(rule.is_active for rule in rules):
        return None
    return first_match(rules, _viewer(choice, project_id, app_user_id, visit, now))


def _viewer(choice: OfferingChoice, project_id: str, app_user_id: str, visit: LastSeen | None, now: Ms) -> Viewer:
    customer = choice.customer if choice.customer is not None else newcomer(project_id, app_user_id, now)
    seen = choice.last_seen or LastSeen(now)
    seen = merged_visits(seen, visit) if visit is not None else seen
    own = now if choice.clock_now is None else own_now(customer, choice.clock_now)
    return Viewer(
        facets_of(customer, seen.at, seen.country),
        now,
        own,
        seen,
        {name: attribute.value for name, attribute in visible(customer).items()},
        active(at_present(customer, choice.catalog, own), choice.catalog, own),
    )


async def preview(changes: Changes, project_id: str, now: Ms) -> wire.TargetingPreview:
    """Of the customers who were seen last."""
    sample = await list_page(changes.database, project_id, EVERYBODY, now, limit=SAMPLED)
    catalog = await load_catalog(changes, project_id)
    # By what has chosen, and the id of the rule. None: they see no offering.
    count: Counter[tuple[ChosenBy | None, str]] = Counter()
    for start in range(0, len(sample.entries), AT_ONCE):
        keys = [entry.key for entry in sample.entries[start : start + AT_ONCE]]
        async with changes.database.acquire() as connection:
            loaded = await load_offering_choices(connection, catalog, project_id, keys)
        for choice in loaded:
            rule = rule_for(choice, project_id, "", None, now)
            by, _ = _first(choice, rule)
            count[by, rule.id if rule is not None and by is ChosenBy.TARGETING_RULE else ""] += 1
        await asyncio.sleep(0)
    return wire.TargetingPreview(
        project_id=project_id,
        customers=count.total(),
        complete=sample.next is None and sample.complete,
        rules=[
            from_attributes(wire.RuleCount, rule, rule_id=rule.id, customers=count[ChosenBy.TARGETING_RULE, rule.id])
            for rule in catalog.offerings.targeting
        ],
        override=count[ChosenBy.OVERRIDE, ""],
        experiment=count[ChosenBy.EXPERIMENT, ""],
        current_offering=count[ChosenBy.CURRENT_OFFERING, ""],
        none=count[None, ""],
    )


async def explain(changes: Changes, project_id: str, app_user_id: str, now: Ms) -> wire.OfferingReason:
    """By what the customer's app has said of itself last."""
    async with changes.database.acquire() as connection:
        known = await state.key_of(connection, project_id, app_user_id)
        found(known, f"There is no customer {app_user_id!r} in this project.", "customer_id")
        choice = await load_offering_choice(connection, changes.catalogs, project_id, app_user_id, whole=True)
    viewer, rules = _viewer(choice, project_id, app_user_id, None, now), choice.catalog.offerings.targeting
    rule = first_match(rules, viewer)
    by, offering_id = _first(choice, rule)
    return wire.OfferingReason(
        customer_id=app_user_id,
        offering_id=offering_id,
        chosen_by=by.value if by is not None else None,
        rule_id=rule.id if rule is not None and by is ChosenBy.TARGETING_RULE else None,
        rules=[_verdict(rule, viewer) for rule in rules],
    )


def _verdict(rule: TargetingRule, viewer: Viewer) -> wire.RuleVerdict:
    missed = unmet(audience := audience_of(rule), viewer)
    words = [words for words, name in conditions(audience) if name in missed]
    return from_attributes(wire.RuleVerdict, rule, rule_id=rule.id, matches=not missed, unmet_conditions=words)


def _first(choice: OfferingChoice, rule: TargetingRule | None) -> tuple[ChosenBy | None, str | None]:
    """The preferred offering. An app that does not sell it shows the next one."""
    return next(choices(choice.catalog, choice.override, choice.enrolled, rule), (None, None))
