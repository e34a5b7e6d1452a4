"""Whether a filter matches one customer. Lists have the conditions that facets suffice for in SQL, too; tests hold the
two equal."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.instants import DAY, Ms
from latchkey.subjects.segments.rules.facets import Facets, statuses
from latchkey.subjects.segments.rules.filter import CustomerFilter, given, version_of


class Viewer(Struct, frozen=True):
    """A customer as conditions see it."""

    facets: Facets
    now: Ms
    # The time of the customer's test clock. When somebody was seen is always compared with real time.
    own_now: Ms
    seen: LastSeen = LastSeen(0)
    attributes: Mapping[str, str] = {}
    # Those that are active.
    entitlements: Collection[str] = ()


def unmet(wanted: CustomerFilter, viewer: Viewer) -> list[str]:
    """The names of the conditions that do not hold. Everything that is given must hold."""
    return [name for name, value in given(wanted).items() if not _HOLDS[name](value, viewer, wanted)]


def _has_product(product_id: str, viewer: Viewer, wanted: CustomerFilter) -> bool:
    until = dict(zip(viewer.facets.products, viewer.facets.product_untils, strict=True)).get(product_id)
    return until is not None and (not wanted.product_active or until > viewer.own_now)


def _within(days: int, viewer: Viewer) -> bool:
    until = viewer.facets.trial_until
    return until is not None and viewer.own_now < until <= viewer.own_now + days * DAY


def _version(viewer: Viewer, is_right: Callable[[tuple[int, ...]], bool]) -> bool:
    """Of an app whose version is not known no condition about it holds."""
    version = version_of(viewer.seen.app_version)
    return version is not None and is_right(version)


_HOLDS: dict[str, Callable[[Any, Viewer, CustomerFilter], bool]] = {
    "status": lambda chosen, viewer, _: bool(chosen & statuses(viewer.facets, viewer.own_now)),
    "product_id": _has_product,
    # With its product.
    "product_active": lambda *_: True,
    "spent_from": lambda usd, viewer, _: viewer.facets.spent_usd >= usd,
    "spent_to": lambda usd, viewer, _: viewer.facets.spent_usd <= usd,
    "country": lambda countries, viewer, _: viewer.facets.country in countries,
    "store": lambda store, viewer, _: store in viewer.facets.stores,
    "environment": lambda environment, viewer, _: viewer.facets.environment is environment,
    "last_seen_after": lambda when, viewer, _: viewer.facets.last_seen_at >= when.resolved(viewer.now),
    "last_seen_before": lambda when, viewer, _: viewer.facets.last_seen_at < when.resolved(viewer.now),
    "first_seen_after": lambda when, viewer, _: viewer.facets.first_seen_at >= when.resolved(viewer.now),
    "first_seen_before": lambda when, viewer, _: viewer.facets.first_seen_at < when.resolved(viewer.now),
    "trial_ends_within": lambda days, viewer, _: _within(days, viewer),
    "billing_issue": lambda _, viewer, __: (viewer.facets.billing_issue_until or 0) > viewer.own_now,
    "platform": lambda platforms, viewer, _: (viewer.seen.platform or "").lower() in platforms,
    "app_version_from": lambda text, viewer, _: _version(viewer, lambda mine: mine >= (version_of(text) or ())),
    "app_version_below": lambda text, viewer, _: _version(viewer, lambda mine: mine < (version_of(text) or ())),
    "attribute": lambda wanted, viewer, _: viewer.attributes.get(wanted.name) in wanted.values,
    "entitlement": lambda id, viewer, _: id in viewer.entitlements,
    "no_entitlement": lambda id, viewer, _: id not in viewer.entitlements,
}
