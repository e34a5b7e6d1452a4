"""For how long access can be granted; `domain/customers/promotion.py` says what each means."""

from __future__ import annotations

from typing import Literal

GrantLength = Literal[
    "daily",
    "three_day",
    "weekly",
    "two_week",
    "monthly",
    "two_month",
    "three_month",
    "six_month",
    "yearly",
    "lifetime",
]
