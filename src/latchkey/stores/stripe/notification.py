"""A webhook of Stripe: who sent it, and what it points at. It is never believed further: the state is read anew."""

import re
from typing import Any

import msgspec

from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.adapter import Incoming, Notification
from latchkey.stores.errors import Malformed, Misdirected, NotAuthentic, read_json
from latchkey.stores.stripe.credentials import StripeCredentials

# Events hold the whole object. An invoice with many lines has some 100 KB.
LARGEST_BODY = 1024 * 1024
LARGEST_HEADER = 4096
# How old a signature may be.
TOLERANCE_S = 300

_ID = re.compile(r"[A-Za-z0-9_]{1,255}", re.ASCII)
_TYPE = re.compile(r"[a-z0-9_.]{1,100}", re.ASCII)

# The events that Latchkey needs. More do no harm.
_EVENT_TYPES = """
    customer.subscription.created customer.subscription.updated customer.subscription.deleted
    customer.subscription.paused customer.subscription.resumed invoice.finalized invoice.paid invoice.payment_failed
    invoice.voided invoice.marked_uncollectible checkout.session.completed checkout.session.async_payment_succeeded
    charge.refunded charge.dispute.funds_withdrawn charge.dispute.funds_reinstated refund.created refund.updated
    refund.failed subscription_schedule.updated subscription_schedule.released
"""
EVENT_TYPES = tuple(_EVENT_TYPES.split())


class StripeNotification(msgspec.Struct, omit_defaults=True):
    """What the journal keeps: only ids that lead to the state."""

    type: str
    created: int
    subscription: str | None = None
    session: str | None = None
    # Of a refund or a dispute.
    charge: str | None = None
    payment_intent: str | None = None

    @property
    def subject(self) -> str | None:
        return self.subscription or self.session or self.payment_intent or self.charge


class _Data(msgspec.Struct):
    object: dict[str, Any]


class StripeEvent(msgspec.Struct):
    id: str
    type: str
    created: int
    livemode: bool
    data: _Data
    # Of a connected account, whose objects our key cannot read.
    account: str | None = None


def verify(credentials: StripeCredentials, incoming: Incoming) -> Notification:
    if len(incoming.body) > LARGEST_BODY:
        raise Malformed(f"An event of Stripe has at most {LARGEST_BODY} bytes.")
    _check_signature(credentials, incoming)
    event = read_json(incoming.body, StripeEvent, Malformed("The body is not an event of Stripe."))
    return notification(credentials, event, {"signature": "HMAC-SHA256, the secret of the webhook endpoint"})


def notification(credentials: StripeCredentials, event: StripeEvent, checked: dict[str, str]) -> Notification:
    if _ID.fullmatch(event.id) is None or _TYPE.fullmatch(event.type) is None:
        raise Malformed("The event has no id or no type.")
    if event.livemode != credentials.livemode:
        told, own = ("live", "test") if event.livemode else ("test", "live")
        raise Misdirected(f"The event is of Stripe's {told} mode, and the api_key of its {own} mode.")
    if event.account:
        raise Misdirected("The event is of a connected account.")
    told_of = _told(event)
    occurred_at = event.created * 1000
    if not EARLIEST <= occurred_at <= LATEST:
        raise Malformed("The event has no time.")
    return Notification(
        external_id=event.id,
        kind=event.type,
        environment=Environment.PRODUCTION if event.livemode else Environment.SANDBOX,
        occurred_at=occurred_at,
        subject=told_of.subject,
        payload=msgspec.json.encode(told_of).decode(),
        checked=checked | {"mode": "live" if event.livemode else "test"},
    )


def decode(payload: str) -> StripeNotification:
    return read_json(payload, StripeNotification, Malformed("The entry is not a notification of Stripe."))


def _check_signature(credentials: StripeCredentials, incoming: Incoming) -> None:
    from stripe import SignatureVerificationError, WebhookSignature

    header = incoming.headers.get("stripe-signature", "")
    if not header:
        raise NotAuthentic("The request has no Stripe-Signature header.")
    if len(header) > LARGEST_HEADER or not header.isascii():
        raise NotAuthentic("The Stripe-Signature header does not have Stripe's form.")
    try:
        text = incoming.body.decode()
    except UnicodeDecodeError:
        raise NotAuthentic("The body is not UTF-8, so Stripe has not signed it.") from None
    for secret in credentials.webhook_secrets:
        try:
            WebhookSignature.verify_header(text, header, secret, tolerance=TOLERANCE_S)
        # Its message may repeat the header. An absurd timestamp leads to other errors.
        except (SignatureVerificationError, ValueError, OverflowError):
            continue
        return
    raise NotAuthentic(
        f"The signature is wrong or older than {TOLERANCE_S} seconds. Is webhook_secret the one of this endpoint?"
    )


def _told(event: StripeEvent) -> StripeNotification:
    """The ids in the event's object. Endpoints may use an older version of the API, so nothing else is read."""
    given = event.data.object
    kind = given.get("object")
    told = StripeNotification(type=event.type, created=event.created)
    if kind == "subscription":
        told.subscription = _id(given.get("id"))
    elif kind == "invoice":
        parent = given.get("parent")
        details = parent.get("subscription_details") if isinstance(parent, dict) else None
        of_parent = details.get("subscription") if isinstance(details, dict) else None
        # Before version 2025-03-31 an invoice named its subscription itself.
        told.subscription = _id(of_parent) or _id(given.get("subscription"))
    elif kind == "subscription_schedule":
        told.subscription = _id(given.get("subscription")) or _id(given.get("released_subscription"))
    elif kind == "checkout.session":
        told.session = _id(given.get("id"))
    elif kind in ("refund", "dispute"):
        told.charge, told.payment_intent = _id(given.get("charge")), _id(given.get("payment_intent"))
    elif kind == "charge":
        told.charge, told.payment_intent = _id(given.get("id")), _id(given.get("payment_intent"))
    return told


def _id(value: object) -> str | None:
    """An id, also of an object that was expanded."""
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) and _ID.fullmatch(value) is not None else None
