"""Experiments: who sees which variant, decided by a hash, so that the same customer always sees the same one."""

from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer, Enrollment
from latchkey.domain.instants import Ms


class Variant(Struct, frozen=True):
    id: str
    weight: int
    # The offering that its customers see as the current one.
    offering_id: str | None = None


class Experiment(Struct, frozen=True):
    id: str
    name: str
    variants: tuple[Variant, ...]
    created_at: Ms = 0


def assign(experiment: Experiment, app_user_id: str) -> str:
    """The variant of this user: a hash picks a point in the sum of all weights."""
    total = sum(variant.weight for variant in experiment.variants)
    digest = sha256(f"{experiment.id}\x1f{app_user_id}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") * total >> 64
    for variant in experiment.variants:
        if point < variant.weight:
            return variant.id
        point -= variant.weight
    raise AssertionError("the weights add up to more than the point")


def enroll(customer: Customer, experiment: Experiment, now: Ms) -> Customer:
    """Enrols the customer. Idempotent."""
    if any(one.experiment_id == experiment.id for one in customer.enrollments):
        return customer
    variant = assign(experiment, customer.original_app_user_id)
    enrollment = Enrollment(experiment.id, experiment.name, variant, now)
    return replace(customer, enrollments=(*customer.enrollments, enrollment))
