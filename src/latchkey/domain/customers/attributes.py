"""Customer attributes: the newer timestamp wins, an empty value deletes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from latchkey.domain.customers.customer import Attribute, Customer
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.replacing import replace

MAX_NAME = 40
MAX_VALUE = 500
MAX_COUNT = 100
# How far the clock of a phone may be ahead of ours.
CLOCK_SKEW: Ms = 5 * MINUTE

_NAME = re.compile(r"\$?[A-Za-z0-9_][A-Za-z0-9_.\- ]*")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def problem_with_attribute(name: str, value: str | None) -> str | None:
    """Why this attribute cannot be stored, worded for the caller; None if it can."""
    if len(name) > MAX_NAME:
        return f"The name has {len(name)} characters; at most {MAX_NAME} are allowed."
    if _NAME.fullmatch(name) is None:
        return "A name is made of letters, digits, '_', '-', '.' and spaces; a leading '$' marks a reserved one."
    if value is not None and len(value) > MAX_VALUE:
        return f"The value has {len(value)} characters; at most {MAX_VALUE} are allowed."
    if name == "$email" and value and _EMAIL.fullmatch(value) is None:
        return "The value of $email is not an e-mail address."
    return None


def not_later_than(now: Ms, changes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """A timestamp more than `CLOCK_SKEW` ahead is replaced by `now`. Otherwise a phone with a wrong clock, or anybody
    with an app's public key, could set a value that no later change replaces."""
    latest = now + CLOCK_SKEW
    return {name: one if one.updated_at <= latest else replace(one, updated_at=now) for name, one in changes.items()}


def with_attributes(customer: Customer, changes: Mapping[str, Attribute]) -> Customer:
    """A deleted attribute stays as an empty value, so that an older one arriving late cannot bring it back."""
    known = dict(customer.attributes)
    for name, attribute in changes.items():
        before = known.get(name)
        if before is None or attribute.updated_at > before.updated_at:
            known[name] = attribute
    known = _without_oldest_markers(known)
    return customer if known == customer.attributes else replace(customer, attributes=known)


def set_now(customer: Customer, values: Mapping[str, str | None], now: Ms) -> Customer:
    """An operator sets these values; null deletes. They win over what is stored, whatever a phone's clock said."""
    known = customer.attributes
    dated = {
        name: Attribute(value or "", max(now, known[name].updated_at + 1) if name in known else now)
        for name, value in values.items()
        if value or name in known
    }
    return with_attributes(customer, dated)


def _without_oldest_markers(known: dict[str, Attribute]) -> dict[str, Attribute]:
    """Markers of deleted attributes only serve late arrivals, so their number is limited."""
    markers = sorted((one.updated_at, name) for name, one in known.items() if not one.value)
    forgotten = {name for _, name in markers[:-MAX_COUNT]}
    return {name: one for name, one in known.items() if name not in forgotten} if forgotten else known


def visible(customer: Customer) -> dict[str, Attribute]:
    noted = customer.attributes
    return {name: attribute for name, attribute in sorted(noted.items()) if attribute.value} if noted else {}
