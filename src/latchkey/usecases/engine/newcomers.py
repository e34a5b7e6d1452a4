"""Creates new customers. The random id of the record is drawn here, because the rules use no randomness."""

from __future__ import annotations

from uuid import uuid4

from latchkey.domain.customers import customer
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms


def newcomer(project_id: str, app_user_id: str, now: Ms, test_clock_id: str | None = None) -> Customer:
    return customer.newcomer(project_id, app_user_id, now, test_clock_id, record=uuid4().hex)
