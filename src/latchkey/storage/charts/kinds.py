"""Kinds of facts as numbers. Stored: never change or reuse one."""

from __future__ import annotations

from typing import Final

from latchkey.domain.charts.fact import Kind

CODES: Final[dict[Kind, int]] = {
    Kind.PAYMENT: 1,
    Kind.REFUND: 2,
    Kind.REFUNDED_PAYMENT: 3,
    Kind.ACTIVE: 4,
    Kind.NEW: 5,
    Kind.RETURN: 6,
    Kind.EXPANSION: 7,
    Kind.CONTRACTION: 8,
    Kind.CHURN: 9,
    Kind.TRIAL: 10,
    Kind.TRIAL_STARTED: 11,
    Kind.TRIAL_ENDED: 12,
    Kind.RENEWAL_DUE: 13,
    Kind.RENEWED: 14,
    Kind.STATUS: 15,
    Kind.BILLING_ISSUE: 16,
    Kind.CUSTOMER: 17,
    Kind.PAYING_CUSTOMER: 18,
    Kind.SEEN_REVENUE: 19,
    Kind.SEEN_PAYER: 20,
    Kind.SEEN_CONVERTED: 21,
    Kind.RETAINED: 22,
    Kind.RETAINED_SOON: 23,
    Kind.ENROLLED: 24,
    Kind.ENROLLED_CONVERTED: 25,
    Kind.ENROLLED_PAYER: 26,
    Kind.ENROLLED_REVENUE: 27,
    Kind.ENROLLED_SQUARE: 28,
}
KINDS: Final[dict[int, Kind]] = {code: kind for kind, code in CODES.items()}
