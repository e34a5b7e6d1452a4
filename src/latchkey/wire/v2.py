"""V2: the customer and its lists. Instants are epoch milliseconds."""

from typing import Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

Item = TypeVar("Item")

# Access that never ends, in fields that must hold a number or a date: the time of the purchase plus 200 years.
LIFETIME_YEARS = 200
# No product has a period of a hundred years, and 200 years after any purchase is further away than that for a century.
_BEYOND_ANY_PERIOD_MS = 100 * 365 * 24 * 60 * 60 * 1000


def never_ends(ends_at_ms: int | None, now_ms: int) -> bool:
    """Whether an end read from the API means "never"."""
    return ends_at_ms is None or ends_at_ms - now_ms > _BEYOND_ANY_PERIOD_MS


class Page(Struct, Generic[Item], frozen=True, kw_only=True, gc=False):
    """One page of a list, forward only."""

    object: Literal["list"] = "list"
    items: list[Item]
    # The path of the next page, percent-encoded once; null on the last page.
    next_page: str | None
    url: str


class ActiveEntitlement(Struct, frozen=True, kw_only=True, gc=False):
    object: Literal["customer.active_entitlement"] = "customer.active_entitlement"
    entitlement_id: str
    # For access that never ends: the time of the purchase plus 200 years.
    expires_at: int


class Attribute(Struct, frozen=True, kw_only=True, gc=False):
    object: Literal["customer.attribute"] = "customer.attribute"
    name: str
    value: str
    updated_at: int


class ExperimentEnrollment(Struct, frozen=True, kw_only=True, gc=False):
    object: Literal["experiment_enrollment"] = "experiment_enrollment"
    id: str
    name: str
    variant: str


class ListedCustomer(Struct, frozen=True, kw_only=True, gc=False):
    """A customer's own fields, without its lists."""

    object: Literal["customer"] = "customer"
    id: str
    project_id: str
    first_seen_at: int
    last_seen_at: int
    last_seen_app_version: str | None
    last_seen_country: str | None
    last_seen_platform: str | None
    last_seen_platform_version: str | None


class Customer(ListedCustomer, frozen=True, kw_only=True, gc=False):
    active_entitlements: Page[ActiveEntitlement]
    experiment: ExperimentEnrollment | UnsetType = UNSET
    attributes: Page[Attribute]
