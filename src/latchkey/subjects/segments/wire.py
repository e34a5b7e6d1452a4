"""V2: lists of customers by filter, and saved segments. Instants are epoch milliseconds."""

from typing import Literal

from msgspec import Struct


class ListedByFilter(Struct, frozen=True, kw_only=True):
    """A customer as lists know it, some seconds after each change."""

    object: Literal["customer_list.customer"] = "customer_list.customer"
    id: str
    # All that hold now.
    status: list[str]
    environment: Literal["production", "sandbox"]
    first_seen_at: int
    # To the hour.
    last_seen_at: int
    country: str | None
    stores: list[str]
    # Everything ever bought.
    products: list[str]
    # US dollars: paid less given back, and given back.
    spent_in_usd: float
    refunded_in_usd: float
    # When the last subscription or prepaid time ends or ended, and when the last trial does or did.
    runs_until: int | None
    trial_ends_at: int | None


class CustomerList(Struct, frozen=True, kw_only=True):
    """One page of a list by filter."""

    object: Literal["list"] = "list"
    items: list[ListedByFilter]
    next_page: str | None
    url: str
    # Whether everybody is in the lists: not so for seconds after somebody new came, for minutes after an import.
    complete: bool
    # Customers who are not in any list yet. Counting ends at 10,000.
    missing_customers: int


class Segment(Struct, frozen=True, kw_only=True):
    object: Literal["customer_segment"] = "customer_segment"
    id: str
    project_id: str
    name: str
    # In the words of the query of `customer_list`.
    filter: dict[str, str]
    columns: list[str]
    sort: str
    created_at: int
    updated_at: int


class BulkGrant(Struct, frozen=True, kw_only=True):
    """An entitlement for many customers. A draft is a preview: nobody has got anything yet."""

    object: Literal["bulk_grant"] = "bulk_grant"
    id: str
    project_id: str
    state: Literal["draft", "running", "done", "stopped"]
    entitlement_id: str
    # A named length from each customer's grant, or an instant; both null: for ever.
    duration: str | None
    expires_at: int | None
    # Customers who have the entitlement when their turn comes are left out.
    skip_holders: bool
    created_by: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    customers: int


class BulkGrantFailure(Struct, frozen=True, kw_only=True):
    # Null if the customer was erased.
    customer_id: str | None
    error: str


class BulkGrantProgress(BulkGrant, frozen=True, kw_only=True):
    # Of the preview: how many had the entitlement already, ids that nobody has (the first 100), and whether the lists
    # had all customers.
    holders: int
    unknown_ids: list[str]
    complete: bool
    # How far it is.
    granted: int
    skipped: int
    failed: int
    waiting: int
    # The first 100.
    failures: list[BulkGrantFailure]
