"""Stripe's amounts, in the smallest unit of their currency, as prices, and which part of a payment went back. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import MoneyBack
from latchkey.stores.stripe.resources import BillingAddress, Charge, Dispute

# Currencies without a smaller unit. UGX and ISK have none either, but Stripe writes both with two decimals.
_WHOLE = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_THREE = frozenset(["BHD", "JOD", "KWD", "OMR", "TND"])


def decimals(currency: str) -> int:
    code = currency.upper()
    return 0 if code in _WHOLE else 3 if code in _THREE else 2


def price_of(amount: int, currency: str) -> Price:
    return Price(micros(amount, currency), currency.upper())


def micros(amount: int, currency: str) -> int:
    return int(amount * 10 ** (6 - decimals(currency)))


def country_of(charges: Iterable[Charge], address: BillingAddress | None) -> str | None:
    """Of a charge, else of the address: ISO 3166 with two letters."""
    known = next((charge.country for charge in charges if charge.country), address.country if address else None)
    return known.upper() if known else None


class GoneBack(Struct, frozen=True):
    # All of it went back, and maybe came again.
    facts: tuple[MoneyBack, ...] = ()
    # A part of it is back now, in the smallest unit of the currency. 0 where all of it is.
    part: int = 0
    # How much of it was back, since when, while it was not all of it.
    parts: tuple[tuple[Ms, int], ...] = ()


NOTHING = GoneBack()


def gone_back(charges: Iterable[Charge], disputes: Mapping[str, tuple[Dispute, ...]]) -> GoneBack:
    """Of everything that was paid with these charges. `disputes` by the id of their charge."""
    paid = [charge for charge in charges if charge.status == "succeeded" and charge.amount > 0]
    whole = sum(charge.amount for charge in paid)
    if not whole:
        return NOTHING
    moves = sorted(move for charge in paid for move in _moves(charge, disputes.get(charge.id, ())))
    facts: list[MoneyBack] = []
    parts: list[tuple[Ms, int]] = []
    back = 0
    for at, _, amount in moves:
        was, back = back >= whole, back + amount
        if (back >= whole) != was:
            number = facts[-1].number + 1 if facts and facts[-1].at == at else 0
            facts.append(MoneyBack(at, number, reversal=was))
        if 0 < back < whole:
            parts.append((at, back))
    return GoneBack(tuple(facts), back if 0 < back < whole else 0, tuple(parts))


def _moves(charge: Charge, disputes: Iterable[Dispute]) -> Iterable[tuple[Ms, int, int]]:
    """What went back (more than 0) and what came again, each with its moment. Of one moment, what went back first."""
    for refund in charge.refunds.data if charge.refunds is not None else ():
        yield refund.created * 1000, 0, refund.amount
        if refund.failed:
            came = refund.failure_balance_transaction
            yield (came.created if came is not None else refund.created) * 1000, 1, -refund.amount
    for dispute in disputes:
        # The movements are in the currency of the account, the dispute in that of the charge.
        for moved in dispute.balance_transactions:
            if moved.amount:
                away = moved.amount < 0
                yield moved.created * 1000, int(not away), dispute.amount if away else -dispute.amount
