"""Exports that run by themselves as V2 shows them; a customer and an event as the rows of an export."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, json, structs

from latchkey.domain.access.entitlements import held
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen, visible
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import DECIMALS
from latchkey.domain.purchases.purchase import Purchase, part_in_usd, usd_micros
from latchkey.domain.purchases.subscription import Period, Subscription
from latchkey.subjects.exports import rules, wire
from latchkey.subjects.exports.wire import CustomerRow, EntitlementRow, EventRow, TransactionRow
from latchkey.wire.attributes import from_attributes
from latchkey.wire.event import Event


def export(one: rules.Export) -> wire.Export:
    return from_attributes(wire.Export, one, access_key_hint=one.access_key, next_run_at=one.next_at)


def run(one: rules.ExportRun) -> wire.ExportRun:
    return from_attributes(wire.ExportRun, one, id=str(one.id))


T = TypeVar("T")

# Columns that are fields of an event. Its price is in USD, and the column's is not.
_AS_IN_EVENT = tuple(name for name in EventRow.__struct_fields__ if name in Event.__struct_fields__ and name != "price")
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
        {name: getattr(one, name) for name in ("experiment_id", "name", "variant_id")}
        | {"enrolled_at_ms": one.enrolled_at}
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
    same: dict[str, Any] = {name: _known(getattr(event, name)) for name in _AS_IN_EVENT}
    return EventRow(
        position=position,
        **same,
        occurred_at=event.event_timestamp_ms,
        committed_at=committed_at,
        purchased_at=event.purchased_at_ms,
        expires_at=event.expiration_at_ms,
        price_usd=_micros(event.price),
        price=_micros(event.price_in_purchased_currency),
        country=_known(event.country_code),
        reason=_known(event.cancellation_reason) or _known(event.expiration_reason),
        customer_key=key,
        body=body.decode(),
    )


def _period(
    customer: Customer, subscription: Subscription, period: Period, catalog: Catalog, key: int
) -> TransactionRow:
    """A period that others followed."""
    return TransactionRow(
        **_payment(customer, subscription, period, key),
        kind=SUBSCRIPTION,
        subscription_id=subscription.id,
        renewal_number=period.number,
        period_type=period.period_type,
        cause=period.cause,
        changed_from=period.changed_from,
        starts_at=period.paid_from,
        entitlement_ids=tuple(sorted(catalog.grants(period.product_id))),
        updated_at=_latest(period.as_of.at, period.money_back[-1].at if period.money_back else None),
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
    expired = purchase.expired
    grants = (purchase.entitlement_id,) if purchase.entitlement_id else sorted(catalog.grants(purchase.product_id))
    return TransactionRow(
        **_payment(customer, purchase, purchase, key),
        kind=purchase.kind,
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
    )


def _payment(customer: Customer, bought: Subscription | Purchase, paid: Period | Purchase, key: int) -> dict[str, Any]:
    """The columns that are the same for a period and a purchase."""
    price, terms = paid.price, paid.terms
    rate = terms.rate if terms is not None else None
    back = price.micros if paid.refunded_at is not None else min(paid.given_back, price.micros)
    return {
        "app_user_id": customer.app_user_id,
        "store": bought.store,
        "app_id": bought.app_id,
        "environment": bought.environment,
        "transaction_id": paid.id,
        "product_id": paid.product_id,
        "purchased_at": paid.purchased_at,
        "expires_at": paid.ends_at,
        "price": price.micros if price.known else None,
        "currency": price.currency if price.known else None,
        "country": paid.country,
        "usd_price": usd_micros(price, terms),
        "usd_rate": rate.usd if rate is not None else None,
        "usd_rate_date": rate.day if rate is not None else None,
        "tax_percentage": terms.tax if terms is not None else None,
        "commission_percentage": terms.commission if terms is not None else None,
        "refunded_at": paid.refunded_at,
        "refunded_amount": back if price.known else None,
        "refunded_usd": part_in_usd(back, price, terms),
        "ownership_type": bought.ownership,
        "customer_key": key,
        "offering": paid.offering,
        "offer_code": paid.offer_code,
    }


def _latest(*moments: Ms | None) -> Ms:
    return max(moment for moment in moments if moment is not None)


def _micros(amount: float | None) -> int | None:
    # str() gives the shortest decimal for a float, which is the number of millionths that it was made of.
    return None if amount is None else int(Decimal(str(amount)).scaleb(DECIMALS).to_integral_value())


def _known(value: T | UnsetType | None) -> T | None:
    return None if value is UNSET else value


def _json(value: object) -> str:
    return json.encode(value).decode()
