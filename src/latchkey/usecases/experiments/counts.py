"""How many customers each variant of an experiment has now. Merged customers count once, erased customers do not
count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.usecases.engine.walk import Progress, mention, walk


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Customers by variant, counted so far."""

    variants: Mapping[str, int] = field(default_factory=dict)
    place: Progress = field(default_factory=Progress)

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
        found.update(one.variant_id for one in customer.enrollments if one.experiment_id == experiment_id)

    words = [mention("experiment_id", experiment_id)]
    place = await walk(database, project_id, words, look, now, so_far.place, seconds)
    return Enrolled(dict(found), place)
