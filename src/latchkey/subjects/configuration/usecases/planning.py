"""A file compared with a project, and applied to it: all of it, or nothing.

A plan is made by applying the file in a transaction that is rolled back. So what it shows is what really changes, and
it refuses what `apply` would refuse.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from msgspec import json, structs

from latchkey.database.pool import Connection, OneTransaction
from latchkey.domain.catalog import Catalog
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict, Refusal
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.catalog.usecases.entitlement_catalog import preview_catalog
from latchkey.subjects.catalog.usecases.version import changing_catalog
from latchkey.subjects.configuration import rules, wire
from latchkey.subjects.configuration.rules import Names, Things, path_of
from latchkey.subjects.configuration.usecases import things
from latchkey.subjects.configuration.usecases.document import FIELDS, PACKAGE, SECTIONS, checked
from latchkey.subjects.configuration.usecases.things import Desk
from latchkey.subjects.webhooks.usecases.registry import Registry

# How long a plan counts the customers whose access changes.
PREVIEW_SECONDS = 5.0
# That one file saves, and that it deletes. A plan locks the catalog meanwhile: on a busy server 25 ms for each.
MOST_CHANGES = 400
# The actions of listed prices in the audit log.
_PRICE = ("product.price_set", "product.price_set", "product.price_deleted")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller asks for, and who asks."""

    document: Mapping[str, Any]
    # Of the environment, as far as the document refers to them.
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Also delete what the sections of the document do not name.
    prune: bool = False
    # Apply exactly the changes of the plan that had it, or none.
    fingerprint: str | None = None
    actor: str = ""
    address: str = ""


class _RolledBack(Exception):
    """Ends a transaction that is not to be committed."""


async def load_document(webhooks: Registry, project_id: str) -> dict[str, dict[str, Any]]:
    """Everything that a file can have."""
    async with webhooks.database.transaction(isolation="repeatable_read") as connection:
        return rules.document_of(await things.load(_desk(webhooks, connection, project_id, 0)))


async def plan(webhooks: Registry, project_id: str, wish: Wish, now: Ms) -> wire.ConfigPlan:
    """What `apply` would change, and whose access."""
    made, before, after = await _carried_out(webhooks, project_id, wish, now, applied=False)
    counted = await preview_catalog(webhooks.database, project_id, before, after, now, seconds=PREVIEW_SECONDS)
    share = round(counted.place.share, 4)
    access = wire.AccessChange(gains=dict(counted.gains), losses=dict(counted.losses), counted_share=share)
    return structs.replace(made, access=access)


async def apply(webhooks: Registry, project_id: str, wish: Wish, now: Ms) -> wire.ConfigPlan:
    return (await _carried_out(webhooks, project_id, wish, now, applied=True))[0]


async def _carried_out(
    webhooks: Registry, project_id: str, wish: Wish, now: Ms, *, applied: bool
) -> tuple[wire.ConfigPlan, Catalog, Catalog]:
    """The plan, and the catalog before and after it. Committed only if it is to be applied and changes anything."""
    wanted = rules.things_of(checked(wish.document))
    rules.resolve(wanted, wish.variables, things.secret_settings())
    rules.require_one(wanted, "offerings", "is_current")
    rules.require_one(wanted, "placements", "is_fallback")
    try:
        # Locks the project, so that nothing is based on what another change replaces.
        async with changing_catalog(webhooks.database, project_id) as connection:
            at = _desk(webhooks, connection, project_id, now)
            # A cache of its own: the versions of a transaction that is rolled back are used again.
            was = await Catalogs().at(connection, project_id, 0)
            before = await things.load(at, [names[1] for names in wanted if names[0] == "webhooks"])
            await _save(at, wanted, before)
            reasons: dict[Names, str] = {}
            if wish.prune:
                reasons = await _prune(at, wanted, wish.document)
                # Refuses a file that refers to what was deleted.
                await _save(at, wanted, await things.load(at))
            after = await things.load(at)
            becomes = await Catalogs().at(connection, project_id, 0)
            changes = _changes(before, after)
            made = wire.ConfigPlan(
                project_id=project_id,
                applied=applied,
                fingerprint=sha256(json.encode(list(changes.values()))).hexdigest()[:32],
                changes=list(changes.values()),
                left_alone=[
                    wire.LeftAlone(path=path_of(names), reason=reasons.get(names))
                    for names in rules.left_alone(after, wanted)
                ],
                access=None,
            )
            if wish.fingerprint not in (None, made.fingerprint):
                raise Conflict("The project has changed since the plan was made. Nothing was changed; plan again.")
            if not applied or not changes:
                raise _RolledBack
            for names, change in changes.items():
                await _note(at, wish, names, change)
    except _RolledBack:
        pass
    return made, was, becomes


def _desk(webhooks: Registry, connection: Connection, project_id: str, now: Ms) -> Desk:
    database = OneTransaction(webhooks.database, connection)
    return Desk(database, replace(webhooks, database=database), project_id, now)


def _few(changing: list[Names]) -> list[Names]:
    if len(changing) > MOST_CHANGES:
        raise Refusal(
            f"{len(changing):,} things would change, and at most {MOST_CHANGES} can: apply the file in parts."
        )
    return changing


async def _save(at: Desk, wanted: Things, known: Things) -> None:
    def differs(names: Names) -> bool:
        return names not in known or any(known[names].get(name) != value for name, value in wanted[names].items())

    for names in _few([*filter(differs, wanted)]):
        before, fields = known.get(names), wanted[names]
        with _placed(names):
            for name in SECTIONS[names[0]].get("needed", ()) if before is None and len(names) == 2 else ():
                if name not in fields:
                    raise Refusal("What is new needs this field.", param=name)
            await things.save(at, names, fields, before)
    await things.arrange(at, wanted)


async def _prune(at: Desk, wanted: Things, sections: Collection[str]) -> dict[Names, str]:
    """Deletes what these sections do not name. What cannot be deleted stays; returns the reasons."""
    reasons = {}
    unnamed = rules.left_alone(await things.load(at), wanted)
    for names in reversed(_few([names for names in unnamed if names[0] in sections])):
        try:
            await things.delete(at, names)
        except Refusal as refusal:
            reasons[names] = refusal.message
    return reasons


@contextmanager
def _placed(names: Names) -> Iterator[None]:
    """Adds to a refusal where in the file its reason is."""
    try:
        yield
    except Refusal as refusal:
        param = refusal.param if refusal.param and refusal.param.partition(".")[0] in FIELDS else None
        path = path_of(names, param)
        raise Refusal(f"{path}: {refusal.message}", param=path) from None


def _changes(before: Things, after: Things) -> dict[Names, wire.ConfigChange]:
    """What differs, by section and name, because things of one age come in any order; what is deleted comes last."""
    found: dict[Names, wire.ConfigChange] = {}
    for names, new in after.items():
        old = before.get(names, {})
        fields = [
            wire.ConfigField(name=name, before=rules.shown(old.get(name)), after=rules.shown(value))
            for name, value in new.items()
            if names not in before or old.get(name) != value
        ]
        if fields:
            action: wire.Action = "update" if names in before else "create"
            found[names] = wire.ConfigChange(action=action, path=path_of(names), fields=fields)
    for names in (names for names in before if names not in after):
        found[names] = wire.ConfigChange(action="delete", path=path_of(names), fields=[])
    order = list(SECTIONS)
    return dict(sorted(found.items(), key=lambda one: (one[1].action == "delete", order.index(one[0][0]), one[0])))


async def _note(at: Desk, wish: Wish, names: Names, change: wire.ConfigChange) -> None:
    """An entry in the audit log, as if the change had been made alone. It is committed with it."""
    actions = _PRICE if names[2:3] == ("prices",) else (PACKAGE if len(names) > 2 else SECTIONS[names[0]])["audited"]
    action = actions[("create", "update", "delete").index(change.action)]
    subject, sent = ", ".join(names[1::2]), {one.name: one.after for one in change.fields}
    by = {"actor": wish.actor, "address": wish.address}
    place = {"project_id": at.project_id, "subject": subject}
    position = await audit.begin(at.database, account_id=None, action=action, now=at.now, **by, **place)
    await audit.finish(at.database, position, "done", subject, {"with": "config.applied", "sent": sent})
