"""Customers seen for the first time. Each gets the name of its record here, because the rules draw no lots."""

from __future__ import annotations

from uuid import uuid4

from latchkey.domain.customers import customer
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms


def newcomer(project_id: str, app_user_id: str, now: Ms, test_clock_id: str | None = None) -> Customer:
    return customer.newcomer(project_id, app_user_id, now, test_clock_id, record=uuid4().hex)
