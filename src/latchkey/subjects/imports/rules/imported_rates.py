"""Exchange rates of imported payments: what two prices imply, else what the operator gave."""

from collections.abc import Iterable
from decimal import Decimal, localcontext

from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.pinned_rates import Tariff, is_estimate
from latchkey.domain.purchases.purchase import USD, Environment, Purchase, Rate, Terms
from latchkey.domain.purchases.subscription import Period, Subscription
from latchkey.subjects.imports.rules.cells import day

# So many that the price times the rate is the price in USD again, to the last millionth.
_DIGITS = 18


def implied_rate(price: Price, usd_micros: int, at: Ms) -> Rate | None:
    """None where it would say nothing: a price in USD, nothing paid, or a price that is not known."""
    if not _needs_rate(price) or usd_micros <= 0:
        return None
    with localcontext() as context:
        context.prec = _DIGITS
        rate = Decimal(usd_micros) / Decimal(price.micros)
    return Rate(format(rate.normalize(), "f"), day(at))


def with_rates(bought: Subscription | Purchase, tariff: Tariff) -> Subscription | Purchase:
    """With the operator's rate where the file tells of tax or commission only. Where it tells of nothing, the terms are
    found as for any new payment."""
    if isinstance(bought, Purchase):
        return replace(bought, terms=_rated(bought, bought.store, tariff)) if _lacks_rate(bought) else bought
    if not any(map(_lacks_rate, bought.periods)):
        return bought
    store = bought.store
    periods = (replace(one, terms=_rated(one, store, tariff)) if _lacks_rate(one) else one for one in bought.periods)
    return replace(bought, periods=tuple(periods))


def without_rate(bought: Iterable[Subscription | Purchase]) -> set[str]:
    """The currencies of payments in production whose amount in USD is an estimate."""
    found: set[str] = set()
    for one in bought:
        if one.environment is Environment.PRODUCTION:
            payments: tuple[Period | Purchase, ...] = (one,) if isinstance(one, Purchase) else one.periods
            found.update(
                each.price.currency
                for each in payments
                if each.terms is not None and is_estimate(each.price, each.terms.rate)
            )
    return found


def _lacks_rate(payment: Period | Purchase) -> bool:
    return payment.terms is not None and payment.terms.rate is None and _needs_rate(payment.price)


def _needs_rate(price: Price) -> bool:
    return price.known and price.currency != USD and price.micros > 0


def _rated(payment: Period | Purchase, store: str, tariff: Tariff) -> Terms:
    assert payment.terms is not None, "asked only where there are some"
    at, subscription = payment.purchased_at, isinstance(payment, Period)
    found = tariff.terms(payment.price, store, payment.country, at, subscription=subscription)
    return replace(payment.terms, rate=found.rate)
