"""Experiments: variants with weights, and their customers. `domain/customers/enrollment.py` assigns variants."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from latchkey.database.pool import Connection, Database
from latchkey.domain.customers.customer import Customer, Enrollment
from latchkey.domain.customers.enrollment import Experiment, Variant, enroll
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.engine.changes import Change, Changes
from latchkey.engine.clock import ScanProgress, walk
from latchkey.engine.storage.catalog import offering_rows as storage
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS
from latchkey.engine.storage.scans import mention
from latchkey.subjects.catalog.usecases.version import changing_catalog

FEWEST, MOST = 2, 20
HEAVIEST = 1_000_000

load_experiment = storage.EXPERIMENTS.get
list_experiments = storage.EXPERIMENTS.load_page


async def create_experiment(
    database: Database,
    project_id: str,
    name: str,
    variants: Sequence[Variant],
    now: Ms,
    *,
    experiment_id: str | None = None,
) -> Experiment:
    """A variant may name an offering, which its customers then see as the current one. The id must not be taken."""
    id = checked_id(experiment_id or f"exp_{secrets.token_hex(8)}")
    experiment = Experiment(id, checked_name(name), _checked(variants), now)
    # The catalog knows the offerings of variants.
    async with changing_catalog(database, project_id) as connection:
        await _require_offerings(connection, project_id, variants)
        await storage.create_experiment(connection, project_id, experiment)
    return experiment


async def set_offerings(
    database: Database, project_id: str, experiment_id: str, chosen: Mapping[str, str | None]
) -> Experiment:
    """By variant: the offering that its customers see; None is the current offering. Other variants stay as they
    are."""
    async with changing_catalog(database, project_id) as connection:
        before = await storage.EXPERIMENTS.get(connection, project_id, experiment_id)
        for variant_id in chosen:
            if variant_id not in {variant.id for variant in before.variants}:
                raise NotFound(f"The experiment has no variant {variant_id!r}.", param="variants")
        variants = tuple(
            replace(variant, offering_id=chosen[variant.id]) if variant.id in chosen else variant
            for variant in before.variants
        )
        await _require_offerings(connection, project_id, variants)
        changed = replace(before, variants=variants)
        await storage.update_experiment(connection, project_id, changed)
    return changed


async def _require_offerings(connection: Connection, project_id: str, variants: Sequence[Variant]) -> None:
    for id in (variant.offering_id for variant in variants):
        if id is not None and await OFFERINGS.find(connection, project_id, id) is None:
            raise NotFound(f"There is no offering {id!r} in this project.", param="variants")


def _checked(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    if not FEWEST <= len(variants) <= MOST:
        raise Invalid(f"An experiment has {FEWEST} to {MOST} variants.", param="variants")
    for variant in variants:
        checked_id(variant.id, "variants")
        if not 1 <= variant.weight <= HEAVIEST:
            raise Invalid(f"A weight is a whole number from 1 to {HEAVIEST:,}.", param="variants")
    if len({variant.id for variant in variants}) < len(variants):
        raise Invalid("Each variant needs an id of its own.", param="variants")
    return tuple(variants)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Customers by variant, counted so far."""

    variants: Mapping[str, int] = field(default_factory=dict)
    place: ScanProgress = field(default_factory=ScanProgress)

    @property
    def total(self) -> int:
        return sum(self.variants.values())


async def count_enrolled(
    database: Database,
    project_id: str,
    experiment_id: str,
    now: Ms,
    so_far: Enrolled | None = None,
    seconds: float | None = None,
) -> Enrolled:
    """Counts for at most `seconds`. If `place.done` is false, pass the result as `so_far` to continue."""
    so_far = so_far or Enrolled()
    found = Counter(so_far.variants)

    def look(customer: Customer, _: Ms) -> None:
        found.update(
            enrollment.variant_id for enrollment in customer.enrollments if enrollment.experiment_id == experiment_id
        )

    words = [mention("experiment_id", experiment_id)]
    place = await walk(database, project_id, words, look, now, so_far.place, seconds)
    return Enrolled(dict(found), place)


async def enroll_customer(changes: Changes, project_id: str, experiment_id: str, app_user_id: str) -> Enrollment:
    """Idempotent: an enrolled customer keeps the variant and no event is emitted."""
    experiment = await load_experiment(changes.database, project_id, experiment_id)
    done = await changes.make(
        Change(
            project_id=project_id,
            app_user_id=app_user_id,
            apply=lambda situation: enroll(situation.customer, experiment, situation.now),
            create=True,
        )
    )
    return next(one for one in done.customer.enrollments if one.experiment_id == experiment_id)
