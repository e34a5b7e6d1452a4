"""V2: the customer and its lists. Instants are epoch milliseconds."""

from typing import Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

Item = TypeVar("Item")


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
    # For access that never ends: the time of the purchase plus 200 years; see `wire.lifetime`.
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


class Customer(Struct, frozen=True, kw_only=True, gc=False):
    object: Literal["customer"] = "customer"
    id: str
    project_id: str
    first_seen_at: int
    last_seen_at: int
    last_seen_app_version: str | None
    last_seen_country: str | None
    last_seen_platform: str | None
    last_seen_platform_version: str | None
    active_entitlements: Page[ActiveEntitlement]
    experiment: ExperimentEnrollment | UnsetType = UNSET
    attributes: Page[Attribute]
