"""Money of a purchase, with tax and commission, and all of it in USD; and what of it was given back."""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from operator import sub
from typing import NamedTuple

from latchkey.domain.instants import DAY, Duration, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import USD, MoneyBack, PartBack, Purchase, Terms, part_in_usd
from latchkey.domain.purchases.subscription import Period


class PeriodMoney(NamedTuple):
    """Millionths. `micros`, `tax` and `commission` are in the fact's currency, the others in USD at the exchange rate
    of the payment. All are parts of the customer's price: proceeds = micros - tax - commission."""

    micros: int = 0
    tax: int = 0
    commission: int = 0
    usd: int = 0
    tax_usd: int = 0
    commission_usd: int = 0
    # How many facts have an amount that no exchange rate was known for. 0 where the currency is USD.
    unconverted: int = 0


NO_MONEY = PeriodMoney()


def minus(one: PeriodMoney, other: PeriodMoney) -> PeriodMoney:
    return PeriodMoney(*map(sub, one, other))


def money_of(micros: int, price: Price, terms: Terms | None) -> PeriodMoney:
    """A price, or a part of it."""
    if not micros or not price.known:
        return NO_MONEY
    usd = micros if price.currency == USD else part_in_usd(micros, price, terms)
    tax = (terms.tax or 0.0) if terms is not None else 0.0
    commission = (terms.commission or 0.0) if terms is not None else 0.0
    paid = PeriodMoney(micros, round(micros * tax), round(micros * commission))
    if usd is None:
        return paid._replace(unconverted=1)
    return paid._replace(usd=usd, tax_usd=round(usd * tax), commission_usd=round(usd * commission))


def given_back(bought: Period | Purchase, paid: PeriodMoney) -> Iterator[tuple[int, ...]]:
    """Each time: the instant; 1 for all of a payment, 0 for a part, -1 for a refund that was reversed; and the amounts
    of `PeriodMoney`. Of several refunds in a row without a reversal between them the first one counts. A whole refund
    gives back what partial ones have left.

    If less has been given back now than once was (a partial refund failed), the difference counts on the day of the
    newest report about the payment. So does a partial refund that has no day in the state.
    """
    # Given back in part so far, and by the whole refund that stands.
    part = NO_MONEY
    rest: PeriodMoney | None = None
    told: list[PartBack | MoneyBack] = [*bought.parts_back, *bought.money_back]
    for fact in sorted(told, key=_moment):
        if isinstance(fact, PartBack):
            if rest is None and min(fact.micros, paid.micros) > part.micros:
                so_far, part = part, _part(bought, fact.micros)
                yield max(fact.at, bought.purchased_at), 0, *_between(so_far, part)
        elif not fact.reversal and rest is None:
            rest = _between(part, paid)
            yield fact.at, 1, *rest
        elif fact.reversal and rest is not None:
            yield fact.at, -1, *minus(NO_MONEY, rest)
            rest = None
    now = _part(bought, bought.given_back)
    if rest is None and now.micros != part.micros:
        told_at = bought.as_of.at if isinstance(bought, Period) else bought.told_at
        yield max(told_at or 0, bought.purchased_at), 0, *_between(part, now)


def _moment(fact: PartBack | MoneyBack) -> tuple[Ms, int]:
    """Within one millisecond a part goes before the whole."""
    return fact.at, -1 if isinstance(fact, PartBack) else fact.number


def _part(bought: Period | Purchase, micros: int) -> PeriodMoney:
    return money_of(min(micros, bought.price.micros), bought.price, bought.terms)


def _between(less: PeriodMoney, more: PeriodMoney) -> PeriodMoney:
    """What is missing from one amount to the other. Each amount that no rate is known for counts for itself."""
    found = minus(more, less)
    return found._replace(unconverted=more.unconverted if found.micros > 0 else -less.unconverted)


# The industry's convention: a month has 30 days, or 4 weeks.
_DAYS = 30
_WEEKS = 4

# The lengths that stores sell, by their days, for periods of products that are not in the catalog.
_SOLD: dict[float, Duration] = {
    **{days: Duration(days=days) for days in (1, 3, 7, 14, 28)},
    **{days: Duration(months=n) for days, n in ((30.4, 1), (60.9, 2), (91.3, 3), (182.6, 6), (365.2, 12))},
}


def monthly(micros: int, length: Duration) -> int:
    """Times 30 for a day, 10 for 3 days, 4 for a week, 2 for 2 weeks, 1 for 4 weeks and for a month; divided by 2 for 2
    months, by 3 for 3, by 6 for 6, by 12 for a year. Any other length by the same measure."""
    months_of_it, parts = _ratio(length)
    whole, rest = divmod(micros * parts, months_of_it)
    # Half a millionth goes to the even neighbour, as `round` does it.
    return whole + (2 * rest + (whole & 1) > months_of_it)


@lru_cache(maxsize=256)
def _ratio(length: Duration) -> tuple[int, int]:
    """How many months it has. Computing with fractions took longer than everything else about a price."""
    if length.days % 7 == 0 and not length.ms:
        months = length.months + Fraction(length.days // 7, _WEEKS)
    else:
        months = length.months + Fraction(length.days * DAY + length.ms, _DAYS * DAY)
    return months.as_integer_ratio()


def sold_length(span: Ms) -> Duration:
    """The sold length that is closest to this time span."""
    return _SOLD[min(_SOLD, key=lambda days: abs(days * DAY - span))]


_DAYS_A_MONTH = 365.25 / 12
# February has 28 days. Stores may round an introductory period to whole days too.
_LEEWAY = 3.5


@lru_cache(maxsize=1024)
def own_length(span: Ms) -> Duration:
    """The length of a period by its own dates, for introductory periods: whole months where it is close to them (91
    days are 3 months), else whole days."""
    days = max(1, round(span / DAY))
    whole = round(days / _DAYS_A_MONTH)
    if whole and abs(days - whole * _DAYS_A_MONTH) <= _LEEWAY:
        return Duration(months=whole)
    return Duration(days=days)
