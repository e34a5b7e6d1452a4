"""The vendor's Customer List export: customers who may never have bought anything. Purchases come from the transaction
export; what this one says of them is ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from latchkey.domain.customers.customer import Attribute
from latchkey.domain.importing import cells as read
from latchkey.domain.importing.row import CustomerRow
from latchkey.domain.instants import Ms

NEEDED = frozenset({"app_user_id", "first_seen_at", "last_seen_at"})
# Columns that are attributes with a reserved name.
_RESERVED = {
    "email": "$email",
    "phone_number": "$phoneNumber",
    "media_source": "$mediaSource",
    "campaign": "$campaign",
    "ad_group": "$adGroup",
    "ad": "$ad",
    "keyword": "$keyword",
    "creative": "$creative",
    "idfa": "$idfa",
    "idfv": "$idfv",
    "gps_ad_id": "$gpsAdId",
}
_GAP = re.compile(r"[^a-z0-9]+")


def plain(name: str) -> str:
    """`App User ID` is `app_user_id`."""
    return _GAP.sub("_", name.strip().lower()).strip("_")


def customer(titled: Mapping[str, Any]) -> CustomerRow:
    cells = {plain(name): value for name, value in titled.items()}
    first_seen_at, last_seen_at = read.instant(cells, "first_seen_at"), read.instant(cells, "last_seen_at")
    as_of = last_seen_at or first_seen_at or 0
    left_out: list[str] = []
    noted = _reserved(cells, as_of, left_out) | read.attributes(cells, "custom_attributes", as_of, left_out)
    return CustomerRow(
        app_user_id=read.required(read.user_id(cells, "app_user_id"), "app_user_id"),
        attributes=noted,
        first_seen_at=first_seen_at,
        last_seen_at=last_seen_at,
        last_seen_platform=read.store_id(cells, "last_seen_platform"),
        last_seen_platform_version=read.store_id(cells, "last_seen_platform_version"),
        last_seen_app_version=read.store_id(cells, "last_seen_app_version"),
        last_seen_country=read.country(cells, "last_seen_ip_country"),
        as_of=as_of,
        left_out=tuple(left_out),
    )


def _reserved(cells: Mapping[str, Any], at: Ms, left_out: list[str]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for column, name in _RESERVED.items():
        value = read.text(cells, column)
        if value is None:
            continue
        if reason := read.problem_with_attribute_here(name, value):
            left_out.append(reason)
        else:
            found[name] = Attribute(value, at)
    return found
