"""Writing the facets of customers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latchkey.domain.customers.facets import Facets
from latchkey.storage.arrays import columns
from latchkey.storage.customer_lists.progress import Roll
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_WRITE = query("write_facets")
# Between the parts of a list. No id contains control characters.
_SEPARATOR = "\x1f"

CustomerKey = tuple[str, int]
"""A customer's project and key."""


async def write(
    connection: Connection, gone: Sequence[CustomerKey], kept: Mapping[CustomerKey, Facets], rolled: Sequence[Roll]
) -> None:
    """One statement. The caller has locked the `facet_rolls` rows of all these projects."""
    await connection.execute(
        _WRITE,
        *columns([one for one in gone if one not in kept], 2, range(2)),
        *columns([(*place, *_values(facets)) for place, facets in sorted(kept.items())], 21, (18, 20)),
        *columns([_stored(one) for one in rolled], 6, range(6)),
    )


def _values(facets: Facets) -> tuple[Any, ...]:
    return (
        facets.environment,
        facets.test_clock_id,
        facets.first_seen_at,
        facets.last_seen_at,
        facets.country,
        facets.runs_until,
        facets.renews_until,
        facets.trial_until,
        facets.grace_from,
        facets.grace_until,
        facets.billing_issue_until,
        facets.granted_until,
        facets.bought,
        facets.owns,
        facets.spent_usd,
        facets.refunded_usd,
        _SEPARATOR.join(facets.products),
        ",".join(map(str, facets.product_untils)),
        _SEPARATOR.join(facets.stores),
    )


def _stored(roll: Roll) -> tuple[Any, ...]:
    count = roll.count
    return roll.project_id, roll.position, count.counted, count.mark_id, count.mark_xid, count.marked_at
