"""The filter of a list in words, for pages and for the preview of a grant."""

from __future__ import annotations

from collections.abc import Iterator

from latchkey.domain.customers.facets import Status
from latchkey.domain.customers.filter import Filter, When
from latchkey.domain.formats import counted, money
from latchkey.domain.stores.store import store_of

STATUSES: dict[Status, str] = {
    Status.ACTIVE: "Active",
    Status.TRIAL: "Trial",
    Status.IN_GRACE_PERIOD: "Grace period",
    Status.BILLING_ISSUE: "Billing issue",
    Status.CANCELLED: "Cancelled, still active",
    Status.EXPIRED: "Expired",
    Status.ONE_TIME_PURCHASE: "One-time purchase",
    Status.NEVER_BOUGHT: "Never bought",
    Status.GRANTED: "Granted",
}


def conditions(wanted: Filter) -> Iterator[tuple[str, str]]:
    """Each condition in words, and the name of its field."""
    if wanted.status:
        yield " or ".join(title for one, title in STATUSES.items() if one in wanted.status), "status"
    if wanted.product_id is not None:
        yield f"Product: {wanted.product_id}", "product_id"
    if wanted.product_active:
        yield "Product active now", "product_active"
    if wanted.spent_from is not None:
        yield f"Spent at least {money(wanted.spent_from)}", "spent_from"
    if wanted.spent_to is not None:
        yield f"Spent at most {money(wanted.spent_to)}", "spent_to"
    if wanted.country is not None:
        yield f"Country: {wanted.country}", "country"
    if wanted.store is not None:
        yield f"Store: {store_of(wanted.store).title or wanted.store}", "store"
    if wanted.environment is not None:
        yield wanted.environment.capitalize(), "environment"
    yield from _seen(wanted)
    if wanted.trial_ends_within is not None:
        yield f"Trial ends within {counted(wanted.trial_ends_within, 'day')}", "trial_ends_within"
    if wanted.billing_issue:
        yield "Has a billing issue", "billing_issue"


def in_words(wanted: Filter) -> str:
    return "; ".join(words for words, _ in conditions(wanted)) or "everybody"


def _seen(wanted: Filter) -> Iterator[tuple[str, str]]:
    for title, after, before in (
        ("Last seen", "last_seen_after", "last_seen_before"),
        ("First seen", "first_seen_after", "first_seen_before"),
    ):
        since: When | None = getattr(wanted, after)
        until: When | None = getattr(wanted, before)
        if since is not None:
            said = f"since {since.text}" if since.days is None else f"in the last {counted(since.days, 'day')}"
            yield f"{title} {said}", after
        if until is not None:
            said = f"before {until.text}" if until.days is None else f"more than {counted(until.days, 'day')} ago"
            yield f"{title} {said}", before
