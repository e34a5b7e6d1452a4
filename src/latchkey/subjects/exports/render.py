"""Exports that run by themselves, and their runs, as V2 and the dashboard show them."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TypeVar

from msgspec import UNSET, UnsetType, json, structs

from latchkey.domain.access.entitlements import held
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen, visible
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import DECIMALS, Price
from latchkey.domain.purchases.purchase import Purchase, Terms, part_in_usd, usd_micros
from latchkey.domain.purchases.subscription import Period, Subscription
from latchkey.subjects.exports import rules, wire
from latchkey.subjects.exports.wire import CustomerRow, EntitlementRow, EventRow, TransactionRow
from latchkey.wire.event import Event


def export(one: rules.Export) -> wire.Export:
    settings = one.settings
    return wire.Export(
        id=one.id,
        project_id=one.project_id,
        name=settings.name,
        what=list(settings.what),
        format=settings.format,  # type: ignore[arg-type]  # the database holds no other
        incremental=settings.incremental,
        with_tokens=settings.with_tokens,
        destination=settings.destination,
        endpoint=settings.endpoint,
        region=settings.region,
        access_key_hint=settings.access_key,
        every=settings.every,
        enabled=settings.enabled,
        next_run_at=one.next_at,
        failures=one.failures,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )


def run(export_id: str, one: rules.ExportRun) -> wire.ExportRun:
    return wire.ExportRun(
        id=str(one.id),
        export_id=export_id,
        state=one.state,
        kind=one.kind,  # type: ignore[arg-type]  # the engine has no other
        started_at=one.started_at,
        finished_at=one.finished_at,
        folder=one.folder,
        rows=one.rows,
        bytes=one.bytes,
        files=one.files,
        error=one.error,
    )


# A customer, and an event, as the rows of an export.


T = TypeVar("T")

SUBSCRIPTION = "subscription"

# What a store can be asked about, by store and the store's id of the purchase.
Tokens = Mapping[tuple[str, str], str]
_NO_TOKENS: Tokens = {}


def transactions(
    customer: Customer, catalog: Catalog, key: int, tokens: Tokens = _NO_TOKENS
) -> Iterator[TransactionRow]:
    for subscription in customer.subscriptions:
        token = tokens.get((subscription.store, subscription.id))
        for period in subscription.periods:
            if period is subscription.current:
                yield _last_period(customer, subscription, period, catalog, key, token)
            else:
                yield _period(customer, subscription, period, catalog, key)
    for purchase in customer.purchases:
        yield _purchase(customer, purchase, catalog, key, tokens.get((purchase.store, purchase.id)))


def entitlements(customer: Customer, catalog: Catalog, key: int) -> Iterator[EntitlementRow]:
    for access in held(customer, catalog).values():
        source = access.source
        yield EntitlementRow(
            app_user_id=customer.app_user_id,
            entitlement_id=access.entitlement_id,
            product_id=access.product_id,
            store=source.store,
            environment=source.environment,
            kind=SUBSCRIPTION if isinstance(source, Subscription) else source.kind,
            purchase_id=source.id,
            purchased_at=access.purchased_at,
            expires_at=access.ends_at,
            grace_period_expires_at=access.grace_ends_at,
            ownership_type=source.ownership,
            customer_key=key,
        )


def customer_row(customer: Customer, key: int, last_seen: LastSeen) -> CustomerRow:
    attributes = {
        name: {"value": one.value, "updated_at_ms": one.updated_at} for name, one in visible(customer).items()
    }
    enrollments = [
        {
            "experiment_id": one.experiment_id,
            "name": one.name,
            "variant_id": one.variant_id,
            "enrolled_at_ms": one.enrolled_at,
        }
        for one in customer.enrollments
    ]
    return CustomerRow(
        app_user_id=customer.app_user_id,
        original_app_user_id=customer.original_app_user_id,
        aliases=customer.aliases,
        attributes=_json(attributes),
        first_seen_at=customer.first_seen_at,
        last_seen_at=last_seen.at,
        last_seen_platform=last_seen.platform,
        last_seen_platform_version=last_seen.platform_version,
        last_seen_app_version=last_seen.app_version,
        last_seen_country=last_seen.country,
        balances=_json(dict(sorted(customer.balances.items()))),
        enrollments=_json(enrollments),
        test_clock_id=customer.test_clock_id,
        customer_key=key,
    )


def event_row(event: Event, body: bytes, *, position: int, key: int, committed_at: Ms) -> EventRow:
    """`body` is the event as it was delivered."""
    return EventRow(
        position=position,
        id=event.id,
        type=event.type,
        app_user_id=event.app_user_id,
        sequence=_known(event.sequence),
        environment=event.environment,
        store=event.store,
        app_id=_known(event.app_id),
        product_id=event.product_id,
        period_type=event.period_type,
        transaction_id=_known(event.transaction_id),
        original_transaction_id=_known(event.original_transaction_id),
        renewal_number=_known(event.renewal_number),
        occurred_at=event.event_timestamp_ms,
        committed_at=committed_at,
        purchased_at=event.purchased_at_ms,
        expires_at=event.expiration_at_ms,
        price_usd=_micros(event.price),
        price=_micros(event.price_in_purchased_currency),
        currency=event.currency,
        country=_known(event.country_code),
        tax_percentage=_known(event.tax_percentage),
        commission_percentage=_known(event.commission_percentage),
        takehome_percentage=event.takehome_percentage,
        reason=_known(event.cancellation_reason) or _known(event.expiration_reason),
        customer_key=key,
        body=body.decode(),
    )


def _period(
    customer: Customer, subscription: Subscription, period: Period, catalog: Catalog, key: int
) -> TransactionRow:
    """A period that others followed."""
    money = _Money(period.price, period.terms, period.refunded_at, period.given_back)
    return TransactionRow(
        app_user_id=customer.app_user_id,
        store=subscription.store,
        app_id=subscription.app_id,
        environment=subscription.environment,
        kind=SUBSCRIPTION,
        subscription_id=subscription.id,
        transaction_id=period.id,
        renewal_number=period.number,
        product_id=period.product_id,
        period_type=period.period_type,
        cause=period.cause,
        changed_from=period.changed_from,
        purchased_at=period.purchased_at,
        starts_at=period.paid_from,
        expires_at=period.ends_at,
        price=money.price,
        currency=money.currency,
        country=period.country,
        usd_price=money.usd,
        usd_rate=money.rate,
        usd_rate_date=money.rate_date,
        tax_percentage=money.tax,
        commission_percentage=money.commission,
        refunded_at=period.refunded_at,
        refunded_amount=money.refunded,
        refunded_usd=money.refunded_usd,
        ownership_type=subscription.ownership,
        entitlement_ids=tuple(sorted(catalog.grants(period.product_id))),
        updated_at=_latest(period.as_of.at, period.money_back[-1].at if period.money_back else None),
        customer_key=key,
        offering=period.offering,
    )


def _last_period(
    customer: Customer, subscription: Subscription, period: Period, catalog: Catalog, key: int, token: str | None
) -> TransactionRow:
    """The last period carries what is known of the subscription as a whole."""
    status, expired = subscription.status, subscription.expired
    row = _period(customer, subscription, period, catalog, key)
    return structs.replace(
        row,
        auto_renew=status.auto_renew,
        unsubscribe_detected_at=status.renewal_off_at,
        cancellation_reason=status.renewal_off_reason,
        billing_issues_detected_at=status.billing_issue_at,
        grace_period_expires_at=status.grace_ends_at,
        next_product_id=status.next_product_id,
        paused_at=status.pause.asked_at if status.pause is not None else None,
        auto_resume_at=status.pause.ends_at if status.pause is not None else None,
        ended_reason=status.ended,
        expired_at=expired.at if expired is not None else None,
        expiration_reason=expired.reason if expired is not None else None,
        purchase_token=token,
        updated_at=_latest(row.updated_at, status.as_of.at),
    )


def _purchase(customer: Customer, purchase: Purchase, catalog: Catalog, key: int, token: str | None) -> TransactionRow:
    """A one-time purchase or a grant."""
    money = _Money(purchase.price, purchase.terms, purchase.refunded_at, purchase.given_back)
    expired = purchase.expired
    grants = (purchase.entitlement_id,) if purchase.entitlement_id else sorted(catalog.grants(purchase.product_id))
    return TransactionRow(
        app_user_id=customer.app_user_id,
        store=purchase.store,
        app_id=purchase.app_id,
        environment=purchase.environment,
        kind=purchase.kind,
        transaction_id=purchase.id,
        product_id=purchase.product_id,
        purchased_at=purchase.purchased_at,
        expires_at=purchase.ends_at,
        price=money.price,
        currency=money.currency,
        country=purchase.country,
        usd_price=money.usd,
        usd_rate=money.rate,
        usd_rate_date=money.rate_date,
        tax_percentage=money.tax,
        commission_percentage=money.commission,
        refunded_at=purchase.refunded_at,
        refunded_amount=money.refunded,
        refunded_usd=money.refunded_usd,
        ownership_type=purchase.ownership,
        entitlement_ids=tuple(grants),
        credited=purchase.credited,
        revoked_at=purchase.revoked_at,
        resolved_at=purchase.resolved_at,
        expired_at=expired.at if expired is not None else None,
        expiration_reason=expired.reason if expired is not None else None,
        purchase_token=token,
        updated_at=_latest(
            purchase.purchased_at,
            purchase.told_at,
            purchase.money_back[-1].at if purchase.money_back else None,
            purchase.revoked_at,
            purchase.resolved_at,
        ),
        customer_key=key,
        offering=purchase.offering,
    )


class _Money:
    """What the columns about money say of one payment."""

    __slots__ = ("commission", "currency", "price", "rate", "rate_date", "refunded", "refunded_usd", "tax", "usd")

    def __init__(self, price: Price, terms: Terms | None, refunded_at: Ms | None, given_back: int) -> None:
        rate = terms.rate if terms is not None else None
        self.usd = usd_micros(price, terms)
        self.rate = rate.usd if rate is not None else None
        self.rate_date = rate.day if rate is not None else None
        self.tax = terms.tax if terms is not None else None
        self.commission = terms.commission if terms is not None else None
        back = price.micros if refunded_at is not None else min(given_back, price.micros)
        self.price = price.micros if price.known else None
        self.currency = price.currency if price.known else None
        self.refunded = back if price.known else None
        self.refunded_usd = part_in_usd(back, price, terms)


def _latest(*moments: Ms | None) -> Ms:
    return max(one for one in moments if one is not None)


def _micros(amount: float | None) -> int | None:
    # str() gives the shortest decimal for a float, which is the number of millionths that it was made of.
    return None if amount is None else int(Decimal(str(amount)).scaleb(DECIMALS).to_integral_value())


def _known(value: T | UnsetType | None) -> T | None:
    return None if value is UNSET else value


def _json(value: object) -> str:
    return json.encode(value).decode()
