"""The periods of one item of a subscription, and of those that it replaced, from their paid invoices. Pure.

Each paid invoice with a line for the item is a period. A trial's invoice over 0 is one too; a later trial of the same
subscription only moves the end of the running period. A change of the price between two invoices is a period that cost
nothing: Stripe charges the difference with the next invoice.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import PartBack, merge_parts
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType
from latchkey.stores.stripe import resources
from latchkey.stores.stripe.amounts import country_of, gone_back, micros, price_of
from latchkey.stores.stripe.items import ItemLines, Items, Succession

# Stripe does not date its answers; `settle` does.
NOW = Moment(0)
# Between two readings of Stripe's clock in seconds.
_CLOSE = 1


class SubscriptionContext(Struct, frozen=True, kw_only=True):
    # Oldest first.
    invoices: tuple[resources.StripeInvoice, ...]
    # By what an invoice names as its payment.
    charges: Mapping[str, tuple[resources.Charge, ...]] = {}
    # By their charge.
    disputes: Mapping[str, tuple[resources.Dispute, ...]] = {}
    # Of changes that are not charged yet.
    pending: tuple[resources.InvoiceItem, ...] = ()
    # About when a change came that nothing else dates.
    told_at: Ms | None = None
    # The user whom the checkout session or the customer names.
    account: str | None = None
    # Whether the invoices are all of the subscription.
    whole: bool = True
    # When it was read.
    read_at: Ms = 0

    def charges_of(self, invoice: resources.StripeInvoice) -> list[resources.Charge]:
        """All attempts to pay it."""
        return [charge for pays in invoice.paid_by for charge in self.charges.get(pays, ())]


def of_items(
    subscription: resources.StripeSubscription, items: Items, of: Succession, around: SubscriptionContext
) -> tuple[Period, ...]:
    """Oldest first; none while nothing is paid."""
    line: list[Period] = []
    item = of.item
    for invoice in around.invoices:
        parts = items.parts(of, invoice)
        main = parts.main
        if main is None or invoice.status == "void":
            continue
        if line:
            # Also while it is not paid: they are of the time before it.
            _add_changes(line, parts.lines, main)
        if invoice.status != "paid":
            continue
        trial = _is_trial(subscription, item, parts, main, first=not line)
        # What is given while its money is back is a period of its own, whatever becomes of that money later.
        if trial and line and not line[-1].refunded_before(main.period.start * 1000):
            line[-1] = replace(line[-1], ends_at=max(line[-1].ends_at, main.period.end * 1000))
        else:
            line.append(_period(line, parts, main, around, trial=trial))
    # A trial that is sold with something else begins when that is paid.
    begun = subscription.status not in ("incomplete", "incomplete_expired")
    if not line and begun and item is not None and subscription.trial_start and subscription.trial_end:
        line.append(_trial_without_invoice(subscription, item))
    if not line:
        return ()
    _move_trial_end(line, subscription)
    if item is not None:
        unpaid = [items.parts(of, invoice).lines for invoice in around.invoices if invoice.status == "open"]
        waits = any(item.product == billed.product for lines in unpaid for billed in lines)
        _add_running_change(line, subscription, item, around, waits=waits)
    return tuple(_cut(line))


def _period(
    line: list[Period], parts: ItemLines, main: resources.InvoiceLine, around: SubscriptionContext, *, trial: bool
) -> Period:
    invoice, last = parts.invoice, line[-1] if line else None
    start, end = main.period.start * 1000, main.period.end * 1000
    paid_at = (invoice.status_transitions.paid_at or invoice.created) * 1000
    # A debt that is paid after its period is over is older than the period that followed.
    purchased_at = min(paid_at, end - 1)
    if last is not None:
        purchased_at = max(purchased_at, last.purchased_at + 1)
    product = main.product or (last.product_id if last is not None else "")
    charges = around.charges_of(invoice)
    back = gone_back(charges, around.disputes)
    changed = last is not None and product != last.product_id and start < last.ends_at
    first = Cause.TRIAL if trial else Cause.PURCHASE
    cause = Cause.CHANGE if changed else first if last is None else Cause.RENEWAL
    return Period(
        id=invoice.id,
        number=len(line),
        cause=cause,
        changed_from=last.product_id if changed and last is not None else None,
        product_id=product,
        period_type=PeriodType.TRIAL if trial else PeriodType.NORMAL,
        purchased_at=purchased_at,
        paid_from=start if start < purchased_at else None,
        ends_at=end,
        as_of=NOW,
        price=price_of(parts.charged, invoice.currency),
        money_back=back.facts,
        given_back=_share(parts, back.part),
        parts_back=merge_parts(*(PartBack(at, _share(parts, part)) for at, part in back.parts)),
        country=country_of(charges, invoice.customer_address),
    )


def _share(parts: ItemLines, back: int) -> int:
    """The item's part of a partial refund, in millionths."""
    whole = parts.invoice.total - parts.invoice.credit
    part = back if parts.charged >= whole or whole <= 0 else back * parts.charged // whole
    return micros(part, parts.invoice.currency)


def _is_trial(
    subscription: resources.StripeSubscription,
    item: resources.SubscriptionItem | None,
    parts: ItemLines,
    main: resources.InvoiceLine,
    *,
    first: bool,
) -> bool:
    if parts.charged or main.amount:
        return False
    start, end, period = subscription.trial_start, subscription.trial_end, main.period
    if start is not None and end is not None and start - _CLOSE <= period.start and period.end <= end + _CLOSE:
        return True
    # A later trial has taken the place of the first one in the subscription.
    begins = first and start is not None and parts.invoice.billing_reason == "subscription_create"
    costs = item is None or (item.price.unit_amount or 0) > 0
    return begins and costs and not main.discount_amounts


def _trial_without_invoice(subscription: resources.StripeSubscription, item: resources.SubscriptionItem) -> Period:
    assert subscription.trial_start is not None
    assert subscription.trial_end is not None
    return Period(
        # Not the id of the subscription: whoever knows that can show it as a receipt.
        id=f"{item.id}/trial",
        number=0,
        cause=Cause.TRIAL,
        product_id=item.product,
        period_type=PeriodType.TRIAL,
        purchased_at=subscription.trial_start * 1000,
        ends_at=subscription.trial_end * 1000,
        as_of=NOW,
        price=price_of(0, subscription.currency),
    )


def _move_trial_end(line: list[Period], subscription: resources.StripeSubscription) -> None:
    """The trial ends when the subscription says so. A trial that was given later extends the period it came in."""
    if subscription.trial_start is None or subscription.trial_end is None:
        return
    began, end = subscription.trial_start * 1000, subscription.trial_end * 1000
    at = max((n for n, one in enumerate(line) if one.starts_at <= began + _CLOSE * 1000), default=None)
    if at is None:
        return
    ends_at = end if line[at].period_type is PeriodType.TRIAL else max(line[at].ends_at, end)
    line[at] = replace(line[at], ends_at=ends_at)


def _add_changes(line: list[Period], lines: Iterable[resources.InvoiceLine], main: resources.InvoiceLine) -> None:
    """Changes within the period before, that this invoice charges for."""
    for billed in sorted(lines, key=lambda one: one.period.start):
        details = billed.parent.invoice_item_details if billed.parent is not None else None
        is_debit = billed is not main and billed.is_proration and billed.amount > 0
        if not is_debit or billed.period.end > main.period.start + _CLOSE:
            continue
        if details is not None and details.invoice_item and billed.product is not None:
            _add_change(line, details.invoice_item, billed.product, billed.period.start * 1000, billed.currency)


def _add_running_change(
    line: list[Period],
    subscription: resources.StripeSubscription,
    item: resources.SubscriptionItem,
    around: SubscriptionContext,
    *,
    waits: bool,
) -> None:
    """Changes since the last paid invoice. What waits for a payment that was tried is not bought yet."""
    for waiting in sorted(around.pending, key=lambda one: one.period.start):
        mine = waiting.item_id in (None, item.id)
        if waiting.proration and waiting.amount > 0 and waiting.product is not None and mine:
            _add_change(line, waiting.id, waiting.product, waiting.period.start * 1000, waiting.currency)
    last = line[-1]
    paid = item.current_period_start * 1000 < last.ends_at
    if last.product_id != item.product and subscription.status in ("active", "trialing") and paid and not waits:
        at = around.told_at if around.told_at is not None else last.purchased_at + 1
        at = min(at, last.ends_at - 1)
        _add_change(line, item.price.id, item.product, at, subscription.currency)
        if line[-1] is not last:
            line[-1] = replace(line[-1], ends_at=max(line[-1].ends_at, item.current_period_end * 1000))


def _add_change(line: list[Period], id: str, product: str, at: Ms, currency: str) -> None:
    last = line[-1]
    if product == last.product_id:
        return
    first_of_chain = last.id.partition("/")[0]
    at = max(at, last.purchased_at + 1)
    if at >= last.ends_at:
        # The paid time is over: nothing of the new product is paid.
        return
    line.append(
        Period(
            id=f"{first_of_chain}/{id}",
            number=len(line),
            cause=Cause.CHANGE,
            changed_from=last.product_id,
            product_id=product,
            period_type=last.period_type,
            purchased_at=at,
            ends_at=last.ends_at,
            as_of=NOW,
            price=price_of(0, currency),
            # Its time was paid for with the invoice before it. When that money is back, so is the right to the rest.
            money_back=last.money_back,
            country=last.country,
        )
    )


def _cut(line: list[Period]) -> Iterable[Period]:
    """A change ends the period before it."""
    for one, following in zip(line, [*line[1:], None], strict=True):
        if following is not None and following.cause is Cause.CHANGE and following.purchased_at < one.ends_at:
            yield replace(one, ends_at=following.purchased_at)
        else:
            yield one
