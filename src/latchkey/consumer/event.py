"""An event as it arrives: read tolerantly where the specification asks for it, and refused where it cannot be true.

Unknown types and fields are welcome. A null stands for an absent field. What has the wrong type is refused as a whole,
before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from latchkey.consumer.instants import Ms, from_iso_or_none

INVALID_BODY = "Invalid webhook body"
INVALID_EVENT = "Invalid event structure"

# Long enough for every id in use, short enough for an index row of any database.
Id = Annotated[str, Meta(max_length=255)]
Text = Annotated[str, Meta(max_length=4096)]
# Within what a JSON number and a BIGINT hold exactly.
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]


class Malformed(Exception):
    """The body is not an event. The message is what the sender is told."""


class _Attribute(Struct, frozen=True):
    value: Text | None = None
    updated_at_ms: Whole | None = None


class _Entitlement(Struct, frozen=True):
    expires_date: Text | None = None
    grace_period_expires_date: Text | None = None
    product_identifier: Id | None = None
    purchase_date: Text | None = None


class Fields(Struct, frozen=True, kw_only=True):
    """The specification's event object, field by field."""

    id: Id | None = None
    type: Id | None = None
    app_user_id: Id | None = None
    original_app_user_id: Id | None = None
    aliases: list[Id] | None = None
    product_id: Id | None = None
    new_product_id: Id | None = None
    period_type: Id | None = None
    purchased_at_ms: Whole | None = None
    expiration_at_ms: Whole | None = None
    original_purchase_date_ms: Whole | None = None
    event_timestamp_ms: Whole | None = None
    environment: Id | None = None
    store: Id | None = None
    entitlements: dict[Id, _Entitlement] | None = None
    subscriber_attributes: dict[Id, _Attribute | None] | None = None
    price: float | None = None
    price_in_purchased_currency: float | None = None
    currency: Id | None = None
    takehome_percentage: float | None = None
    is_trial_conversion: bool | None = None
    cancellation_reason: Id | None = None
    expiration_reason: Id | None = None
    grace_period_expires_at_ms: Whole | None = None
    auto_resume_at_ms: Whole | None = None
    transferred_from: list[Id] | None = None
    transferred_to: list[Id] | None = None
    amount: Whole | None = None
    transaction_type: Id | None = None
    experiment_id: Id | None = None
    variant_id: Id | None = None
    sequence: Whole | None = None


class _Envelope(Struct, frozen=True):
    event: Raw | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Held:
    """An entitlement that an event carries."""

    product_id: str | None = None
    expires_at: Ms | None = None
    grace_period_expires_at: Ms | None = None
    purchase_date: Ms | None = None


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    type: str
    app_user_id: str
    fields: Fields
    # What the user held when it happened; None when the event does not say.
    held: Mapping[str, Held] | None
    # None when the event does not say, too.
    attributes: Mapping[str, str] | None
    body: bytes

    @property
    def other_ids(self) -> frozenset[str]:
        """Ids of the same customer beside the current one."""
        named = {*(self.fields.aliases or ()), self.fields.original_app_user_id or ""}
        return frozenset(named - {self.app_user_id, ""})


_envelopes = msgspec.json.Decoder(_Envelope)
_events = msgspec.json.Decoder(Fields)
# RecursionError: ten thousand brackets in a row. UnicodeDecodeError: bytes that are no text.
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read(body: bytes, *, strict: bool = True) -> Event:
    """The event in a webhook's body. `strict` also insists on a type and a user."""
    try:
        raw = _envelopes.decode(body).event
    except _UNREADABLE:
        raise Malformed(INVALID_BODY) from None
    if raw is UNSET or bytes(raw) == b"null":
        raise Malformed(INVALID_EVENT if strict else INVALID_BODY)
    return read_event(bytes(raw), strict=strict)


def read_event(raw: bytes, *, strict: bool = True) -> Event:
    """An event by itself, as the service's feed lists it."""
    try:
        fields = _events.decode(raw)
        held = _held(fields)
    except (*_UNREADABLE, ValueError, OverflowError):
        raise Malformed(INVALID_EVENT) from None
    if strict and not (fields.type and fields.app_user_id):
        raise Malformed(INVALID_EVENT)
    # No database stores it as text. Only an escape can bring it in.
    if b"\\u0000" in raw and any("\0" in text for text in _texts(msgspec.to_builtins(fields))):
        raise Malformed(INVALID_EVENT)
    return Event(
        # Without an id a copy can still be told from another event by what it says.
        id=fields.id or f"body_{hashlib.sha256(raw).hexdigest()}",
        type=fields.type or "",
        app_user_id=fields.app_user_id or "",
        fields=fields,
        held=held,
        attributes=_attributes(fields),
        body=raw,
    )


def _held(fields: Fields) -> dict[str, Held] | None:
    if fields.entitlements is None:
        return None
    return {
        id: Held(
            one.product_identifier,
            from_iso_or_none(one.expires_date),
            from_iso_or_none(one.grace_period_expires_date),
            from_iso_or_none(one.purchase_date),
        )
        for id, one in fields.entitlements.items()
    }


def _attributes(fields: Fields) -> dict[str, str] | None:
    if fields.subscriber_attributes is None:
        return None
    return {name: one.value for name, one in fields.subscriber_attributes.items() if one and one.value}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
