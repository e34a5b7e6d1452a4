"""Setting a customer's attributes."""

from __future__ import annotations

from collections.abc import Mapping

from latchkey.domain.customers.customer import (
    MAX_COUNT,
    Attribute,
    Customer,
    not_later_than,
    set_now,
    visible,
    with_attributes,
)
from latchkey.domain.refusal import Refusal
from latchkey.usecases.engine.changes import Change, Changes, Committed, Situation


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
