"""Stripe's own books: what is sold, to whom, what was invoiced and paid. Times are seconds and amounts are the
currency's smallest unit, as Stripe has them."""

import hashlib
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from latchkey.domain.instants import DAY, HOUR, SECOND, Duration, add, day_of_month
from latchkey.domain.refusal import Invalid
from latchkey.emulators.control_requests import price_of

Seconds: TypeAlias = int
Interval: TypeAlias = Literal["day", "week", "month", "year"]
# What Stripe does when every try to collect a payment has failed.
AfterFailure: TypeAlias = Literal["cancel", "unpaid", "past_due"]
NoCard: TypeAlias = Literal["cancel", "pause", "create_invoice"]

HOUR_S: Seconds = HOUR // SECOND
DAY_S: Seconds = DAY // SECOND
# Currencies whose smallest unit is not a hundredth. Amounts in ISK and UGX have two decimals at Stripe, always 00.
NO_DECIMALS = frozenset(
    ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf")
)
THREE_DECIMALS = frozenset(("bhd", "jod", "kwd", "omr", "tnd"))
# How many events are kept.
MOST_EVENTS = 5_000


class StripeStatus(StrEnum):
    INCOMPLETE = "incomplete"
    INCOMPLETE_EXPIRED = "incomplete_expired"
    TRIALING = "trialing"
    ACTIVE = "active"
    PAST_DUE = "past_due"
    UNPAID = "unpaid"
    PAUSED = "paused"
    CANCELED = "canceled"


OVER = (StripeStatus.CANCELED, StripeStatus.INCOMPLETE_EXPIRED)


class StripeRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: Seconds
    metadata: dict[str, str] = {}


class StripeProduct(StripeRecord, frozen=True, kw_only=True):
    name: str
    active: bool = True


class StripePrice(StripeRecord, frozen=True, kw_only=True):
    product: str
    amount: int
    # In lower case.
    currency: str
    # None for a price that is paid once.
    interval: Interval | None = None
    count: int = 1
    # How long a sale with a trial is free.
    trial: Duration | None = None
    active: bool = True

    @property
    def name(self) -> str:
        """As the emulator and Latchkey call it."""
        return f"{self.product}:{self.id}"


class StripeCustomer(StripeRecord, frozen=True, kw_only=True):
    name: str | None = None
    email: str | None = None
    country: str | None = None
    # Below zero: a credit that the next invoices use up.
    balance: int = 0


class StripeItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    price: str
    created: Seconds
    starts: Seconds
    ends: Seconds
    quantity: int = 1


class StripePause(msgspec.Struct, frozen=True, kw_only=True):
    behavior: Literal["void", "keep_as_draft", "mark_uncollectible"] = "void"
    resumes_at: Seconds | None = None


class InvoiceLine(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    item: str
    price: str
    amount: int
    starts: Seconds
    ends: Seconds
    description: str
    quantity: int = 1
    proration: bool = False


class StripeSubscription(StripeRecord, frozen=True, kw_only=True):
    customer: str
    currency: str
    items: tuple[StripeItem, ...]
    status: StripeStatus
    # The billing dates follow this moment.
    anchor: Seconds
    trial_start: Seconds | None = None
    trial_end: Seconds | None = None
    # The notice that the trial will end has been sent.
    trial_warned: bool = False
    cancel_at_period_end: bool = False
    cancel_at: Seconds | None = None
    canceled_at: Seconds | None = None
    ended_at: Seconds | None = None
    cancel_reason: str | None = None
    pause: StripePause | None = None
    # The price of the next period, and the schedule that says so.
    next_price: str | None = None
    schedule: str | None = None
    latest_invoice: str | None = None
    setup: str | None = None
    sends_invoices: bool = False
    days_until_due: int | None = None
    # Prorations that the next invoice will have.
    pending: tuple[InvoiceLine, ...] = ()
    # How the emulated customer and the account behave: payments fail from now on; the waits between tries in days; what
    # follows the last one; how long an invoice is a draft; what follows a trial without a card (None: there is a card).
    failing: bool = False
    retry_days: tuple[int, ...] = (3, 5, 7)
    after_failure: AfterFailure = "cancel"
    draft_for: Seconds = 0
    no_card: NoCard | None = None

    @property
    def starts(self) -> Seconds:
        return self.items[0].starts

    @property
    def ends(self) -> Seconds:
        return self.items[0].ends


class StripeInvoice(StripeRecord, frozen=True, kw_only=True):
    number: str
    customer: str
    subscription: str
    currency: str
    billing_reason: str
    period_start: Seconds
    period_end: Seconds
    lines: tuple[InvoiceLine, ...]
    status: Literal["draft", "open", "paid", "void", "uncollectible"] = "draft"
    payment_intent: str | None = None
    starting_balance: int = 0
    ending_balance: int | None = None
    amount_due: int = 0
    amount_paid: int = 0
    attempt_count: int = 0
    # Stripe finalizes it, or tries to collect it, at this moment.
    next_payment_attempt: Seconds | None = None
    automatically_finalizes_at: Seconds | None = None
    due_date: Seconds | None = None
    finalized_at: Seconds | None = None
    paid_at: Seconds | None = None
    voided_at: Seconds | None = None
    uncollectible_at: Seconds | None = None
    sent: bool = False

    @property
    def total(self) -> int:
        return sum(line.amount for line in self.lines)


class StripeIntent(StripeRecord, frozen=True, kw_only=True):
    client_secret: str
    customer: str | None
    status: Literal["requires_payment_method", "succeeded", "canceled"] = "requires_payment_method"


class PaymentIntent(StripeIntent, frozen=True, kw_only=True):
    amount: int
    currency: str
    latest_charge: str | None = None
    invoice: str | None = None
    session: str | None = None
    failed: bool = False
    setup_future_usage: str | None = None


class SetupIntent(StripeIntent, frozen=True, kw_only=True):
    """A card that is charged later."""


class StripeCharge(StripeRecord, frozen=True, kw_only=True):
    amount: int
    currency: str
    customer: str | None
    payment_intent: str
    succeeded: bool = True
    amount_refunded: int = 0
    disputed: bool = False
    country: str | None = None


class StripeRefund(StripeRecord, frozen=True, kw_only=True):
    charge: str
    payment_intent: str
    amount: int
    currency: str
    status: Literal["succeeded", "failed"] = "succeeded"
    failed_at: Seconds | None = None
    reason: str | None = None


class StripeDispute(StripeRecord, frozen=True, kw_only=True):
    charge: str
    payment_intent: str
    amount: int
    currency: str
    status: Literal["needs_response", "lost", "won"] = "needs_response"
    reason: str = "fraudulent"
    reinstated_at: Seconds | None = None


class CheckoutItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    price: str
    quantity: int = 1


class CheckoutSession(StripeRecord, frozen=True, kw_only=True):
    mode: Literal["payment", "subscription"]
    expires_at: Seconds
    currency: str
    items: tuple[CheckoutItem, ...]
    ui_mode: str = "hosted_page"
    status: Literal["open", "complete", "expired"] = "open"
    customer: str | None = None
    customer_email: str | None = None
    makes_customer: bool = False
    client_reference_id: str | None = None
    # For the subscription or the payment that it makes.
    made_metadata: dict[str, str] = {}
    trial_days: int | None = None
    trial_end: Seconds | None = None
    subscription: str | None = None
    payment_intent: str | None = None
    invoice: str | None = None
    success_url: str | None = None
    cancel_url: str | None = None
    return_url: str | None = None
    # Where its page is, without the path.
    page_at: str = ""


class StripeEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    created: Seconds
    # The object as it was then, in Stripe's form.
    object: dict[str, Any]
    previous: dict[str, Any] | None = None
    # The purchase that it is about.
    subject: str | None = None


class StripeBooks(msgspec.Struct, frozen=True, kw_only=True):
    products: dict[str, StripeProduct] = {}
    prices: dict[str, StripePrice] = {}
    customers: dict[str, StripeCustomer] = {}
    subscriptions: dict[str, StripeSubscription] = {}
    invoices: dict[str, StripeInvoice] = {}
    intents: dict[str, PaymentIntent] = {}
    setups: dict[str, SetupIntent] = {}
    charges: dict[str, StripeCharge] = {}
    refunds: dict[str, StripeRefund] = {}
    disputes: dict[str, StripeDispute] = {}
    sessions: dict[str, CheckoutSession] = {}
    events: tuple[StripeEvent, ...] = ()
    live: bool = False
    # Makes the ids of this store different from those of any other.
    series: str = "0"
    next_number: int = 1


# Where the books keep each kind of object.
SHELVES: dict[type[StripeRecord], str] = {
    get_args(hint)[1]: name for name, hint in get_type_hints(StripeBooks).items() if get_origin(hint) is dict
}


def subject_of(books: StripeBooks, record: StripeRecord) -> str | None:
    """The purchase that an object belongs to: a subscription, a checkout session, or a payment by itself."""
    match record:
        case StripeSubscription():
            return record.id
        case StripeInvoice():
            return record.subscription
        case CheckoutSession():
            return record.subscription or record.id
        case StripeCharge() | StripeRefund() | StripeDispute():
            return subject_of(books, books.intents[record.payment_intent])
        case PaymentIntent():
            return books.invoices[record.invoice].subscription if record.invoice else record.session or record.id
    return None


StripeStep = tuple[StripeBooks, tuple[StripeEvent, ...]]

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def drawn(series: str, what: str, length: int) -> str:
    """Letters and digits. They cannot be guessed by who does not know the series."""
    number = int.from_bytes(hashlib.sha512(f"{series} {what}".encode()).digest())
    letters = []
    for _ in range(length):
        number, place = divmod(number, len(_DIGITS))
        letters.append(_DIGITS[place])
    return "".join(letters)


def secret_of(books: StripeBooks, id: str) -> str:
    return f"{id}_secret_{drawn(books.series, f'secret of {id}', 25)}"


_LENGTHS = {"day": Duration(days=1), "week": Duration(days=7), "month": Duration(months=1), "year": Duration(months=12)}


def next_period(price: StripePrice, starts: Seconds, anchor: Seconds) -> Seconds:
    """When the period that starts then ends: on the day of the month of the anchor."""
    assert price.interval is not None
    length = _LENGTHS[price.interval]
    return add(starts * SECOND, length, times=price.count, anchor_day=day_of_month(anchor * SECOND)) // SECOND


def decimals_of(currency: str) -> int:
    return 0 if currency in NO_DECIMALS else 3 if currency in THREE_DECIMALS else 2


def smallest_units(amount: float, currency: str) -> int:
    """4.99 of a currency in Stripe's amounts: 499."""
    decimals = decimals_of(currency)
    exact = Decimal(price_of(amount, currency.upper()).micros).scaleb(decimals - 6)
    if exact != exact.to_integral_value():
        raise Invalid(f"An amount in {currency.upper()} has at most {decimals} decimals.", param="price")
    return int(exact)
