"""V2: lists of customers by filter, and saved segments. Instants are epoch milliseconds."""

from __future__ import annotations

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
