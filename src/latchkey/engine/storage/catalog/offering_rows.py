"""Offerings with their packages and placements, the offering that a customer sees instead of the current one, and
experiments with their variants."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, json

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import (
    Listing,
    changes_rows,
    executes,
    fetch_all,
    fetch_one,
    fetches_all,
    returns_row,
    saves,
)
from latchkey.database.sql import query
from latchkey.domain.catalog import Eligibility, Offering, Package, Placement, Product, TargetingRule
from latchkey.domain.customers.enrollment import Experiment
from latchkey.engine.storage.catalog.product_rows import product_of

_PACKAGES = query("list_packages")

OFFERINGS = Listing("offering", query("list_offerings"), Offering, as_json=("metadata",), by_age=True)
PLACEMENTS = Listing("placement", query("list_placements"), Placement)
# In their order.
TARGETING_RULES = Listing(
    "targeting rule",
    query("list_targeting_rules"),
    TargetingRule,
    as_json=("conditions",),
    param="rule_id",
    by_age=True,
)
EXPERIMENTS = Listing("experiment", query("list_experiments"), Experiment, as_json=("variants",), by_age=True)


class Attached(Struct, frozen=True):
    """A product of a package."""

    product: Product
    eligibility: Eligibility


class Uses(Struct, frozen=True):
    """What names an offering: ids of placements, names of experiments and of targeting rules."""

    placements: list[str]
    experiments: list[str]
    rules: list[str]


_OFFERING = "id", "display_name", "metadata", "is_current"
_PLACEMENT = "id", "display_name", "offering_id", "is_fallback"
_RULE = "id", "name", "offering_id", "is_active", "position", "revision"
# Whether a row was written: none is if the key or the id is taken. There is at most one current offering, and one
# fallback: before another becomes it, none is.
create_offering = saves(query("create_offering"), *_OFFERING, "lookup_key", "created_at")
update_offering = saves(query("update_offering"), *_OFFERING)
clear_current = executes(query("clear_current_offering"))
create_placement = saves(query("create_placement"), *_PLACEMENT, "created_at")
update_placement = saves(query("update_placement"), *_PLACEMENT)
clear_fallback = executes(query("clear_fallback_placement"))
create_rule = saves(query("create_targeting_rule"), *_RULE, "created_at", "conditions")
update_rule = saves(query("update_targeting_rule"), *_RULE, "conditions")
# Gives these rules the positions 1, 2, 3…
order_rules = executes(query("order_targeting_rules"))
delete_rule = executes(query("delete_targeting_rule"))
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


async def create_experiment(connection: Connection, project_id: str, one: Experiment) -> None:
    variants = json.encode(one.variants)
    await connection.execute(query("create_experiment"), project_id, one.id, one.name, variants, one.created_at)


async def update_experiment(connection: Connection, project_id: str, experiment: Experiment) -> None:
    """Its variants, in the same order."""
    await connection.execute(query("update_experiment"), project_id, experiment.id, json.encode(experiment.variants))
