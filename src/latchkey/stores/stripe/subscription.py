"""A subscription of Stripe, in Latchkey's words. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.domain.purchases.purchase import Environment, Reason
from latchkey.domain.purchases.subscription import UNTIL_RESUMED, Pause, Period, Status
from latchkey.domain.purchases.subscription import Invoice as Issued
from latchkey.domain.purchases.subscription import Subscription as Snapshot
from latchkey.stores.adapter import SeenPurchase, StoreReading
from latchkey.stores.errors import StoreDown
from latchkey.stores.stripe import periods, resources
from latchkey.stores.stripe.amounts import price_of
from latchkey.stores.stripe.items import ItemLines, Items, Succession
from latchkey.stores.stripe.periods import SubscriptionContext

# Divides the subscription from the item in the handle of an item beyond the first.
ITEM = "#"
_RUNNING = frozenset({"active", "trialing"})
_UNPAID = frozenset({"past_due", "unpaid", "canceled"})
_KNOWN = frozenset({*_RUNNING, *_UNPAID, "paused", "incomplete", "incomplete_expired"})
# While Stripe tries a payment again, access lasts as long as the unpaid period, but within these limits. Stripe's usual
# schedule takes two weeks, the longest one two months.
SHORTEST_GRACE: Ms = 14 * DAY
LONGEST_GRACE: Ms = 60 * DAY

_REASONS = {
    "payment_failed": Reason.BILLING_ERROR,
    "cancellation_requested": Reason.UNSUBSCRIBE,
    "payment_disputed": Reason.CUSTOMER_SUPPORT,
}


def read(
    app_id: str, store: str, subscription: resources.StripeSubscription, around: SubscriptionContext
) -> StoreReading:
    if subscription.status not in _KNOWN:
        raise StoreDown("Stripe tells of a subscription in a state that this version of Latchkey does not know.")
    items = Items(subscription, around.invoices, around.pending)
    seen = []
    for number, succession in enumerate(items.successions):
        line = periods.of_items(subscription, items, succession, around)
        if line:
            suffix = f"{ITEM}{succession.ids[0]}" if number else ""
            seen.append(_seen(app_id, store, _Reading(subscription, items, succession, around), line, suffix))
    if seen:
        return StoreReading(seen=tuple(seen))
    if subscription.status in ("incomplete", "incomplete_expired"):
        return StoreReading(note="The subscription waits for its first payment, or never got it.")
    return StoreReading(note="No invoice of the subscription is paid yet.")


class _Reading(Struct, frozen=True):
    """What is read of one item, and of those that it replaced."""

    subscription: resources.StripeSubscription
    items: Items
    of: Succession
    around: SubscriptionContext

    def parts(self, invoice: resources.StripeInvoice) -> ItemLines:
        return self.items.parts(self.of, invoice)


def _seen(app_id: str, store: str, reading: _Reading, line: tuple[Period, ...], suffix: str) -> SeenPurchase:
    subscription, around = reading.subscription, reading.around
    line, status = _standing(reading, reading.of.item, line) if reading.of.item is not None else _removed(reading, line)
    # Stripe never leaves an invoice over nothing open: it counts as paid at once.
    issued = (one for one in around.invoices if one.status_transitions.finalized_at is not None and one.total > 0)
    invoices = (one for one in issued if reading.items.owner_of(one) is reading.of)
    return SeenPurchase(
        snapshot=Snapshot(
            store=store,
            id=subscription.id + suffix,
            environment=Environment.PRODUCTION if subscription.livemode else Environment.SANDBOX,
            app_id=app_id,
            periods=line,
            status=status,
            invoices=tuple(_issued(invoice) for invoice in invoices),
        ),
        account_token=around.account,
        handle=subscription.id + suffix,
        imported_as=reading.of.ids[-1],
        unordered=True,
        complete=around.whole,
    )


def _removed(reading: _Reading, line: tuple[Period, ...]) -> tuple[tuple[Period, ...], Status]:
    """The item was taken out of the subscription, which goes on. That is its end. Where Stripe does not date it, it is
    dated by the event that told of it; `settle` keeps what was told first."""
    running, around = line[-1], reading.around
    at = max(reading.of.removed_at or around.told_at or around.read_at, running.starts_at)
    status = Status(as_of=periods.NOW, ended=Reason.UNSUBSCRIBE)
    if (debt := _debt(reading)) is not None:
        # The grace period ends too.
        issue_at = debt[1].period.start * 1000
        status = replace(status, billing_issue_at=issue_at, grace_ends_at=max(at, running.ends_at))
    return (*line[:-1], replace(running, ends_at=min(at, running.ends_at))), status


def _issued(invoice: resources.StripeInvoice) -> Issued:
    at = invoice.status_transitions.finalized_at or invoice.created
    return Issued(invoice.id, at * 1000, price_of(invoice.total, invoice.currency))


def _standing(
    reading: _Reading, item: resources.SubscriptionItem, line: tuple[Period, ...]
) -> tuple[tuple[Period, ...], Status]:
    subscription = reading.subscription
    status = _renewal(subscription, item, line[-1])
    if subscription.status in _UNPAID:
        status = _with_debt(status, reading, line[-1])
    if subscription.status == "canceled":
        return _over(status, subscription, line)
    if subscription.status == "unpaid":
        return line, replace(status, ended=Reason.BILLING_ERROR)
    if subscription.status == "paused":
        # A trial that ended without a way to pay. It goes on when the customer gives one.
        return line, replace(status, pause=Pause(0, UNTIL_RESUMED))
    if (paused := subscription.pause_collection) is not None:
        resumes_at = paused.resumes_at * 1000 if paused.resumes_at is not None else UNTIL_RESUMED
        return line, replace(status, pause=Pause(0, resumes_at))
    if subscription.status == "active":
        return line, replace(status, grace_ends_at=_charged_by(reading, line[-1]))
    return line, status


def _charged_by(reading: _Reading, running: Period) -> Ms | None:
    """Stripe begins a period, and charges for it an hour later, or waits until the customer pays the invoice that was
    sent. Meanwhile it says active, so access stays: a day longer than the charge or the payment is due. A debit takes
    days to settle; it keeps access as a missing payment does."""
    for invoice in reversed(reading.around.invoices):
        main = reading.parts(invoice).main
        if main is None or abs(main.period.start * 1000 - running.ends_at) > MINUTE:
            continue
        due = invoice.due_date or invoice.automatically_finalizes_at or invoice.status_transitions.finalized_at
        if invoice.status not in ("draft", "open") or due is None:
            return None
        settles = any(charge.status == "pending" for charge in reading.around.charges_of(invoice))
        return max(due * 1000 + DAY, _kept_until(main, running, reading.around) if settles else 0)
    return None


def _renewal(subscription: resources.StripeSubscription, item: resources.SubscriptionItem, paid: Period) -> Status:
    status = Status(as_of=periods.NOW)
    at = subscription.cancel_at
    if subscription.cancel_at_period_end or (at is not None and at <= item.current_period_end):
        off_at = subscription.canceled_at * 1000 if subscription.canceled_at is not None else None
        return replace(status, auto_renew=False, renewal_off_at=off_at, renewal_off_reason=_reason(subscription))
    follows = item.product != paid.product_id and item.current_period_start * 1000 >= paid.ends_at - MINUTE
    # A change that came with the new period, which is not paid yet: it still waits.
    return replace(status, next_product_id=item.product if follows else _next_product(subscription, item))


def _reason(subscription: resources.StripeSubscription) -> Reason:
    details = subscription.cancellation_details
    # Stripe gives no reason where the cancellation was asked for by an older version of its API.
    return _REASONS.get((details.reason if details is not None else None) or "", Reason.UNSUBSCRIBE)


def _next_product(subscription: resources.StripeSubscription, item: resources.SubscriptionItem) -> str | None:
    """What a schedule changes to when the running period is over."""
    schedule = subscription.schedule
    if schedule is None or schedule.status != "active":
        return None
    following = [phase for phase in schedule.phases if phase.start_date >= item.current_period_end - 1 and phase.items]
    if not following:
        return None
    position = [subscription_item.id for subscription_item in subscription.items.data].index(item.id)
    items = min(following, key=lambda one: one.start_date).items
    price = items[min(position, len(items) - 1)].price
    if isinstance(price, dict) and isinstance(price.get("id"), str) and isinstance(price.get("product"), str):
        product = resources.product_of(price["product"], price["id"])
    elif isinstance(price, str):
        product = resources.product_of(item.price.product, price)
    else:
        return None
    return product if product != item.product else None


def _with_debt(status: Status, reading: _Reading, running: Period) -> Status:
    """A missing payment is dated to the beginning of what is not paid, so that every reading of one problem tells the
    same."""
    subscription, around, debt = reading.subscription, reading.around, _debt(reading)
    if debt is None:
        return replace(status, billing_issue_at=running.ends_at) if subscription.status == "past_due" else status
    invoice, line = debt
    grace_ends_at = _kept_until(line, running, around)
    details = subscription.cancellation_details
    given_up = details is not None and details.reason == "payment_failed"
    if subscription.status == "unpaid" or (subscription.status == "canceled" and given_up):
        # The same moment for both: an unpaid subscription may be deleted weeks later.
        grace_ends_at = min(grace_ends_at, _last_try(invoice, around))
    elif subscription.status == "canceled" and subscription.ended_at is not None:
        grace_ends_at = min(grace_ends_at, subscription.ended_at * 1000)
    # Never None: what was told of a grace period would stand then.
    issue_at = line.period.start * 1000
    return replace(status, billing_issue_at=issue_at, grace_ends_at=max(grace_ends_at, running.ends_at))


def _kept_until(unpaid: resources.InvoiceLine, running: Period, around: SubscriptionContext) -> Ms:
    """How long access lasts at most while a payment is missing."""
    if not any(invoice.status == "paid" and invoice.total > 0 for invoice in around.invoices):
        # Nothing was ever paid, only a trial was given. Otherwise a card without money would bring weeks of access for
        # each new user id.
        return running.ends_at
    start, end = unpaid.period.start * 1000, unpaid.period.end * 1000
    return min(max(end, start + SHORTEST_GRACE), start + LONGEST_GRACE)


def _debt(reading: _Reading) -> tuple[resources.StripeInvoice, resources.InvoiceLine] | None:
    """The oldest invoice that is not paid, of those after the last paid one."""
    found: tuple[resources.StripeInvoice, resources.InvoiceLine] | None = None
    for invoice in reversed(reading.around.invoices):
        main = reading.parts(invoice).main
        if main is None:
            continue
        if invoice.status == "paid":
            break
        if invoice.status in ("open", "uncollectible"):
            found = invoice, main
    return found


def _last_try(invoice: resources.StripeInvoice, around: SubscriptionContext) -> Ms:
    """Stripe does not date the end of its retries: it came with the last failed charge."""
    tried = [charge.created for charge in around.charges_of(invoice)]
    return max([*tried, invoice.status_transitions.finalized_at or invoice.created]) * 1000


def _over(
    status: Status, subscription: resources.StripeSubscription, line: tuple[Period, ...]
) -> tuple[tuple[Period, ...], Status]:
    running = line[-1]
    ended_at = (subscription.ended_at or subscription.canceled_at or 0) * 1000 or running.ends_at
    details = subscription.cancellation_details
    ended = _REASONS.get((details.reason if details is not None else None) or "", Reason.UNKNOWN)
    asked_at = subscription.canceled_at * 1000 if subscription.canceled_at is not None else ended_at
    if asked_at < ended_at - MINUTE and ended is not Reason.BILLING_ERROR:
        status = replace(status, auto_renew=False, renewal_off_at=asked_at, renewal_off_reason=_reason(subscription))
    else:
        # It was ended at once. That is its end, and no cancellation that it would run out after.
        status = replace(status, auto_renew=True, renewal_off_at=None, renewal_off_reason=None)
    status = replace(status, ended=ended, next_product_id=None)
    if running.ends_at <= ended_at:
        return line, status
    refunded_at = running.refunded_at
    if refunded_at is not None and ended_at <= refunded_at <= ended_at + MINUTE:
        # The money went back with the end: REFUND says it all.
        ended_at = min(refunded_at + 1, running.ends_at)
    return (*line[:-1], replace(running, ends_at=max(ended_at, running.starts_at))), status
