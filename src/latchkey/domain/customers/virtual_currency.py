"""Virtual currency: balances that never go below zero. That of a purchase is credited when paid, as far as there is
room, debited when refunded, as far as it is unspent, and credited again when the refund is reversed."""

from collections.abc import Iterator

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog
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


def unsettled(before: Customer, after: Customer, catalog: Catalog) -> Iterator[Purchase]:
    """The purchases that this change paid, refunded or un-refunded, each with what it credits. Only the first time that
    is what the catalog says: the product may change later. An imported purchase credits nothing."""
    if after.purchases == before.purchases:
        return
    for purchase in after.purchases:
        product = catalog.find(purchase.product_id) if purchase.kind is PurchaseKind.ONE_TIME else None
        credit = product.credits if product is not None else None
        if credit is None and purchase.credited_code is None:
            continue
        was = before.purchase(purchase.store, purchase.id)
        if was is not None and (was.refunded_at is None) == (purchase.refunded_at is None):
            continue
        if credit is not None and purchase.credited_code is None:
            owed = credit.amount if was is None else 0
            purchase = replace(purchase, credited_code=credit.code, credit_owed=owed)
        yield purchase


def settle(credited: Customer, purchase: Purchase, now: Ms) -> tuple[Customer, Purchase]:
    """The customer who was credited, and the purchase, after the credit was given or taken back."""
    code = purchase.credited_code
    assert code is not None, "only of purchases that are `unsettled`"
    # A reversed refund credits only what the refund had debited; what had been spent was never debited.
    balance = credited.balances.get(code, 0)
    given, taken = min(purchase.credit_owed, MAX_BALANCE - balance), min(purchase.credited, balance)
    amount = given if purchase.refunded_at is None else -taken
    if amount == 0:
        return credited, purchase
    number = len(purchase.money_back)
    # A store's clock may be ahead of ours. The purchase, or its refund, comes first all the same.
    at = max(now, purchase.money_back[-1].at if purchase.money_back else purchase.purchased_at)
    movement = CurrencyTransaction(
        movement_id(purchase.store, purchase.id, number), code, amount, at, purchase.product_id
    )
    settled = replace(purchase, credited=purchase.credited + amount, credit_owed=purchase.credit_owed - amount)
    return move(credited, movement), settled


def credited_before(purchase: Purchase) -> Purchase:
    """A purchase that somebody was credited with before it came to its present owner."""
    paid = purchase.refunded_at is None
    return replace(purchase, credited=purchase.credit_owed, credit_owed=0) if paid else purchase


def settle_own(before: Customer, after: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The customer after the credits of all its purchases. None of the purchases may have belonged to another
    customer."""
    for purchase in unsettled(before, after, catalog):
        after, settled = settle(after, purchase, now)
        after = put_purchase(after, settled)
    return after


def movement_id(store: str, purchase_id: str, number: int) -> str:
    """The id of the credit or debit after `number` refunds and reversals."""
    return f"{store}:{purchase_id}:{number}"


def movement_ids(purchase: Purchase) -> list[str]:
    """The ids of all credits and debits that this purchase may have caused so far."""
    return [movement_id(purchase.store, purchase.id, number) for number in range(len(purchase.money_back) + 1)]
