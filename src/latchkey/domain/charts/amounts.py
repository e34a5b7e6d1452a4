"""Money of a purchase, with tax and commission, and all of it in USD; and what of it was given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from latchkey.domain.charts.fact import NO_MONEY, Money, minus, negative
from latchkey.domain.instants import Ms
from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import USD, MoneyBack, PartBack, Purchase, Terms, part_in_usd
from latchkey.domain.purchases.subscription import Period


def money_of(micros: int, price: Price, terms: Terms | None) -> Money:
    """A price, or a part of it."""
    if not micros or not price.known:
        return NO_MONEY
    usd = micros if price.currency == USD else part_in_usd(micros, price, terms)
    return _with_shares(micros, usd, terms)


def _with_shares(micros: int, usd: int | None, terms: Terms | None) -> Money:
    tax = (terms.tax or 0.0) if terms is not None else 0.0
    commission = (terms.commission or 0.0) if terms is not None else 0.0
    if usd is None:
        return Money(micros, round(micros * tax), round(micros * commission), unconverted=1)
    if not tax and not commission:
        return Money(micros, 0, 0, usd)
    return Money(
        micros, round(micros * tax), round(micros * commission), usd, round(usd * tax), round(usd * commission)
    )


class Back(NamedTuple):
    """Money given back: all of a payment (`whole` 1), a part of it (0), or a refund that was reversed (-1)."""

    at: Ms
    whole: int
    money: Money


def given_back(bought: Period | Purchase, paid: Money) -> Iterator[Back]:
    """Each on its own day. Of several refunds in a row without a reversal between them the first one counts. A whole
    refund gives back what partial ones have left.

    If less has been given back now than once was (a partial refund failed), the difference counts on the day of the
    newest report about the payment. So does a partial refund that has no day in the state.
    """
    # Given back in part so far, and by the whole refund that stands.
    part = NO_MONEY
    rest: Money | None = None
    told: list[PartBack | MoneyBack] = [*bought.parts_back, *bought.money_back]
    for fact in sorted(told, key=_moment):
        if isinstance(fact, PartBack):
            if rest is None and min(fact.micros, paid.micros) > part.micros:
                so_far, part = part, _part(bought, fact.micros)
                yield Back(max(fact.at, bought.purchased_at), 0, _between(so_far, part))
        elif not fact.reversal and rest is None:
            rest = _between(part, paid)
            yield Back(fact.at, 1, rest)
        elif fact.reversal and rest is not None:
            yield Back(fact.at, -1, negative(rest))
            rest = None
    now = _part(bought, bought.given_back)
    if rest is None and now.micros != part.micros:
        told_at = bought.as_of.at if isinstance(bought, Period) else bought.told_at
        yield Back(max(told_at or 0, bought.purchased_at), 0, _between(part, now))


def _moment(fact: PartBack | MoneyBack) -> tuple[Ms, int]:
    """Within one millisecond a part goes before the whole."""
    return fact.at, -1 if isinstance(fact, PartBack) else fact.number


def _part(bought: Period | Purchase, micros: int) -> Money:
    return money_of(min(micros, bought.price.micros), bought.price, bought.terms)


def _between(less: Money, more: Money) -> Money:
    """What is missing from one amount to the other. Each amount that no rate is known for counts for itself."""
    found = minus(more, less)
    return found._replace(unconverted=more.unconverted if found.micros > 0 else -less.unconverted)
