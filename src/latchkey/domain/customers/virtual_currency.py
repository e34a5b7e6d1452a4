"""Virtual currency: balances that never go below zero. That of a purchase is credited when paid, and debited when
refunded, as far as it is unspent."""

from collections.abc import Iterator

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Credit
from latchkey.domain.customers.customer import CurrencyTransaction, Customer, put_purchase
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.refusal import Refusal

# JSON numbers stay exact up to here in every client language.
MAX_BALANCE = 2**53 - 1


def move(customer: Customer, movement: CurrencyTransaction) -> Customer:
    """The customer after a credit (positive amount) or a debit (negative)."""
    balance = customer.balances.get(movement.code, 0) + movement.amount
    if balance < 0:
        raise Refusal(
            f"The balance of {movement.code} is {balance - movement.amount}; {-movement.amount} cannot be taken.",
            param="adjustments",
        )
    if balance > MAX_BALANCE:
        raise Refusal(f"The balance of {movement.code} would pass {MAX_BALANCE}.", param="adjustments")
    return replace(
        customer,
        balances={**customer.balances, movement.code: balance},
        currency_transactions=(*customer.currency_transactions, movement),
    )


def unsettled(before: Customer, after: Customer, catalog: Catalog) -> Iterator[tuple[Purchase, Credit]]:
    """The purchases that this change paid, refunded or un-refunded, with what each credits."""
    if after.purchases == before.purchases:
        return
    for purchase in after.purchases:
        product = catalog.find(purchase.product_id) if purchase.kind is PurchaseKind.ONE_TIME else None
        if product is None or product.credits is None:
            continue
        was = before.purchase(purchase.store, purchase.id)
        if (was is not None and was.refunded_at is None) != (purchase.refunded_at is None):
            yield purchase, product.credits


def settle(credited: Customer, purchase: Purchase, credit: Credit, now: Ms) -> tuple[Customer, Purchase]:
    """The customer who was credited, and the purchase, after the credit was given or taken back."""
    # A reversed refund credits only what the refund had debited; what had been spent was never debited.
    owed = credit.amount - purchase.credited
    taken = min(purchase.credited, credited.balances.get(credit.code, 0))
    amount = owed if purchase.refunded_at is None else -taken
    if amount == 0:
        return credited, purchase
    number = len(purchase.money_back)
    # A store's clock may be ahead of ours. The purchase, or its refund, comes first all the same.
    at = max(now, purchase.money_back[-1].at if purchase.money_back else purchase.purchased_at)
    movement = CurrencyTransaction(
        movement_id(purchase.store, purchase.id, number), credit.code, amount, at, purchase.product_id
    )
    return move(credited, movement), replace(purchase, credited=purchase.credited + amount)


def credited_before(purchase: Purchase, credit: Credit) -> Purchase:
    """A purchase that somebody was credited with before it came to its present owner."""
    return replace(purchase, credited=credit.amount)


def settle_own(before: Customer, after: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The customer after the credits of all its purchases. None of the purchases may have belonged to another
    customer."""
    for purchase, credit in unsettled(before, after, catalog):
        after, settled = settle(after, purchase, credit, now)
        after = put_purchase(after, settled)
    return after


def movement_id(store: str, purchase_id: str, number: int) -> str:
    """The id of the credit or debit after `number` refunds and reversals."""
    return f"{store}:{purchase_id}:{number}"


def movement_ids(purchase: Purchase) -> list[str]:
    """The ids of all credits and debits that this purchase may have caused so far."""
    return [movement_id(purchase.store, purchase.id, number) for number in range(len(purchase.money_back) + 1)]
