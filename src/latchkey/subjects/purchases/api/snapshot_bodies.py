"""The body of a snapshot, and the purchase that it describes.

What one field says is checked by its type. What two fields say together is checked here, and refused with a 400 that
names one of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import FREE, UNKNOWN, Price, to_micros
from latchkey.domain.purchases.purchase import (
    Environment,
    MoneyBack,
    Ownership,
    PartBack,
    Purchase,
    PurchaseKind,
    Reason,
)
from latchkey.domain.purchases.subscription import Cause, Moment, Pause, Period, PeriodType, Status, Subscription
from latchkey.domain.refusal import Invalid
from latchkey.http.models import (
    Amount,
    AnyId,
    AppUserId,
    Body,
    CountryCode,
    CurrencyCode,
    Id,
    Instant,
    StoreId,
    StoreName,
    one_of,
)

# A monthly subscription of 80 years.
MOST_PERIODS = 1000
ReasonName = Literal[
    "UNSUBSCRIBE",
    "BILLING_ERROR",
    "DEVELOPER_INITIATED",
    "PRICE_INCREASE",
    "CUSTOMER_SUPPORT",
    "SUBSCRIPTION_PAUSED",
    "UNKNOWN",
]


def _wrong(param: str, problem: str) -> Invalid:
    return Invalid(f"{param}: {problem}", param=param)


class SentPayment(Body):
    """What was paid for a period or a one-time purchase."""

    price: Amount | None = Field(default=None, description="Null: not known. A trial costs 0.")
    currency: CurrencyCode | None = Field(default=None, description="ISO 4217, with the price; both or neither.")
    country: CountryCode | None = Field(default=None, description="Of the buyer, ISO 3166-1 alpha-2.")
    refunded_at: Instant | None = Field(default=None, description="When the whole price went back. Access ends then.")
    refund_reversed_at: Instant | None = Field(
        default=None, description="When that refund was taken back, such as after a dispute that was won."
    )
    refunded_amount: Amount | None = Field(
        default=None,
        description="The part of the price that went back while the purchase is kept, also after a reversed refund.",
    )
    refunded_amount_at: Instant | None = Field(
        default=None,
        description="When that part went back. Without it: `as_of` of the first snapshot with this amount.",
    )

    def paid(self, where: str, *, free: bool = False) -> Price:
        if (self.price is None) != (self.currency is None):
            missing = "price" if self.price is None else "currency"
            raise _wrong(f"{where}{missing}", "Send price and currency together.")
        if self.price is None or self.currency is None:
            return FREE if free else UNKNOWN
        return Price(to_micros(self.price), self.currency)

    def money_back(self, where: str, price: Price, paid_at: Ms, as_of: Ms) -> tuple[tuple[MoneyBack, ...], int]:
        """The full refund, and the millionths of a partial one."""
        param = f"{where}refunded_amount"
        part = to_micros(self.refunded_amount or 0)
        for name, at in (("refunded_at", self.refunded_at), ("refund_reversed_at", self.refund_reversed_at)):
            if at is not None and at > as_of:
                raise _wrong(f"{where}{name}", "It is after as_of.")
        if part and not price.known:
            raise _wrong(param, "It needs price and currency.")
        if self.refunded_at is None:
            if self.refund_reversed_at is not None:
                raise _wrong(f"{where}refund_reversed_at", "It needs refunded_at.")
            if part and part >= price.micros:
                raise _wrong(param, "For a full refund, send refunded_at.")
            return (), part
        reversed_at = self.refund_reversed_at
        # After a reversed refund of the whole price, an amount is a part that is still back.
        is_part = reversed_at is not None and part < price.micros
        if self.refunded_amount_at is not None and not is_part:
            problem = "It is about a part of the price. With refunded_at the whole price went back."
            raise _wrong(f"{where}refunded_amount_at", problem)
        if self.refunded_at < paid_at:
            raise _wrong(f"{where}refunded_at", "It is before the purchase.")
        if self.refunded_amount is not None and part != price.micros and not is_part:
            problem = "With refunded_at the whole price went back. Leave refunded_at out for a part of it."
            raise _wrong(param, problem)
        back = MoneyBack(self.refunded_at)
        if reversed_at is None:
            return (back,), 0
        if reversed_at < self.refunded_at:
            raise _wrong(f"{where}refund_reversed_at", "It is before refunded_at.")
        return (back, MoneyBack(reversed_at, number=1, reversal=True)), part if is_part else 0

    def parts_back(self, where: str, paid_at: Ms, as_of: Ms) -> tuple[PartBack, ...]:
        """Since when a part of the price is back, if that was told."""
        at, param = self.refunded_amount_at, f"{where}refunded_amount_at"
        if at is None:
            return ()
        if not self.refunded_amount:
            raise _wrong(param, "It needs refunded_amount.")
        if not paid_at <= at <= as_of:
            raise _wrong(param, "It is not between the purchase and as_of.")
        return (PartBack(at, to_micros(self.refunded_amount)),)


class SentPeriod(SentPayment):
    """One transaction of a subscription: a period of access, paid or on trial."""

    transaction_id: StoreId = Field(description="The store's id of this payment or period.")
    product_id: Id
    period_type: Literal["normal", "trial", "intro", "prepaid"] = "normal"
    cause: Literal["purchase", "renewal", "change"] | None = Field(
        default=None,
        description="Why it began. By default the first listed period is a purchase, the others are renewals. "
        "`change`: it took the place of the period before it.",
    )
    purchased_at: Instant
    starts_at: Instant | None = Field(
        default=None, description="Where its time begins, if before the payment, as after a late payment."
    )
    expires_at: Instant

    def period(self, number: int, before: SentPeriod | None, as_of: Ms, where: str) -> Period:
        if self.purchased_at > as_of:
            raise _wrong(f"{where}purchased_at", "It is after as_of.")
        if self.expires_at <= self.purchased_at:
            raise _wrong(f"{where}expires_at", "It is not after purchased_at.")
        if self.starts_at is not None and self.starts_at > self.purchased_at:
            raise _wrong(f"{where}starts_at", "It is after purchased_at.")
        price = self.paid(where, free=self.period_type == "trial")
        money_back, given_back = self.money_back(where, price, self.purchased_at, as_of)
        cause = Cause(self.cause or ("purchase" if before is None else "renewal"))
        if cause is Cause.CHANGE and before is None:
            raise _wrong(f"{where}cause", "List the period that it took the place of too.")
        if cause is Cause.PURCHASE and self.period_type == "trial":
            cause = Cause.TRIAL
        return Period(
            id=self.transaction_id,
            number=number,
            cause=cause,
            changed_from=before.product_id if before is not None and cause is Cause.CHANGE else None,
            product_id=self.product_id,
            period_type=PeriodType(self.period_type),
            purchased_at=self.purchased_at,
            ends_at=self.expires_at,
            as_of=Moment(as_of),
            price=price,
            money_back=money_back,
            paid_from=self.starts_at,
            country=self.country,
            given_back=given_back,
            parts_back=self.parts_back(where, self.purchased_at, as_of),
        )


class SentSubscription(Body):
    store_subscription_identifier: StoreId = Field(description="The same in all periods.")
    periods: Annotated[list[SentPeriod], Field(max_length=MOST_PERIODS)] = Field(
        default_factory=list, description="Every period that you know. What was sent once need not be sent again."
    )
    auto_renew: bool | None = Field(
        default=None,
        description="Left out: the snapshot says nothing about the status, only about payments. Then none of the "
        "following fields may be there.",
    )
    unsubscribe_detected_at: Instant | None = Field(default=None, description="Since when it does not renew.")
    cancellation_reason: ReasonName | None = Field(default=None, description="`UNSUBSCRIBE` by default.")
    next_product_id: Id | None = Field(default=None, description="The product from the next renewal on, if another.")
    billing_issues_detected_at: Instant | None = Field(default=None, description="While a payment has failed.")
    grace_period_expires_at: Instant | None = Field(default=None, description="Access lasts until then meanwhile.")
    paused_at: Instant | None = Field(default=None, description="When the pause was asked for; `as_of` by default.")
    auto_resume_at: Instant | None = Field(
        default=None, description="The end of the pause that begins with the end of the last period."
    )
    ended_reason: ReasonName | None = Field(
        default=None, description="The store has ended it: no period follows the last one."
    )
    ended_at: Instant | None = Field(default=None, description="The end of access, if before the end of that period.")

    @property
    def tells_status(self) -> bool:
        return self.auto_renew is not None

    def snapshot(self, sent: NewSnapshot) -> Subscription:
        """Its periods may be empty. A status that is not told is what is assumed of a subscription that nobody told
        about, as of the beginning of time."""
        if not self.periods and not self.tells_status:
            raise _wrong("subscription.periods", "Send periods, or auto_renew, or both.")
        listed = sorted(enumerate(self.periods), key=lambda one: (one[1].purchased_at, one[0]))
        periods: dict[str, Period] = {}
        before: SentPeriod | None = None
        for number, (index, one) in enumerate(listed, start=1):
            where = f"subscription.periods.{index}."
            if one.transaction_id in periods:
                raise _wrong(f"{where}transaction_id", "Another period has the same id.")
            periods[one.transaction_id] = one.period(number, before, sent.as_of, where)
            before = one
        return Subscription(
            store=sent.store,
            id=self.store_subscription_identifier,
            environment=Environment(sent.environment.upper()),
            periods=tuple(periods.values()),
            status=self._status(sent.as_of),
            app_id=sent.app_id,
            ownership=Ownership(sent.ownership.upper()),
        )

    def _status(self, as_of: Ms) -> Status:
        if self.auto_renew is None:
            # All fields but the first three are about the status.
            for name in [*SentSubscription.model_fields][3:]:
                self._alone(name, "It needs auto_renew.")
            return Status(as_of=Moment(0))
        if self.auto_renew:
            self._alone("unsubscribe_detected_at", "It needs auto_renew: false.")
            self._alone("cancellation_reason", "It needs auto_renew: false.")
        if self.billing_issues_detected_at is None:
            self._alone("grace_period_expires_at", "It needs billing_issues_detected_at.")
        if self.auto_resume_at is None:
            self._alone("paused_at", "It needs auto_resume_at. A pause without an end is auto_renew: false.")
        if self.ended_reason is None:
            self._alone("ended_at", "It needs ended_reason.")
        for name in ("unsubscribe_detected_at", "billing_issues_detected_at", "paused_at", "ended_at"):
            if (getattr(self, name) or 0) > as_of:
                self._alone(name, "It is after as_of.")
        reason = Reason(self.cancellation_reason or "UNSUBSCRIBE")
        return Status(
            as_of=Moment(as_of),
            auto_renew=self.auto_renew,
            renewal_off_at=self.unsubscribe_detected_at,
            renewal_off_reason=None if self.auto_renew else reason,
            billing_issue_at=self.billing_issues_detected_at,
            grace_ends_at=self.grace_period_expires_at,
            next_product_id=self.next_product_id,
            # A pause that is not dated gets its date where it is taken in.
            pause=Pause(self.paused_at or 0, self.auto_resume_at) if self.auto_resume_at is not None else None,
            ended=Reason(self.ended_reason) if self.ended_reason is not None else None,
        )

    def _alone(self, name: str, problem: str) -> None:
        if getattr(self, name) is not None:
            raise _wrong(f"subscription.{name}", problem)


class SentPurchase(SentPayment):
    """A one-time purchase. With an end it is time that was paid in advance and does not renew."""

    store_purchase_identifier: StoreId
    product_id: Id
    purchased_at: Instant
    expires_at: Instant | None = Field(default=None, description="Null: it has no end.")
    revoked_at: Instant | None = Field(default=None, description="When access was taken without a refund.")

    def snapshot(self, sent: NewSnapshot) -> Purchase:
        if self.purchased_at > sent.as_of:
            raise _wrong("purchase.purchased_at", "It is after as_of.")
        if self.expires_at is not None and self.expires_at <= self.purchased_at:
            raise _wrong("purchase.expires_at", "It is not after purchased_at.")
        if self.revoked_at is not None and self.revoked_at > sent.as_of:
            raise _wrong("purchase.revoked_at", "It is after as_of.")
        price = self.paid("purchase.")
        money_back, given_back = self.money_back("purchase.", price, self.purchased_at, sent.as_of)
        return Purchase(
            kind=PurchaseKind.ONE_TIME,
            store=sent.store,
            id=self.store_purchase_identifier,
            product_id=self.product_id,
            environment=Environment(sent.environment.upper()),
            purchased_at=self.purchased_at,
            price=price,
            app_id=sent.app_id,
            ends_at=self.expires_at,
            ownership=Ownership(sent.ownership.upper()),
            money_back=money_back,
            revoked_at=self.revoked_at,
            told_at=sent.as_of,
            country=self.country,
            given_back=given_back,
            parts_back=self.parts_back("purchase.", self.purchased_at, sent.as_of),
        )


def _schema(schema: dict[str, Any]) -> None:
    schema["properties"]["customer_id"] = {**schema["properties"]["app_user_id"], "title": "Customer Id"}
    schema["not"] = {"required": ["app_user_id", "customer_id"]}
    schema.update(one_of(subscription="object", purchase="object"))


class NewSnapshot(Body):
    """How one subscription or one-time purchase stood at a moment, in a store that Latchkey has no adapter for."""

    model_config = ConfigDict(json_schema_extra=_schema)

    store: StoreName
    app_user_id: Annotated[AppUserId | None, Field(validation_alias=AliasChoices("app_user_id", "customer_id"))] = (
        Field(default=None, description="The buyer. May be left out once the purchase is known.")
    )
    transfer: bool = Field(default=False, description="Move a purchase that another customer owns.")
    app_id: AnyId | None = Field(default=None, description="The app it was bought in, if any: an app of this store.")
    environment: Literal["production", "sandbox"] = "production"
    ownership: Literal["purchased", "family_shared"] = "purchased"
    as_of: Instant = Field(description="The moment that the snapshot is about. The newest one counts.")
    subscription: SentSubscription | None = None
    purchase: SentPurchase | None = None

    def bought(self) -> Subscription | Purchase:
        if (self.subscription is None) == (self.purchase is None):
            raise Invalid("Send either a subscription or a purchase.", param="subscription")
        if self.subscription is not None:
            return self.subscription.snapshot(self)
        assert self.purchase is not None
        return self.purchase.snapshot(self)
