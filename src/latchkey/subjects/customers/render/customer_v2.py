"""A customer as V2 shows it."""

from operator import attrgetter

from msgspec import UNSET

from latchkey.domain.access.entitlements import held
from latchkey.domain.customers.customer import visible
from latchkey.engine.reads import CustomerView, lifetime_end
from latchkey.wire import v2
from latchkey.wire.paging import DEFAULT_LIMIT, page, path_of


def customer(view: CustomerView) -> v2.Customer:
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


def active_entitlements(view: CustomerView, limit: int, starting_after: str | None) -> v2.Page[v2.ActiveEntitlement]:
    path = f"{customer_path(view)}/active_entitlements"
    return page(_active_entitlements(view), _entitlement_id, path, limit, starting_after)


def attributes(view: CustomerView, limit: int, starting_after: str | None) -> v2.Page[v2.Attribute]:
    return page(_attributes(view), _name, f"{customer_path(view)}/attributes", limit, starting_after)


def _active_entitlements(view: CustomerView) -> list[v2.ActiveEntitlement]:
    return [
        v2.ActiveEntitlement(
            entitlement_id=access.entitlement_id,
            expires_at=access.ends_at if access.ends_at is not None else lifetime_end(access.purchased_at),
        )
        for access in held(view.customer, view.catalog).values()
        if access.is_active(view.now)
    ]


def _attributes(view: CustomerView) -> list[v2.Attribute]:
    return [
        v2.Attribute(name=name, value=one.value, updated_at=one.updated_at)
        for name, one in visible(view.customer).items()
    ]


_entitlement_id = attrgetter("entitlement_id")
_name = attrgetter("name")


def customer_path(view: CustomerView) -> str:
    return path_of(view.customer.project_id, view.customer.app_user_id)


def _experiment(view: CustomerView) -> v2.ExperimentEnrollment:
    last = view.customer.enrollments[-1]
    return v2.ExperimentEnrollment(id=last.experiment_id, name=last.name, variant=last.variant_id)
