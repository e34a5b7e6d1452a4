"""Targeting rules: changed, applied to one customer, and previewed."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Connection, Database
from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import TargetingRule
from latchkey.domain.customers.customer import LastSeen, merged_visits, newcomer, own_now, visible
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Checks, Conflict, Refusal, found
from latchkey.engine.changes import Changes
from latchkey.engine.due_transitions import at_present
from latchkey.engine.storage import state
from latchkey.engine.storage.catalog import offering_rows
from latchkey.engine.storage.catalog.catalogs import OfferingChoice, load_offering_choice, load_offering_choices
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS, TARGETING_RULES
from latchkey.subjects.catalog.usecases.version import changing_catalog, load_catalog
from latchkey.subjects.offerings.rules import ChosenBy, choices
from latchkey.subjects.segments.rules.facets import facets_of
from latchkey.subjects.segments.rules.filter import EVERYBODY
from latchkey.subjects.segments.rules.matching import Viewer, unmet
from latchkey.subjects.segments.usecases.customer_lists import conditions, list_page
from latchkey.subjects.targeting.rules import audience_of, checked_conditions, first_match

# Every read of offerings goes through them.
MOST_RULES = 100
# Customers of a preview: those who were seen last. Others wait while a piece of them is looked at.
SAMPLED, AT_ONCE = 1_000, 100

load_rule = TARGETING_RULES.get
list_rules = TARGETING_RULES.load_page


async def create_rule(
    database: Database,
    project_id: str,
    name: str,
    offering_id: str,
    conditions: Mapping[str, str],
    *,
    is_active: bool = True,
    position: int | None = None,
    rule_id: str | None = None,
    now: Ms,
) -> TargetingRule:
    """At the position, or at the end. Without conditions it is for everybody."""
    with Checks() as check:
        made = TargetingRule(
            id=check(checked_id, rule_id if rule_id is not None else f"tgtr_{secrets.token_hex(8)}"),
            name=check(checked_name, name),
            offering_id=offering_id,
            conditions=check(checked_conditions, conditions),
            is_active=is_active,
            position=MOST_RULES,
            created_at=now,
        )
    async with changing_catalog(database, project_id) as connection:
        if len(await TARGETING_RULES.page(connection, project_id)) >= MOST_RULES:
            raise Refusal(f"A project has at most {MOST_RULES} targeting rules. Delete one first.")
        # Of this project: a rule cannot show what another one sells.
        await OFFERINGS.get(connection, project_id, offering_id)
        if not await offering_rows.save_rule(connection, project_id, made, new=True):
            raise Conflict(f"There is already a targeting rule {made.id!r} in this project.", param="id")
        await _move(connection, project_id, made.id, position or MOST_RULES)
        return await load_rule(connection, project_id, made.id)


async def update_rule(database: Database, project_id: str, rule_id: str, changes: Mapping[str, Any]) -> TargetingRule:
    """Changes the fields that are given; `conditions` are replaced as a whole. The revision grows if others may match,
    or see something else."""
    async with changing_catalog(database, project_id) as connection:
        before = await load_rule(connection, project_id, rule_id)
        given = {field: value for field, value in changes.items() if field != "position"}
        with Checks() as check:
            if "name" in given:
                given["name"] = check(checked_name, given["name"])
            if "conditions" in given:
                given["conditions"] = check(checked_conditions, given["conditions"])
        changed = replace(before, **given)
        await OFFERINGS.get(connection, project_id, changed.offering_id)
        if replace(changed, name=before.name) != before:
            changed = replace(changed, revision=before.revision + 1)
        await offering_rows.save_rule(connection, project_id, changed, new=False)
        if changes.get("position") is not None:
            await _move(connection, project_id, rule_id, changes["position"])
        return await load_rule(connection, project_id, rule_id)


async def delete_rule(database: Database, project_id: str, rule_id: str) -> None:
    """Its customers see what the next rule that matches shows, or the current offering."""
    async with changing_catalog(database, project_id) as connection:
        await load_rule(connection, project_id, rule_id)
        await offering_rows.delete_rule(connection, project_id, rule_id)
        left = [rule.id for rule in await TARGETING_RULES.page(connection, project_id)]
        await offering_rows.order_rules(connection, project_id, left)


async def _move(connection: Connection, project_id: str, rule_id: str, position: int) -> None:
    """A position behind the end is the end."""
    ids = [rule.id for rule in await TARGETING_RULES.page(connection, project_id) if rule.id != rule_id]
    ids.insert(position - 1, rule_id)
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


class TargetingPreview(Struct, frozen=True):
    """How many of the customers who were seen last see an offering by which rule, or by what else."""

    rules: tuple[TargetingRule, ...]
    by_rule: Mapping[str, int]
    # None: they see no offering.
    chosen_by: Mapping[ChosenBy | None, int]
    customers: int
    # Whether these are all customers of the project.
    complete: bool


class RuleVerdict(Struct, frozen=True):
    rule: TargetingRule
    # In words, the conditions that do not hold.
    unmet: tuple[str, ...]

    @property
    def matches(self) -> bool:
        return not self.unmet


class OfferingReason(Struct, frozen=True):
    """Why a customer sees an offering."""

    # None: the project has no current offering.
    chosen_by: ChosenBy | None
    offering_id: str | None
    # If a rule has chosen it.
    rule: TargetingRule | None
    verdicts: tuple[RuleVerdict, ...]


async def preview(changes: Changes, project_id: str, now: Ms) -> TargetingPreview:
    sample = await list_page(changes.database, project_id, EVERYBODY, now, limit=SAMPLED)
    catalog = await load_catalog(changes, project_id)
    by_rule: Counter[str] = Counter()
    chosen_by: Counter[ChosenBy | None] = Counter()
    for start in range(0, len(sample.entries), AT_ONCE):
        keys = [entry.key for entry in sample.entries[start : start + AT_ONCE]]
        async with changes.database.acquire() as connection:
            loaded = await load_offering_choices(connection, catalog, project_id, keys)
        for choice in loaded:
            rule = rule_for(choice, project_id, "", None, now)
            by, _ = _first(choice, rule)
            chosen_by[by] += 1
            if rule is not None and by is ChosenBy.TARGETING_RULE:
                by_rule[rule.id] += 1
        await asyncio.sleep(0)
    complete = sample.next is None and sample.complete
    return TargetingPreview(catalog.offerings.targeting, by_rule, chosen_by, chosen_by.total(), complete)


async def explain(changes: Changes, project_id: str, app_user_id: str, now: Ms) -> OfferingReason:
    """By what the customer's app has said of itself last."""
    async with changes.database.acquire() as connection:
        known = await state.key_of(connection, project_id, app_user_id)
        found(known, f"There is no customer {app_user_id!r} in this project.", "customer_id")
        choice = await load_offering_choice(connection, changes.catalogs, project_id, app_user_id, whole=True)
    viewer = _viewer(choice, project_id, app_user_id, None, now)
    verdicts = tuple(_verdict(rule, viewer) for rule in choice.catalog.offerings.targeting)
    rule = next((one.rule for one in verdicts if one.rule.is_active and one.matches), None)
    by, offering_id = _first(choice, rule)
    return OfferingReason(by, offering_id, rule if by is ChosenBy.TARGETING_RULE else None, verdicts)


def _verdict(rule: TargetingRule, viewer: Viewer) -> RuleVerdict:
    audience = audience_of(rule)
    missed = unmet(audience, viewer)
    return RuleVerdict(rule, tuple(words for words, name in conditions(audience) if name in missed))


def _first(choice: OfferingChoice, rule: TargetingRule | None) -> tuple[ChosenBy | None, str | None]:
    """The preferred offering. An app that does not sell it shows the next one."""
    return next(choices(choice.catalog, choice.override, choice.enrolled, rule), (None, None))
