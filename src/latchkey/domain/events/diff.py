"""The only place that creates events: it compares a customer before and after a change."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.events.customer_event import Event, EventType, event_id
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.presented import offering_of
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Ownership, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Invoice, Period, PeriodType, Subscription

_STARTED_BY = {
    Cause.TRIAL: EventType.TRIAL_STARTED,
    Cause.PURCHASE: EventType.INITIAL_PURCHASE,
    Cause.CONVERSION: EventType.INITIAL_PURCHASE,
    Cause.RENEWAL: EventType.RENEWAL,
    Cause.CHANGE: EventType.PRODUCT_CHANGE,
}
# How a subscription stands now. These come after everything that happened, because receivers take any other event for
# the news that all is well again.
_STANDING = frozenset({EventType.CANCELLATION, EventType.SUBSCRIPTION_PAUSED, EventType.BILLING_ISSUE})
_NO_NEWS = _STANDING | {EventType.REFUND, EventType.EXPIRATION}

# The order of events that have the same millisecond. An invoice comes before what its payment did.
_RANK = {
    EventType.INVOICE_ISSUANCE: -1,
    EventType.REFUND: 1,
    EventType.REFUND_REVERSED: 1,
    **dict.fromkeys(_STANDING, 2),
    EventType.EXPIRATION: 3,
    EventType.VIRTUAL_CURRENCY_TRANSACTION: 4,
    EventType.SUBSCRIBER_ALIAS: 5,
}


def diff(before: Customer, after: Customer) -> tuple[Event, ...]:
    """The events between the two states, oldest first; none if nothing changed."""
    events = [*_all(before, after)]
    if len(events) > 1:
        latest = max((one.at for one in events if one.type not in _NO_NEWS), default=0)
        events = [replace(one, at=max(one.at, latest)) if one.type in _STANDING else one for one in events]
    return tuple(sorted(events, key=lambda event: (event.at, _RANK.get(event.type, 0))))


def _all(before: Customer, after: Customer) -> Iterator[Event]:
    for subscription in after.subscriptions:
        known = before.subscription(subscription.store, subscription.id)
        if known != subscription:
            yield from _SubscriptionDiff(after.project_id, known, subscription).events()
    for purchase in after.purchases:
        was = before.purchase(purchase.store, purchase.id)
        if was != purchase:
            yield from _purchase_events(after.project_id, was, purchase)
    # What is about no purchase.
    for transfer in after.transfers[len(before.transfers) :]:
        yield _customer_event(
            after,
            EventType.TRANSFER,
            transfer.at,
            ("transfer", transfer.id),
            transferred_from=transfer.transferred_from,
            transferred_to=after.aliases,
        )
    for movement in after.currency_transactions[len(before.currency_transactions) :]:
        yield _customer_event(
            after,
            EventType.VIRTUAL_CURRENCY_TRANSACTION,
            movement.at,
            ("currency", after.record, movement.id, movement.code),
            product_id=movement.product_id,
            amount=abs(movement.amount),
            currency=movement.code,
            transaction_type="credit" if movement.amount > 0 else "debit",
        )
    for enrolled in after.enrollments[len(before.enrollments) :]:
        what = ("experiment", enrolled.experiment_id, after.record)
        ids = {"experiment_id": enrolled.experiment_id, "variant_id": enrolled.variant_id}
        yield _customer_event(after, EventType.EXPERIMENT_ENROLLMENT, enrolled.enrolled_at, what, **ids)
    for fact in after.joined[len(before.joined) :]:
        yield _customer_event(after, EventType.SUBSCRIBER_ALIAS, fact.at, ("alias", fact.id), joined=fact.ids)


def _customer_event(after: Customer, type: EventType, at: Ms, what: tuple[str, ...], **more: Any) -> Event:
    """With the app of all purchases, so that a webhook for one app receives merges and transfers (none if there are
    several), and with the store of the newest one. In the sandbox for customers on a test clock or with only such
    purchases."""
    bought = after.bought
    apps = {purchase.app_id for purchase in bought} - {None}
    tester = after.test_clock_id is not None or {purchase.environment for purchase in bought} == {Environment.SANDBOX}
    return Event(
        id=event_id(after.project_id, *what),
        type=type,
        at=at,
        environment=Environment.SANDBOX if tester else Environment.PRODUCTION,
        store=max(bought, key=lambda one: one.order).store if bought else None,
        app_id=apps.pop() if len(apps) == 1 else None,
        **more,
    )


def _currency(price: Price) -> str | None:
    return price.currency if price.known else None


class _SubscriptionDiff(Struct, frozen=True):
    project: str
    before: Subscription | None
    after: Subscription

    def events(self) -> Iterator[Event]:
        yield from self._periods()
        yield from self._next_product()
        yield from self._invoices()
        yield from self._renewal()
        yield from self._billing()
        yield from self._pause()
        ended = self.after.expired
        if ended is not None and (self.before is None or self.before.expired != ended):
            yield self._event(
                EventType.EXPIRATION,
                ended.at,
                "expired",
                ended.transaction_id,
                ended.at,
                expiration_reason=ended.reason,
                expiration_at=ended.at,
                price=None,
            )

    def _invoices(self) -> Iterator[Event]:
        paid = {period.id: period.purchased_at for period in self.after.periods}
        for invoice in self._new_invoices():
            event = self._event(
                EventType.INVOICE_ISSUANCE,
                min(invoice.issued_at, paid.get(invoice.id, invoice.issued_at)),
                "invoice",
                invoice.id,
                price=invoice.total,
                terms=invoice.terms,
            )
            # Also where nobody has paid it, so that there is no period of this id.
            yield replace(event, transaction_id=invoice.id)

    def _new_invoices(self) -> list[Invoice]:
        known = {invoice.id for invoice in self.before.invoices} if self.before else set()
        return [invoice for invoice in self.after.invoices if invoice.id not in known]

    def _periods(self) -> Iterator[Event]:
        known = {period.id: period for period in self.before.periods} if self.before else {}
        for period in self.after.periods:
            was = known.get(period.id)
            if was is None:
                yield self._started(period)
            elif period.ends_at > was.ends_at:
                yield self._event(
                    EventType.SUBSCRIPTION_EXTENDED,
                    period.as_of.at,
                    "extended",
                    period.id,
                    period.ends_at,
                    period=period,
                    price=None,
                )
            for fact in period.money_back:
                known_fact = was is not None and fact in was.money_back
                if not known_fact and self._was_latest(period, fact.at) and not self._told_before(period, fact):
                    yield self._money_back(period, fact)

    def _started(self, period: Period) -> Event:
        changed = period.cause is Cause.CHANGE
        return self._event(
            _STARTED_BY[period.cause],
            period.purchased_at,
            "period",
            period.id,
            period=period,
            product_id=period.changed_from if changed else period.product_id,
            new_product_id=period.product_id if changed else None,
            is_trial_conversion=period.cause is Cause.CONVERSION
            if period.cause in (Cause.PURCHASE, Cause.CONVERSION)
            else None,
        )

    def _was_latest(self, period: Period, at: Ms) -> bool:
        """Whether the refunded period was the latest. The refund of an older period only sets its date: access is
        unchanged."""
        # Within one millisecond the refund comes first and the next period after it.
        return not any(other.order > period.order and other.purchased_at < at for other in self.after.periods)

    def _told_before(self, period: Period, fact: MoneyBack) -> bool:
        """Whether the refund came before the period, and is told with an earlier one. After a change that cost nothing
        both rest on one payment. After one that was paid for, a refund in the same millisecond is of the new one."""
        if fact.at > period.purchased_at or period.price.micros:
            return False
        return any(fact in other.money_back for other in self.after.periods if other.order < period.order)

    def _money_back(self, period: Period, fact: MoneyBack) -> Event:
        kind = EventType.REFUND_REVERSED if fact.reversal else EventType.REFUND
        paid = self._payment_of(period, fact)
        return self._event(
            kind, fact.at, kind, period.id, fact.at, fact.number, period=period, price=paid.price, terms=paid.terms
        )

    def _payment_of(self, period: Period, fact: MoneyBack) -> Period:
        """The period that was paid for. After a change that cost nothing that is an earlier one."""
        if period.price.micros:
            return period
        earlier = (one for one in reversed(self.after.periods) if one.order < period.order)
        return next((one for one in earlier if fact in one.money_back and one.price.micros), period)

    def _renewal(self) -> Iterator[Event]:
        # A new period begins with renewal on, so turning it off emits an event even if it was off in the period before.
        was_on = self.before is None or self.before.status.auto_renew or not self._same_period()
        was_on = was_on or (self.before is not None and _off_by_refund(self.before))
        status = self.after.status
        if was_on and not status.auto_renew:
            if _off_by_refund(self.after):
                return
            trial = self.after.current.period_type is PeriodType.TRIAL
            at = status.renewal_off_at if status.renewal_off_at is not None else status.as_of.at
            yield self._event(
                EventType.TRIAL_CANCELLED if trial else EventType.CANCELLATION,
                at,
                "renewal off",
                self.after.current.id,
                at,
                status.as_of.revision,
                cancellation_reason=status.renewal_off_reason,
                auto_resume_at=status.pause.ends_at if status.pause else None,
                price=None,
            )
        elif (
            status.auto_renew
            and status.ended is None
            and self.after.current.refunded_at is None
            and self._same_period()
            and (not was_on or self._pause_lifted())
        ):
            as_of = status.as_of
            yield self._event(EventType.UNCANCELLATION, as_of.at, "renewal on", as_of.at, as_of.revision, price=None)

    def _billing(self) -> Iterator[Event]:
        """Once for each problem, for each end of its grace period, and for each further invoice that is not paid."""
        status = self.after.status
        told = (self.before.status.billing_issue_at, self.before.status.grace_ends_at) if self.before else (None, None)
        if status.billing_issue_at is None:
            return
        paid = {period.id for period in self.after.periods}
        unpaid = [new_invoice for new_invoice in self._new_invoices() if new_invoice.id not in paid]
        same = told == (status.billing_issue_at, status.grace_ends_at)
        if same and not unpaid:
            return
        same_issue = told[0] == status.billing_issue_at
        if same_issue and (status.grace_ends_at is None or status.ended is not None):
            return
        issued = [invoice.issued_at for invoice in self.after.invoices if invoice.issued_at >= status.billing_issue_at]
        yield self._event(
            EventType.BILLING_ISSUE,
            min(issued, default=status.billing_issue_at),
            "billing issue",
            self.after.current.id,
            status.billing_issue_at,
            status.grace_ends_at,
            *([unpaid[-1].id] if same else []),
            grace_period_expires_at=status.grace_ends_at,
            price=None,
        )

    def _next_product(self) -> Iterator[Event]:
        """One event for a product change scheduled for the period's end, and one when it is called off."""
        status, current = self.after.status, self.after.current
        waiting = self.before.status.next_product_id if self.before else None
        if status.next_product_id == waiting:
            return
        key = ("next product", status.next_product_id, status.as_of.at, status.as_of.revision)
        if status.next_product_id is not None:
            if status.next_product_id != current.product_id:
                new = status.next_product_id
                yield self._event(EventType.PRODUCT_CHANGE, status.as_of.at, *key, new_product_id=new, price=None)
        elif self._same_period():
            # Turning renewal off also calls the change off. Its event comes second, so that the last event says renewal
            # is off.
            off_at = status.renewal_off_at if not status.auto_renew else None
            yield self._event(
                EventType.PRODUCT_CHANGE,
                off_at if off_at is not None else status.as_of.at,
                *key,
                product_id=waiting,
                new_product_id=current.product_id,
                price=None,
            )

    def _pause(self) -> Iterator[Event]:
        pause = self.after.status.pause
        was = self.before.status.pause if self.before else None
        if pause is not None and pause != was:
            yield self._event(
                EventType.SUBSCRIPTION_PAUSED,
                pause.asked_at,
                "paused",
                pause.asked_at,
                pause.resumes_at,
                self.after.status.as_of.revision,
                auto_resume_at=pause.ends_at,
                price=None,
            )

    def _pause_lifted(self) -> bool:
        """A pause that ends because the subscription ended was not lifted."""
        status = self.after.status
        was = self.before.status.pause if self.before else None
        return was is not None and status.pause is None and status.ended is None

    def _same_period(self) -> bool:
        return self.before is not None and self.before.current.id == self.after.current.id

    def _event(self, type: EventType, at: Ms, *what: object, period: Period | None = None, **more: Any) -> Event:
        subscription = self.after
        period = period or subscription.current
        fields: dict[str, Any] = {
            "product_id": period.product_id,
            "price": period.price,
            "terms": period.terms,
            "expiration_at": period.ends_at,
            **more,
        }
        return Event(
            id=event_id(self.project, subscription.store, subscription.id, *what),
            type=type,
            at=at,
            environment=subscription.environment,
            store=subscription.store,
            app_id=subscription.app_id,
            period_type=period.period_type,
            purchased_at=period.purchased_at,
            original_purchase_at=subscription.started_at,
            transaction_id=period.id,
            original_transaction_id=subscription.id,
            renewal_number=period.number,
            country=period.country,
            currency=_currency(period.price),
            is_family_share=subscription.ownership is Ownership.FAMILY_SHARED,
            offering=offering_of(subscription, period),
            offer_code=period.offer_code,
            **fields,
        )


def _off_by_refund(subscription: Subscription) -> bool:
    """The refund ended the subscription, and with it the renewal: nobody has cancelled. REFUND says it all."""
    status, refunded_at = subscription.status, subscription.current.refunded_at
    if status.auto_renew or status.ended is None or refunded_at is None:
        return False
    off_at = status.renewal_off_at if status.renewal_off_at is not None else status.as_of.at
    return off_at >= refunded_at


_BOUGHT_AS = {
    PurchaseKind.ONE_TIME: EventType.NON_RENEWING_PURCHASE,
    PurchaseKind.PROMOTIONAL: EventType.NON_RENEWING_PURCHASE,
    PurchaseKind.TEMPORARY: EventType.TEMPORARY_ENTITLEMENT_GRANT,
}


def _purchase_events(project: str, before: Purchase | None, after: Purchase) -> Iterator[Event]:
    def event(type: EventType, at: Ms, *what: object, **more: Any) -> Event:
        return Event(
            id=event_id(project, after.store, after.id, *what),
            type=type,
            at=at,
            environment=after.environment,
            store=after.store,
            app_id=after.app_id,
            product_id=after.product_id,
            entitlement_id=after.entitlement_id,
            period_type=PeriodType.PROMOTIONAL if after.kind is not PurchaseKind.ONE_TIME else PeriodType.NORMAL,
            purchased_at=after.purchased_at,
            original_purchase_at=after.purchased_at,
            transaction_id=after.id,
            original_transaction_id=after.id,
            country=after.country,
            currency=_currency(after.price),
            terms=after.terms,
            is_family_share=after.ownership is Ownership.FAMILY_SHARED,
            offering=after.offering,
            offer_code=after.offer_code,
            **{"expiration_at": after.ends_at, **more},
        )

    if before is None:
        yield event(_BOUGHT_AS[after.kind], after.purchased_at, after.kind, price=after.price)
    for fact in after.money_back:
        if before is None or fact not in before.money_back:
            kind = EventType.REFUND_REVERSED if fact.reversal else EventType.REFUND
            yield event(kind, fact.at, kind, fact.at, fact.number, price=after.price)
    ended = after.expired
    if ended is not None and (before is None or before.expired != ended):
        yield event(
            EventType.EXPIRATION, ended.at, "expired", ended.at, expiration_reason=ended.reason, expiration_at=ended.at
        )
