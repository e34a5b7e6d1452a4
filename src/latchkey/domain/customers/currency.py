"""Virtual currency: balances that never go below zero."""

from __future__ import annotations

from msgspec.structs import replace

from latchkey.domain.customers.customer import CurrencyTransaction, Customer
from latchkey.domain.refusal import InsufficientBalance

# JSON numbers stay exact up to here in every client language.
MAX_BALANCE = 2**53 - 1


def move(customer: Customer, movement: CurrencyTransaction) -> Customer:
    """The customer after a credit (positive amount) or a debit (negative)."""
    balance = customer.balances.get(movement.code, 0) + movement.amount
    if balance < 0:
        raise InsufficientBalance(
            f"The balance of {movement.code} is {balance - movement.amount}; {-movement.amount} cannot be taken.",
            param="adjustments",
        )
    if balance > MAX_BALANCE:
        raise InsufficientBalance(f"The balance of {movement.code} would pass {MAX_BALANCE}.", param="adjustments")
    return replace(
        customer,
        balances={**customer.balances, movement.code: balance},
        currency_transactions=(*customer.currency_transactions, movement),
    )
