"""One realistic event of every type, produced by the real rules from short scenarios in the test store; and testing a
webhook with one. Also used for the examples in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from msgspec import UNSET, Raw, json, structs
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Credit, Product, ProductKind
from latchkey.domain.customers import identity
from latchkey.domain.customers.customer import Attribute, Customer, newcomer
from latchkey.domain.customers.enrollment import Experiment, Variant, enroll
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.virtual_currency import settle_own
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY, Duration, Ms, add
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.pinned_rates import pinned
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.store import TEST_STORE
from latchkey.domain.stores.test_store import actions
from latchkey.engine import render as engine_render
from latchkey.engine.due_transitions import steps
from latchkey.subjects.webhooks.delivery.destination import compiled
from latchkey.subjects.webhooks.delivery.event_body import outgoing_of, shown_body
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.wire import WebhookTest
from latchkey.wire.event import Event

PROJECT_ID = "proj_sample"
USER_ID = "sample_user"
ANONYMOUS_ID = "$RCAnonymousID:5a6d706c65000000000000000000cafe"
OTHER_USER_ID = "sample_previous_user"
# Prefix of the ids of test events; no other event's id begins with it.
TEST_PREFIX = "test_"
TEST = "TEST"
TYPES = (*(type.value for type in EventType), TEST)

_MONTH, _YEAR = Duration(months=1), Duration(months=12)


def _usd(units: float) -> Price:
    return Price(round(units * 1_000_000), "USD")


_PRODUCTS = (
    Product(
        id="pro_monthly",
        kind=ProductKind.SUBSCRIPTION,
        price=_usd(9.99),
        duration=_MONTH,
        trial=Duration(days=7),
        grants=("pro",),
    ),
    Product(id="pro_yearly", kind=ProductKind.SUBSCRIPTION, price=_usd(79.99), duration=_YEAR, grants=("pro",)),
    Product(id="pro_pass", kind=ProductKind.ONE_TIME, price=_usd(4.99), duration=Duration(days=30), grants=("pro",)),
    Product(id="coins_100", kind=ProductKind.ONE_TIME, price=_usd(1.99), credits=Credit("COIN", 100)),
)
CATALOG = Catalog({product.id: product for product in _PRODUCTS}, frozenset({"pro"}))
_EXPERIMENT = Experiment("exp_paywall", "Paywall", (Variant("control", 1), Variant("b", 1)))


@dataclass(slots=True)
class SampleCustomer:
    """A sample customer, and all events emitted for it so far."""

    born: Ms
    environment: Environment
    app_id: str | None
    app_user_id: str = USER_ID
    told: list[Event] = field(default_factory=list)
    customer: Customer = field(init=False)

    def __post_init__(self) -> None:
        self.customer = newcomer(PROJECT_ID, self.app_user_id, self.born, record=self.app_user_id)
        if self.app_user_id == USER_ID:
            noted = {"$email": "sam@example.com", "$displayName": "Sam Sample"}
            self.customer = replace(
                identity.add_id(self.customer, ANONYMOUS_ID),
                attributes={name: Attribute(value, self.born) for name, value in noted.items()},
            )

    def lives_until(self, at: Ms) -> None:
        for step in steps(self.customer, CATALOG, at):
            self._becomes(step.after, step.at)

    def becomes(self, after: Customer, at: Ms) -> None:
        self._becomes(settle_own(self.customer, after, CATALOG, at), at)
        self.lives_until(at)

    def buys(self, product_id: str, at: Ms, *, trial: bool = False) -> None:
        self.lives_until(at)
        sold = actions.buy(
            self.customer,
            CATALOG.products[product_id],
            at,
            id=f"sample_{len(self.customer.subscriptions) + len(self.customer.purchases) + 1}",
            environment=self.environment,
            trial=trial,
            app_id=self.app_id,
        )
        self.sees(sold, at)

    def does(self, action: Callable[[Subscription, Ms], Subscription], at: Ms) -> None:
        """An action on the newest subscription."""
        self.lives_until(at)
        self.sees(action(self.customer.subscriptions[-1], at), at)

    def sees(self, seen: Subscription | Purchase, at: Ms) -> None:
        self.becomes(take_in(self.customer, seen, at), at)

    def joins(self, other: SampleCustomer, at: Ms) -> None:
        """Merges the other customer into this one."""
        numbers = [(customer.customer.app_user_id, len(customer.told)) for customer in (other, self)]
        merged = identity.merge(other.customer, self.customer, at)
        (happened,) = diff(merged.before, merged.after)
        sequence = max(number for _, number in numbers) + 1
        self.told.append(engine_render.event(happened, merged.after, CATALOG, at, sequence, numbers))
        self.customer = merged.before

    def _becomes(self, after: Customer, at: Ms) -> None:
        after = pinned(after, CATALOG.tariff).customer
        for happened in diff(self.customer, after):
            self.told.append(engine_render.event(happened, after, CATALOG, at, len(self.told) + 1))
        self.customer = replace(after, currency_transactions=())


def sample(
    type: EventType, now: Ms, *, environment: Environment = Environment.SANDBOX, app_id: str | None = None
) -> Event:
    """A real event of this type for a sample customer at `now`, or shortly before."""
    life = SampleCustomer(add(now, _MONTH, times=-1), environment, app_id)
    _play(type, life, now)
    return next(event for event in reversed(life.told) if event.type == type)


def event_for_test(
    type: str, now: Ms, unique: str, *, environment: Environment = Environment.SANDBOX, app_id: str | None = None
) -> Event:
    """An event to test a receiver with. Its id marks it as a test, and it is in no customer's sequence."""
    id = TEST_PREFIX + unique
    if type != TEST:
        made = sample(EventType(type), now, environment=environment, app_id=app_id)
        return structs.replace(made, id=id, sequence=UNSET)
    return Event(
        id=id,
        type=TEST,
        app_user_id=USER_ID,
        original_app_user_id=USER_ID,
        aliases=[],
        event_timestamp_ms=now,
        environment=environment,
        store=TEST_STORE,
        entitlements={},
        app_id=app_id if app_id is not None else UNSET,
    )


def _play(type: EventType, life: SampleCustomer, now: Ms) -> None:
    """What has to happen to the customer for an event of this type."""
    monthly = "pro_monthly"
    if type in _ON_A_SUBSCRIPTION:
        life.buys(monthly, now - 10 * DAY)
    match type:
        case EventType.INITIAL_PURCHASE:
            life.buys(monthly, now)
        case EventType.RENEWAL:
            life.buys(monthly, life.born)
            life.lives_until(now)
        case EventType.NON_RENEWING_PURCHASE:
            life.buys("pro_pass", now)
        case EventType.CANCELLATION:
            life.does(actions.cancel, now)
        case EventType.UNCANCELLATION:
            life.does(actions.cancel, now - 3 * DAY)
            life.does(actions.uncancel, now)
        case EventType.TRIAL_STARTED:
            life.buys(monthly, now, trial=True)
        case EventType.TRIAL_CANCELLED:
            life.buys(monthly, now - 2 * DAY, trial=True)
            life.does(actions.cancel, now)
        case EventType.BILLING_ISSUE:
            life.buys(monthly, now - 27 * DAY)
            life.does(lambda subscription, at: actions.fail_billing(subscription, at, grace_days=16), now)
        case EventType.EXPIRATION:
            life.buys(monthly, life.born)
            life.does(actions.cancel, life.born + 10 * DAY)
            life.lives_until(now)
        case EventType.REFUND:
            life.buys(monthly, now - 5 * DAY)
            life.sees(actions.refund(life.customer.subscriptions[-1], now), now)
        case EventType.REFUND_REVERSED:
            _play(EventType.REFUND, life, now - 2 * DAY)
            life.sees(actions.reverse_refund(life.customer.subscriptions[-1], now), now)
        case EventType.PRODUCT_CHANGE:
            yearly = CATALOG.products["pro_yearly"]
            life.does(lambda subscription, at: actions.change_product(subscription, yearly, at, at_renewal=False), now)
        case EventType.SUBSCRIPTION_PAUSED:
            life.does(lambda subscription, at: actions.pause(subscription, at, resumes_at=now + 60 * DAY), now)
        case EventType.SUBSCRIPTION_EXTENDED:
            until = life.customer.subscriptions[-1].current.ends_at + 7 * DAY
            life.does(lambda subscription, at: actions.extend(subscription, at, until=until), now)
        case EventType.TRANSFER:
            source = SampleCustomer(life.born, life.environment, life.app_id, OTHER_USER_ID)
            source.buys(monthly, now - 10 * DAY)
            moved = identity.transfer(source.customer, life.customer, now)
            life.customer = moved.target_before
            life.becomes(moved.target, now)
        case EventType.INVOICE_ISSUANCE:
            life.does(actions.issue_invoice, now)
        case EventType.TEMPORARY_ENTITLEMENT_GRANT:
            product = CATALOG.products[monthly]
            lent = actions.store_outage(
                life.customer, product, now, id="sample_1", environment=life.environment, app_id=life.app_id
            )
            life.sees(lent, now)
        case EventType.VIRTUAL_CURRENCY_TRANSACTION:
            life.buys("coins_100", now)
        case EventType.EXPERIMENT_ENROLLMENT:
            life.becomes(enroll(life.customer, _EXPERIMENT, now), now)
        case EventType.SUBSCRIBER_ALIAS:
            life.customer = replace(life.customer, app_user_id=USER_ID, aliases=(USER_ID,))
            anonymous = SampleCustomer(life.born + DAY, life.environment, life.app_id, ANONYMOUS_ID)
            anonymous.buys(monthly, now - 10 * DAY)
            anonymous.lives_until(now)
            life.joins(anonymous, now)


# Events of these types are about a subscription that began ten days before.
_ON_A_SUBSCRIPTION = {
    EventType.CANCELLATION,
    EventType.UNCANCELLATION,
    EventType.PRODUCT_CHANGE,
    EventType.SUBSCRIPTION_PAUSED,
    EventType.SUBSCRIPTION_EXTENDED,
    EventType.INVOICE_ISSUANCE,
    EventType.EXPERIMENT_ENROLLMENT,
}


async def send_test(sender: Sender, webhook: Webhook, type: str, now: Ms) -> WebhookTest:
    """Nothing is stored, retried or counted. A header tells the receiver that this is a test and must change nothing.
    Environment and app of the event match the webhook's filters."""
    production = webhook.environment == "production"
    event = event_for_test(
        type,
        now,
        str(uuid4()),
        environment=Environment.PRODUCTION if production else Environment.SANDBOX,
        app_id=webhook.app_id,
    )
    stored = with_attribute(webhook.destination, json.encode(event))
    outgoing = outgoing_of(webhook, stored, webhook.dialect, sender.public_url)
    assert outgoing is not None, "the sample customer has what a destination requires"
    answer = await sender.send(webhook, event.id, outgoing, is_test=True)
    return WebhookTest(
        webhook_id=webhook.id,
        event_id=event.id,
        event_type=type,
        delivered=answer.delivered,
        status=answer.status,
        milliseconds=answer.took_ms,
        body=answer.response_body.decode("utf-8", "replace"),
        headers=json.decode(answer.response_headers, type=list[list[str]]),
        error=UNSET if answer.error is None else answer.error,
        request_headers=json.decode(answer.request_headers, type=dict[str, str]),
        request_body=Raw(shown_body(webhook, outgoing)),
    )


def with_attribute(destination: str | None, event: bytes) -> bytes:
    """The sample customer has the attribute that a destination requires."""
    name = compiled(destination).preset.requires if destination is not None else None
    if name is None:
        return event
    told = json.decode(event)
    held = {name: {"value": f"sample-{USER_ID}", "updated_at_ms": 0}}
    told["subscriber_attributes"] = (told.get("subscriber_attributes") or {}) | held
    return json.encode(told)
