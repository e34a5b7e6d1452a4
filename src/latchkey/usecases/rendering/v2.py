"""A customer as V2 shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar
from urllib.parse import quote

from msgspec import UNSET, UnsetType

from latchkey.domain.access.entitlements import held
from latchkey.domain.customers.customer import visible
from latchkey.usecases.rendering.view import View, lifetime_end
from latchkey.wire import v2

DEFAULT_LIMIT = 20
LARGEST_LIMIT = 100
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")

Item = TypeVar("Item")


def customer(view: View) -> v2.Customer:
    one, seen = view.customer, view.last_seen
    path = path_of(one.project_id, one.app_user_id)
    return v2.Customer(
        id=one.app_user_id,
        project_id=one.project_id,
        first_seen_at=one.first_seen_at,
        last_seen_at=seen.at,
        last_seen_app_version=seen.app_version,
        last_seen_country=seen.country,
        last_seen_platform=seen.platform,
        last_seen_platform_version=seen.platform_version,
        active_entitlements=page(
            _active_entitlements(view), _entitlement_id, f"{path}/active_entitlements", DEFAULT_LIMIT, None
        ),
        experiment=_experiment(view) if one.enrollments else UNSET,
        attributes=page(_attributes(view) if one.attributes else [], _name, f"{path}/attributes", DEFAULT_LIMIT, None),
    )


def active_entitlements(view: View, limit: int, starting_after: str | None) -> v2.Page[v2.ActiveEntitlement]:
    path = f"{customer_path(view)}/active_entitlements"
    return page(_active_entitlements(view), _entitlement_id, path, limit, starting_after)


def attributes(view: View, limit: int, starting_after: str | None) -> v2.Page[v2.Attribute]:
    return page(_attributes(view), _name, f"{customer_path(view)}/attributes", limit, starting_after)


def _active_entitlements(view: View) -> list[v2.ActiveEntitlement]:
    return [
        v2.ActiveEntitlement(
            entitlement_id=access.entitlement_id,
            expires_at=access.ends_at if access.ends_at is not None else lifetime_end(access.purchased_at),
        )
        for access in held(view.customer, view.catalog).values()
        if access.is_active(view.now)
    ]


def _attributes(view: View) -> list[v2.Attribute]:
    return [
        v2.Attribute(name=name, value=one.value, updated_at=one.updated_at)
        for name, one in visible(view.customer).items()
    ]


_entitlement_id = attrgetter("entitlement_id")
_name = attrgetter("name")


def page(
    items: Sequence[Item],
    name: Callable[[Item], str],
    path: str,
    limit: int,
    starting_after: str | None,
    filters: Mapping[str, str] | None = None,
) -> v2.Page[Item]:
    """One page of `items`, which are sorted by name. A cursor name that no longer exists still marks a position.
    `filters` are the other query parameters, which the next page needs too."""
    if starting_after is not None:
        items = [item for item in items if name(item) > starting_after]
    if len(items) <= limit:
        return v2.Page(items=list(items), next_page=None, url=path)
    shown = list(items[:limit])
    return v2.Page(items=shown, next_page=next_path(path, limit, name(shown[-1]), filters), url=path)


def next_path(path: str, limit: int, last: str, filters: Mapping[str, str] | None = None) -> str:
    """The path of the page after `last`. Encoded once: with a cursor encoded twice a client would read page 1
    forever."""
    asked = f"limit={limit}&" if limit != DEFAULT_LIMIT else ""
    chosen = "".join(f"{key}={encoded(value)}&" for key, value in (filters or {}).items())
    return f"{path}?{chosen}{asked}starting_after={encoded(last)}"


def customer_path(view: View) -> str:
    return path_of(view.customer.project_id, view.customer.app_user_id)


def path_of(project_id: str, customer_id: str) -> str:
    return _customers_path(project_id) + encoded(customer_id)


@lru_cache(maxsize=1024)
def _customers_path(project_id: str) -> str:
    return f"/v2/projects/{encoded(project_id)}/customers/"


def encoded(text: str) -> str:
    # Most ids need no encoding, and this check is four to ten times as fast as quoting.
    if text.isascii() and text.isalnum():
        return text
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def _experiment(view: View) -> v2.ExperimentEnrollment | UnsetType:
    enrollments = view.customer.enrollments
    if not enrollments:
        return UNSET
    last = enrollments[-1]
    return v2.ExperimentEnrollment(id=last.experiment_id, name=last.name, variant=last.variant_id)
