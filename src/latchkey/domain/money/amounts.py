"""Money as integers."""

from decimal import Decimal, InvalidOperation
from functools import lru_cache

from msgspec import Struct

MICROS = 1_000_000
DECIMALS = 6
# A higher price is a mistake, for example cents sent as units.
HIGHEST = 1_000_000
# Of a number as somebody has written it: to count with 1e1000000 is an error, or takes hours.
_LONGEST = 100


class Price(Struct, frozen=True):
    """Millionths of a currency unit, so that sums never drift."""

    micros: int
    currency: str

    @property
    def amount(self) -> float:
        return self.micros / MICROS

    @property
    def known(self) -> bool:
        return self.currency != NO_CURRENCY


FREE = Price(0, "USD")
# ISO 4217 has this code for "no currency".
NO_CURRENCY = "XXX"
# The store does not say what was paid. Not the same as nothing.
UNKNOWN = Price(0, NO_CURRENCY)


# A file to import has a handful of prices.
@lru_cache(maxsize=16_384)
def decimal_of(written: str) -> Decimal | None:
    """None if it is not a number that one can count with."""
    try:
        value = Decimal(written[: _LONGEST + 1])
    except InvalidOperation:
        return None
    return value if value.is_finite() and len(written) <= _LONGEST and value.adjusted() < _LONGEST else None


def to_micros(amount: float) -> int:
    """An amount as a person writes it (9.99), in millionths; the ValueError says why it is not a valid price."""
    # str() gives the shortest decimal for a float, which is what the person wrote; the binary value differs from it.
    exact = Decimal(str(amount))
    if not exact.is_finite() or not 0 <= exact <= HIGHEST:
        raise ValueError(f"A price is from 0 to {HIGHEST:,}.")
    scaled = exact.scaleb(DECIMALS)
    if scaled != scaled.to_integral_value():
        raise ValueError(f"A price has at most {DECIMALS} decimals.")
    return int(scaled)
