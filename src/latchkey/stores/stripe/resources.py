"""What the adapter reads of Stripe's objects. Everything else in an answer is left alone."""

from typing import Any, Generic, TypeVar

import msgspec

from latchkey.stores.selling import CheckoutState

T = TypeVar("T")

# How a sale on a web page stands, by the status of what was created for it.
STATES = {
    # A checkout session.
    "open": CheckoutState.OPEN,
    "expired": CheckoutState.EXPIRED,
    # A subscription. Whatever else it is called was paid once.
    "incomplete": CheckoutState.OPEN,
    "incomplete_expired": CheckoutState.FAILED,
    "canceled": CheckoutState.FAILED,
    # A payment intent or a setup intent.
    "requires_payment_method": CheckoutState.OPEN,
    "requires_confirmation": CheckoutState.OPEN,
    "requires_action": CheckoutState.OPEN,
    "requires_capture": CheckoutState.PENDING,
    "processing": CheckoutState.PENDING,
}


class StripeList(msgspec.Struct, Generic[T]):
    data: list[T] = []
    has_more: bool = False


class BillingAddress(msgspec.Struct):
    country: str | None = None


class StripeCustomer(msgspec.Struct):
    id: str
    metadata: dict[str, str] = {}


class StripePrice(msgspec.Struct):
    id: str
    # Its id; an object only where somebody expanded it.
    product: str
    currency: str = ""
    unit_amount: int | None = None


class ItemOfSubscription(msgspec.Struct):
    """An item that was asked for by itself."""

    subscription: str


class SubscriptionItem(msgspec.Struct):
    id: str
    price: StripePrice
    current_period_start: int
    current_period_end: int
    created: int = 0

    @property
    def product(self) -> str:
        return product_of(self.price.product, self.price.id)


class PauseCollection(msgspec.Struct):
    resumes_at: int | None = None


class CancellationDetails(msgspec.Struct):
    reason: str | None = None


class PhaseItem(msgspec.Struct):
    # An id, or an object where somebody expanded it.
    price: Any


class Phase(msgspec.Struct):
    start_date: int
    items: list[PhaseItem] = []


class Schedule(msgspec.Struct):
    id: str
    status: str = ""
    phases: list[Phase] = []


class StripeSubscription(msgspec.Struct):
    id: str
    status: str
    created: int
    livemode: bool
    currency: str
    customer: StripeCustomer
    items: StripeList[SubscriptionItem]
    metadata: dict[str, str] = {}
    cancel_at: int | None = None
    cancel_at_period_end: bool = False
    canceled_at: int | None = None
    ended_at: int | None = None
    cancellation_details: CancellationDetails | None = None
    pause_collection: PauseCollection | None = None
    trial_start: int | None = None
    trial_end: int | None = None
    schedule: Schedule | None = None


class StripePeriod(msgspec.Struct):
    start: int
    end: int


class Amount(msgspec.Struct):
    amount: int


class Tax(msgspec.Struct):
    amount: int
    tax_behavior: str = "exclusive"


class PriceDetails(msgspec.Struct):
    price: str
    product: str


class Pricing(msgspec.Struct):
    price_details: PriceDetails | None = None


class ParentDetails(msgspec.Struct):
    subscription: str | None = None
    subscription_item: str | None = None
    invoice_item: str | None = None
    proration: bool = False


class Parent(msgspec.Struct):
    """What an invoice, one of its lines or an item that waits for its invoice was made for: one of these."""

    subscription_details: ParentDetails | None = None
    subscription_item_details: ParentDetails | None = None
    invoice_item_details: ParentDetails | None = None


class _OfParent(msgspec.Struct, kw_only=True):
    parent: Parent | None = None

    @property
    def subscription(self) -> str | None:
        details = self.parent.subscription_details if self.parent is not None else None
        return details.subscription if details is not None else None


class _InvoicePart(_OfParent, kw_only=True):
    id: str
    amount: int
    currency: str
    period: StripePeriod
    pricing: Pricing | None = None

    @property
    def product(self) -> str | None:
        details = self.pricing.price_details if self.pricing is not None else None
        return product_of(details.product, details.price) if details is not None else None


class InvoiceLine(_InvoicePart, kw_only=True):
    discount_amounts: list[Amount] | None = None
    taxes: list[Tax] | None = None

    @property
    def charged(self) -> int:
        """What it really cost: after discounts, with the tax that comes on top."""
        discounts = sum(discount_amount.amount for discount_amount in self.discount_amounts or ())
        taxes = sum(tax.amount for tax in self.taxes or () if tax.tax_behavior == "exclusive")
        return self.amount - discounts + taxes

    @property
    def item_id(self) -> str | None:
        details = self.parent.subscription_item_details if self.parent is not None else None
        return details.subscription_item if details is not None else None

    @property
    def is_proration(self) -> bool:
        if self.parent is None:
            return False
        of_item, of_invoice = self.parent.subscription_item_details, self.parent.invoice_item_details
        return bool((of_item and of_item.proration) or (of_invoice and of_invoice.proration))


class Transitions(msgspec.Struct):
    finalized_at: int | None = None
    paid_at: int | None = None


class Paid(msgspec.Struct):
    payment_intent: str | None = None
    charge: str | None = None


class InvoicePayment(msgspec.Struct):
    invoice: str = ""
    payment: Paid = msgspec.field(default_factory=Paid)


class StripeInvoice(_OfParent, kw_only=True):
    id: str
    created: int
    currency: str
    total: int
    lines: StripeList[InvoiceLine]
    status: str | None = None
    billing_reason: str | None = None
    # Of a draft: when Stripe charges.
    automatically_finalizes_at: int | None = None
    # Of an invoice that is sent to the customer.
    due_date: int | None = None
    customer_address: BillingAddress | None = None
    # What the customer owes (more than 0) or has in credit (less than 0), before and after this invoice.
    starting_balance: int = 0
    ending_balance: int | None = None
    payments: StripeList[InvoicePayment] | None = None
    status_transitions: Transitions = msgspec.field(default_factory=Transitions)

    @property
    def prorations(self) -> list[InvoiceLine]:
        return [line for line in self.lines.data if line.is_proration]

    @property
    def credit(self) -> int:
        """What of it was paid with credit, such as from an earlier change to a cheaper price."""
        if self.ending_balance is None or self.starting_balance >= 0:
            return 0
        return min(max(0, self.ending_balance - self.starting_balance), max(0, self.total))

    @property
    def paid_by(self) -> frozenset[str]:
        """The payment intents, or charges without one, that have paid it or were tried."""
        listed = self.payments.data if self.payments is not None else []
        named = (payment.payment.payment_intent or payment.payment.charge for payment in listed)
        return frozenset(one for one in named if one)


class InvoiceItem(_InvoicePart, kw_only=True):
    proration: bool = False

    @property
    def item_id(self) -> str | None:
        details = self.parent.subscription_details if self.parent is not None else None
        return details.subscription_item if details is not None else None


class BalanceMovement(msgspec.Struct):
    id: str
    amount: int
    created: int


class Refund(msgspec.Struct):
    id: str
    amount: int
    created: int
    status: str | None = None
    failure_balance_transaction: BalanceMovement | None = None

    @property
    def failed(self) -> bool:
        return self.status in ("failed", "canceled")


class Dispute(msgspec.Struct):
    id: str
    amount: int
    charge: str
    balance_transactions: list[BalanceMovement] = []


class Billed(msgspec.Struct):
    address: BillingAddress | None = None
    email: str | None = None


class Charge(msgspec.Struct):
    id: str
    amount: int
    currency: str
    created: int
    status: str = ""
    disputed: bool = False
    payment_intent: str | None = None
    billing_details: Billed | None = None
    refunds: StripeList[Refund] | None = None

    @property
    def pays(self) -> str:
        """What an invoice names as its payment."""
        return self.payment_intent or self.id

    @property
    def country(self) -> str | None:
        address = self.billing_details.address if self.billing_details is not None else None
        return address.country if address is not None else None


class SessionItem(msgspec.Struct):
    id: str
    amount_total: int
    currency: str
    price: StripePrice | None = None


class CheckoutSession(msgspec.Struct):
    id: str
    mode: str
    created: int
    livemode: bool
    status: str | None = None
    payment_status: str = ""
    client_reference_id: str | None = None
    # An object where it is expanded, as the adapter asks; an id in a list.
    customer: Any = None
    customer_details: Billed | None = None
    metadata: dict[str, str] | None = None
    payment_intent: str | None = None
    subscription: str | None = None
    line_items: StripeList[SessionItem] | None = None
    client_secret: str | None = None
    expires_at: int | None = None
    url: str | None = None

    @property
    def is_paid(self) -> bool:
        return self.payment_status in ("paid", "no_payment_required")

    @property
    def state(self) -> CheckoutState:
        if self.status == "complete":
            return CheckoutState.PAID if self.is_paid else CheckoutState.PENDING
        return STATES.get(self.status or "", CheckoutState.OPEN)


class Intent(msgspec.Struct):
    """A payment intent or a setup intent, which has no amount."""

    id: str
    created: int
    livemode: bool
    status: str
    currency: str = ""
    amount_received: int = 0
    client_secret: str | None = None
    customer: str | None = None
    payment_method: str | None = None
    metadata: dict[str, str] = {}

    @property
    def state(self) -> CheckoutState:
        return CheckoutState.PAID if self.status == "succeeded" else STATES.get(self.status, CheckoutState.OPEN)


class NamedObject(msgspec.Struct):
    """Of which only the id is read."""

    id: str


def product_of(product: str, price: str) -> str:
    return f"{product}:{price}"
