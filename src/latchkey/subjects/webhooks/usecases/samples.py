"""One realistic event of every type, produced by the real rules from short scenarios in the test store; and testing a
webhook with one. Also used for the examples in the documentation."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from uuid import uuid4

from msgspec import UNSET, Raw, convert, json
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.customers import identity
from latchkey.domain.customers.customer import Attribute, Customer, newcomer
from latchkey.domain.customers.enrollment import Experiment, Variant, enroll
from latchkey.domain.customers.virtual_currency import settle_own
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY, Duration, Ms, add, parse_duration
from latchkey.domain.money.pinned_rates import pinned
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.stores.store import TEST_STORE
from latchkey.domain.stores.test_store.orders import Action, perform
from latchkey.engine import render as engine_render
from latchkey.engine.due_transitions import steps
from latchkey.subjects.webhooks.delivery.destination import compiled
from latchkey.subjects.webhooks.delivery.event_body import outgoing_of, shown_body
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.wire import WebhookTest
from latchkey.wire.attributes import from_attributes
from latchkey.wire.event import Event

PROJECT_ID = "proj_sample"
USER_ID = "sample_user"
ANONYMOUS_ID = "$RCAnonymousID:5a6d706c65000000000000000000cafe"
OTHER_USER_ID = "sample_previous_user"
# Prefix of the ids of test events; no other event's id begins with it.
TEST_PREFIX = "test_"
TEST = "TEST"
TYPES = (*(type.value for type in EventType), TEST)

_DATA = tomllib.loads((files(__package__) / "samples.toml").read_text(encoding="utf-8"))
_STORIES = _DATA["stories"]
CATALOG = Catalog({product.id: product for product in convert(_DATA["products"], list[Product])}, frozenset({"pro"}))
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

    def plays(self, story: Iterable[Mapping[str, Any]], now: Ms) -> None:
        """Actions in the test store, and what happens by itself until now."""
        for step in story:
            action = {name: value for name, value in step.items() if name != "ago"}
            at = add(now, parse_duration(step["ago"]), times=-1) if "ago" in step else now
            self.lives_until(at)
            bought = len(self.customer.subscriptions) + len(self.customer.purchases)
            wanted = Action(
                app_user_id=self.app_user_id,
                new_id=f"sample_{bought + 1}",
                environment=self.environment,
                app_id=self.app_id,
                resumes_at=at + 60 * DAY,
                **action,
            )
            self.becomes(perform(self.customer, CATALOG, at, wanted), at)
        self.lives_until(now)

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
    life = SampleCustomer(add(now, Duration(months=1), times=-1), environment, app_id)
    _play(type, life, now)
    return next(event for event in reversed(life.told) if event.type == type)


def event_for_test(
    type: str, now: Ms, unique: str, *, environment: Environment = Environment.SANDBOX, app_id: str | None = None
) -> Event:
    """An event to test a receiver with. Its id marks it as a test, and it is in no customer's sequence."""
    id = TEST_PREFIX + unique
    if type != TEST:
        made = sample(EventType(type), now, environment=environment, app_id=app_id)
        return replace(made, id=id, sequence=UNSET)
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
    match type:
        case EventType.TRANSFER:
            source = SampleCustomer(life.born, life.environment, life.app_id, OTHER_USER_ID)
            source.plays(_STORIES[type], now)
            moved = identity.transfer(source.customer, life.customer, now)
            life.customer = moved.target_before
            life.becomes(moved.target, now)
        case EventType.SUBSCRIBER_ALIAS:
            life.customer = replace(life.customer, app_user_id=USER_ID, aliases=(USER_ID,))
            anonymous = SampleCustomer(life.born + DAY, life.environment, life.app_id, ANONYMOUS_ID)
            anonymous.plays(_STORIES[type], now)
            life.joins(anonymous, now)
        case _:
            life.plays(_STORIES[type], now)
            if type is EventType.EXPERIMENT_ENROLLMENT:
                life.becomes(enroll(life.customer, _EXPERIMENT, now), now)


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
    return from_attributes(
        WebhookTest,
        answer,
        webhook_id=webhook.id,
        event_id=event.id,
        event_type=type,
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
