"""The end date of access that never ends, for fields that must hold one: 200 calendar years after the purchase."""

from __future__ import annotations

from functools import lru_cache

from latchkey.domain.instants import Duration, Ms, add
from latchkey.wire.lifetime import LIFETIME_YEARS

_LIFETIME = Duration(months=12 * LIFETIME_YEARS)


# The same customers are read repeatedly.
@lru_cache(maxsize=4096)
def lifetime_end(purchased_at: Ms) -> Ms:
    return add(purchased_at, _LIFETIME)
