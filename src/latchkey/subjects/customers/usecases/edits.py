"""What is set for a customer: attributes, and grants by the operator. And a project's customers, page by page."""

from collections.abc import Mapping

from latchkey.database.pool import Database
from latchkey.domain.customers import promotion
from latchkey.domain.customers.customer import (
    MAX_COUNT,
    Attribute,
    Customer,
    not_later_than,
    set_now,
    visible,
    with_attributes,
)
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.engine.changes import Change, Changes, Committed, Situation
from latchkey.subjects.customers import storage
from latchkey.subjects.customers.rules.spend import ListedCustomer
from latchkey.subjects.customers.storage import Alias


async def set_attributes(
    changes: Changes, project_id: str, app_user_id: str, attributes: Mapping[str, Attribute], *, create: bool
) -> Committed:
    # The wall clock, even for a customer on a test clock: the sender's device has no other clock.
    dated = not_later_than(changes.now(), attributes)

    def noted(situation: Situation) -> Customer:
        return _within_limit(situation.customer, with_attributes(situation.customer, dated))

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=noted, create=create))


async def put_attributes(
    changes: Changes, project_id: str, app_user_id: str, values: Mapping[str, str | None]
) -> Committed:
    """An operator sets attributes of an existing customer now; null deletes one."""
    # The wall clock, as for those that phones send.
    now = changes.now()

    def noted(situation: Situation) -> Customer:
        return _within_limit(situation.customer, set_now(situation.customer, values, now))

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=noted))


def _within_limit(before: Customer, after: Customer) -> Customer:
    # A receipt may exceed the limit, because refusing it would lose a purchase. Such customers may still change and
    # delete attributes.
    if len(visible(after)) > max(MAX_COUNT, len(visible(before))):
        raise Refusal(f"A customer has at most {MAX_COUNT} attributes.", param="attributes")
    return after


async def grant(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    entitlement_id: str,
    *,
    ends_at: Ms | None = None,
    duration: str | None = None,
    counted_from: Ms | None = None,
    create: bool = False,
) -> Committed:
    """Until `ends_at`, or for a named duration from now (or from `counted_from`), or for ever."""

    def granted(situation: Situation) -> Customer:
        _known(situation, entitlement_id)
        end = promotion.end_of(duration, counted_from or situation.now) if duration is not None else ends_at
        return promotion.grant(situation.customer, entitlement_id, end, situation.now, duration=duration)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=granted, create=create))


async def revoke(changes: Changes, project_id: str, app_user_id: str, entitlement_id: str) -> Committed:
    """Ends every active promotional grant of this entitlement; purchases are not affected."""

    def revoked(situation: Situation) -> Customer:
        _known(situation, entitlement_id)
        return promotion.revoke(situation.customer, entitlement_id, situation.now)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=revoked))


def _known(situation: Situation, entitlement_id: str) -> None:
    if entitlement_id not in situation.catalog.entitlements:
        raise NotFound(f"There is no entitlement {entitlement_id!r} in this project.", param="entitlement_id")


async def list_customers(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100, email: str | None = None
) -> list[ListedCustomer]:
    """By id. With `email`, those whose attribute $email is this address, in any case."""
    async with database.acquire() as connection:
        return await storage.page(connection, project_id, after, limit, email)


async def list_aliases(database: Database, project_id: str, customer_key: int) -> list[Alias]:
    """All ids of a customer, sorted."""
    async with database.acquire() as connection:
        found = await storage.aliases(connection, project_id, customer_key)
    return sorted(found, key=lambda one: one.app_user_id)
