"""Parses an incoming event, tolerantly.

Only a missing `event`, type or user makes it invalid. A field of another type than expected is used if its meaning is
clear (`"12"` for 12, one string for a list of one). Otherwise it counts as absent, its name is listed in `unread`, and
the event's body is kept. Unknown types and fields are accepted, and null means absent.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from latchkey.consumer.rules import lenient_json
from latchkey.consumer.rules.lenient_json import LONGEST, clean, storable
from latchkey.consumer.rules.timestamps import FIRST, LAST, Ms, from_iso_or_none
from latchkey.wire.event import Entitlement

INVALID_BODY = "Invalid webhook body"
INVALID_EVENT = "Invalid event structure"

Id = Annotated[str, Meta(max_length=LONGEST)]
Whole = Annotated[int, Meta(ge=-lenient_json.LARGEST, le=lenient_json.LARGEST)]
Number = Annotated[float, Meta(ge=-lenient_json.LARGEST, le=lenient_json.LARGEST)]
Instant = Annotated[int, Meta(ge=FIRST, le=LAST)]


class MalformedEvent(Exception):
    """The body is not an event. The message is sent to the caller."""


class _Attribute(Struct, frozen=True):
    value: str | None = None


class _Entitlement(Struct, frozen=True):
    expires_date: str | None = None
    grace_period_expires_date: str | None = None
    product_identifier: Id | None = None
    purchase_date: str | None = None


class EventFields(Struct, frozen=True, kw_only=True):
    """The fields of the specification's event object that the consumer uses, each of the type it should have."""

    id: Id | None = None
    type: Id | None = None
    app_user_id: Id | None = None
    original_app_user_id: Id | None = None
    aliases: list[Id] | None = None
    product_id: Id | None = None
    new_product_id: Id | None = None
    period_type: Id | None = None
    purchased_at_ms: Instant | None = None
    expiration_at_ms: Instant | None = None
    original_purchase_date_ms: Instant | None = None
    event_timestamp_ms: Instant | None = None
    environment: Id | None = None
    store: Id | None = None
    entitlements: dict[Id, _Entitlement] | None = None
    subscriber_attributes: dict[Id, _Attribute | None] | None = None
    currency: Id | None = None
    is_trial_conversion: bool | None = None
    grace_period_expires_at_ms: Instant | None = None
    auto_resume_at_ms: Instant | None = None
    transferred_from: list[Id] | None = None
    transferred_to: list[Id] | None = None
    # The specification does not give its type, so it may have a fraction.
    amount: Whole | Number | None = None
    transaction_type: Id | None = None
    experiment_id: Id | None = None
    variant_id: Id | None = None
    sequence: Whole | None = None


class _Envelope(Struct, frozen=True):
    event: Raw | UnsetType = UNSET


class HeldEntitlement(Struct, frozen=True):
    product_id: str | None = None
    expires_at: Ms | None = None
    grace_period_expires_at: Ms | None = None
    purchase_date: Ms | None = None


class ReceivedEvent(Struct, frozen=True):
    id: str
    type: str
    app_user_id: str
    fields: EventFields
    # The user's entitlements at that time; None if the event does not contain them.
    held: Mapping[str, HeldEntitlement] | None
    # Also None if the event does not contain them.
    attributes: Mapping[str, str] | None
    body: bytes
    # Fields whose value could not be used.
    unread: tuple[str, ...] = ()

    def happened_at(self, now: Ms) -> Ms:
        """When it arrived, if it does not say."""
        at = self.fields.event_timestamp_ms
        return now if at is None else at

    @property
    def other_ids(self) -> frozenset[str]:
        """Other ids of the same customer."""
        named = {*(self.fields.aliases or ()), self.fields.original_app_user_id or ""}
        return frozenset(named - {self.app_user_id, ""})

    @property
    def transfer_ids(self) -> frozenset[str]:
        """All users between whom purchases moved, besides those the event is about."""
        named = {*(self.fields.transferred_from or ()), *(self.fields.transferred_to or ())}
        return frozenset(named - {self.app_user_id, ""}) - self.other_ids


_envelopes = msgspec.json.Decoder(_Envelope)
_events = msgspec.json.Decoder(EventFields)
# RecursionError: very deep nesting. UnicodeDecodeError: not UTF-8. ValueError: an invalid date.
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)


def read(body: bytes) -> ReceivedEvent:
    try:
        raw = _envelopes.decode(body).event
        found = b"" if raw is UNSET else bytes(raw)
    except _UNREADABLE:
        found = _enveloped(body)
    if found in (b"", b"null"):
        raise MalformedEvent(INVALID_BODY)
    return read_event(found)


def read_event(raw: bytes) -> ReceivedEvent:
    """An event by itself, as the service's feed lists it."""
    unread: tuple[str, ...] = ()
    try:
        fields = _events.decode(raw)
        if b"\\u0000" in raw and any("\0" in text for text in _texts(msgspec.to_builtins(fields))):
            raise ValueError("a text with a NUL character cannot be stored")
        attributes = _attributes(fields)
        held = held_entitlements(fields.entitlements) if fields.entitlements is not None else None
    except _UNREADABLE:
        try:
            given = lenient_json.loads(raw)
        except ValueError:
            raise MalformedEvent(INVALID_EVENT) from None
        if not isinstance(given, dict):
            raise MalformedEvent(INVALID_EVENT) from None
        found = {name: reader(given[name]) for name, reader in _LENIENT.items() if given.get(name) is not None}
        unread = tuple(name for name, value in found.items() if value is None)
        held, attributes = found.pop("entitlements", None), found.pop("subscriber_attributes", None)
        fields = EventFields(**found)
    if not (fields.type and fields.app_user_id):
        raise MalformedEvent(INVALID_EVENT)
    return ReceivedEvent(
        # Without an id, the hash of the body identifies copies of the same event.
        id=fields.id or f"body_{hashlib.sha256(raw).hexdigest()}",
        type=fields.type,
        app_user_id=fields.app_user_id,
        fields=fields,
        held=held,
        attributes=attributes,
        body=raw,
        unread=unread,
    )


def _enveloped(body: bytes) -> bytes:
    try:
        given = lenient_json.loads(body)
    except ValueError:
        raise MalformedEvent(INVALID_BODY) from None
    if not isinstance(given, dict):
        raise MalformedEvent(INVALID_BODY)
    return lenient_json.dumps(given["event"]) if given.get("event") is not None else b""


def held_entitlements(
    entitlements: Mapping[str, _Entitlement] | Mapping[str, Entitlement],
) -> dict[str, HeldEntitlement]:
    """Events and V1 write them alike."""
    return {
        id: HeldEntitlement(
            written.product_identifier,
            from_iso_or_none(written.expires_date),
            from_iso_or_none(written.grace_period_expires_date),
            from_iso_or_none(written.purchase_date),
        )
        for id, written in entitlements.items()
    }


def _attributes(fields: EventFields) -> dict[str, str] | None:
    if fields.subscriber_attributes is None:
        return None
    given = fields.subscriber_attributes.items()
    return {name: attribute.value for name, attribute in given if attribute and attribute.value}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


# Events with a field of the wrong type are parsed field by field. A value that cannot be used is None.


def _lenient_entitlements(given: Any) -> dict[str, HeldEntitlement] | None:
    """None if any part is unreadable: a partial list would take entitlements away. V2 has the full list."""
    if not isinstance(given, dict) or not all(isinstance(written, dict) for written in given.values()):
        return None
    held = {}
    for id, written in given.items():
        try:
            ends = from_iso_or_none(written.get("expires_date"))
            grace = from_iso_or_none(written.get("grace_period_expires_date"))
        except _NO_DATE:
            return None
        bought = None
        with suppress(*_NO_DATE):
            bought = from_iso_or_none(written.get("purchase_date"))
        product_id = lenient_json.text(written.get("product_identifier"))
        held[storable(id)] = HeldEntitlement(product_id, ends, grace, bought)
    return held


def _lenient_attributes(given: Any) -> dict[str, str] | None:
    if not isinstance(given, dict):
        return None
    values = {name: value.get("value") if isinstance(value, dict) else value for name, value in given.items()}
    texts = {
        name: clean(value) if isinstance(value, str) else lenient_json.text(value) for name, value in values.items()
    }
    return {clean(name): text for name, text in texts.items() if text}


def _only_text(value: Any) -> str | None:
    """A number is not accepted as a type or a user."""
    return storable(value) if isinstance(value, str) else None


_NO_DATE = (TypeError, ValueError, OverflowError)
_LENIENT: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(EventFields.__struct_fields__, lenient_json.text),
    **dict.fromkeys((name for name in EventFields.__struct_fields__ if name.endswith("_ms")), lenient_json.instant),
    **dict.fromkeys(("aliases", "transferred_from", "transferred_to"), lenient_json.texts),
    "type": _only_text,
    "app_user_id": _only_text,
    "is_trial_conversion": lenient_json.flag,
    "amount": lenient_json.number,
    "sequence": lenient_json.whole,
    "entitlements": _lenient_entitlements,
    "subscriber_attributes": _lenient_attributes,
}
