"""Offerings with their packages and placements, the offering that a customer sees instead of the current one, and
experiments with their variants."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct, json

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import (
    Listing,
    changes_rows,
    executes,
    fetch_all,
    fetch_one,
    fetches_all,
    item_of,
    returns_row,
    saves,
)
from latchkey.database.sql import query
from latchkey.domain.catalog import Eligibility, Offering, Package, Placement, Product, TargetingRule
from latchkey.domain.customers.enrollment import Experiment
from latchkey.engine.storage.catalog.product_rows import product_of

_PACKAGES = query("list_packages")


def _offering(row: Record) -> Offering:
    return item_of(Offering, row, metadata=json.decode(row["metadata"] or b"null"))


OFFERINGS = Listing("offering", query("list_offerings"), _offering, by_age=True)
PLACEMENTS = Listing("placement", query("list_placements"), partial(item_of, Placement))


class Attached(Struct, frozen=True):
    """A product of a package."""

    product: Product
    eligibility: Eligibility


class Uses(Struct, frozen=True):
    """What names an offering: ids of placements, names of experiments and of targeting rules."""

    placements: list[str]
    experiments: list[str]
    rules: list[str]


async def create_offering(connection: Connection, project_id: str, offering: Offering) -> bool:
    """False: the lookup key is taken."""
    others = offering.lookup_key, offering.created_at
    return await _insert_offering(connection, project_id, offering.id, *_values(offering), *others)


async def update_offering(connection: Connection, project_id: str, offering: Offering) -> None:
    """There is at most one current offering."""
    if offering.is_current:
        await connection.execute(query("clear_current_offering"), project_id)
    await connection.execute(query("update_offering"), project_id, offering.id, *_values(offering))


def _values(offering: Offering) -> tuple[str, bytes | None, bool]:
    metadata = None if offering.metadata is None else json.encode(offering.metadata)
    return offering.display_name, metadata, offering.is_current


_insert_offering = changes_rows(query("create_offering"))
delete_offering = executes(query("delete_offering"))
# What names an offering.
uses = fetches_all(Uses, query("uses_of_offering"))
# Of a customer. False: there is no such customer.
override = returns_row(query("override_offering"))
clear_override = executes(query("clear_offering_override"))
# False: the offering has the lookup key already.
create_package = saves(
    query("create_package"), "id", "offering_id", "lookup_key", "display_name", "position", "created_at"
)
rename = executes(query("rename_package"))
# Gives these packages of one offering the positions 1, 2, 3…
order = executes(query("order_packages"))
delete_package = executes(query("delete_package"))
# From a package: these products.
detach = executes(query("detach_from_package"))
# False: there is no such placement.
delete_placement = changes_rows(query("delete_placement"))


async def load_package(connection: Executor, project_id: str, package_id: str) -> Package | None:
    return await fetch_one(connection, Package, _PACKAGES, project_id, [], package_id)


async def of_offering(connection: Connection, project_id: str, offering_id: str) -> list[Package]:
    """All of them, in order."""
    return (await of_offerings(connection, project_id, [offering_id]))[offering_id]


async def of_offerings(connection: Executor, project_id: str, offering_ids: Sequence[str]) -> dict[str, list[Package]]:
    """By offering, in order."""
    found: dict[str, list[Package]] = {id: [] for id in offering_ids}
    for package in await fetch_all(connection, Package, _PACKAGES, project_id, list(offering_ids), None):
        found[package.offering_id].append(package)
    return found


async def products(connection: Executor, project_id: str, package_ids: Sequence[str]) -> dict[str, list[Attached]]:
    """By package, in the order of attaching. Deleted products too: they are offered again if they come back."""
    found: dict[str, list[Attached]] = {id: [] for id in package_ids}
    for row in await connection.fetch(query("products_of_packages"), project_id, list(package_ids)):
        found[row["package_id"]].append(Attached(product_of(row), Eligibility(row["eligibility_criteria"])))
    return found


async def attach(connection: Connection, project_id: str, package_id: str, attached: Mapping[str, Eligibility]) -> None:
    """By product id."""
    await connection.execute(
        query("attach_to_package"), project_id, package_id, list(attached), list(attached.values())
    )


_PLACEMENT = "id", "display_name", "offering_id", "is_fallback"
_insert_placement = saves(query("create_placement"), *_PLACEMENT, "created_at")
_update_placement = saves(query("update_placement"), *_PLACEMENT)


async def save_placement(connection: Connection, project_id: str, placement: Placement, *, new: bool) -> bool:
    """There is at most one fallback. False: the id is taken."""
    if placement.is_fallback:
        await connection.execute(query("clear_fallback_placement"), project_id)
    return await (_insert_placement if new else _update_placement)(connection, project_id, placement)


def _rule(row: Record) -> TargetingRule:
    return item_of(TargetingRule, row, conditions=json.decode(row["conditions"]))


# In their order.
TARGETING_RULES = Listing("targeting rule", query("list_targeting_rules"), _rule, param="rule_id", by_age=True)


async def save_rule(connection: Connection, project_id: str, rule: TargetingRule, *, new: bool) -> bool:
    """False: the id is taken."""
    return await (_insert_rule if new else _update_rule)(connection, project_id, rule, json.encode(rule.conditions))


_RULE = "id", "name", "offering_id", "is_active", "position", "revision"
_insert_rule = saves(query("create_targeting_rule"), *_RULE, "created_at")
_update_rule = saves(query("update_targeting_rule"), *_RULE)
# Gives these rules the positions 1, 2, 3…
order_rules = executes(query("order_targeting_rules"))
delete_rule = executes(query("delete_targeting_rule"))


def _experiment(row: Record) -> Experiment:
    return item_of(Experiment, row, variants=json.decode(row["variants"]))


EXPERIMENTS = Listing("experiment", query("list_experiments"), _experiment, by_age=True)


async def create_experiment(connection: Connection, project_id: str, one: Experiment) -> None:
    variants = json.encode(one.variants)
    await connection.execute(query("create_experiment"), project_id, one.id, one.name, variants, one.created_at)


async def update_experiment(connection: Connection, project_id: str, experiment: Experiment) -> None:
    """Its variants, in the same order."""
    await connection.execute(query("update_experiment"), project_id, experiment.id, json.encode(experiment.variants))
