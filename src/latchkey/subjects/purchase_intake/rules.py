"""Entries of the journal of stores, and their payloads in readable form: signed parts are shown with what they say.

Nothing is verified here: that was done before the entry was stored.
"""

import re
from base64 import urlsafe_b64decode
from typing import Any, Literal

from msgspec import MsgspecError, Struct, json

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import HOUR, Ms
from latchkey.domain.purchases.subscription import PeriodType
from latchkey.domain.stores.store import STORES
from latchkey.domain.user_id import is_anonymous, same_account, spellings

# From so many days in a row with notifications on, silence is unusual; and how long it may last. Purchases of a small
# app may well pause for a day or two.
DAYS_IN_A_ROW = 14
SILENCE: Ms = 36 * HOUR

Source = Literal["notification", "receipt", "history"]
Status = Literal["waiting", "applied", "ignored", "failed"]


class NewEntry(Struct, frozen=True, kw_only=True):
    project_id: str
    app_id: str
    store: str
    source: Source
    external_id: str
    kind: str
    environment: str | None
    subject: str | None
    occurred_at: Ms
    received_at: Ms
    checked: dict[str, Any]
    # When it is processed, if it waits.
    next_at: Ms
    # Who showed it, where somebody did.
    app_user_id: str | None = None
    # A receipt is filed with what became of it.
    message: str = ""
    finished_at: Ms | None = None
    status: Status = "waiting"
    payload: str
    event_ids: tuple[str, ...] = ()


class JournalEntry(NewEntry, frozen=True, kw_only=True):
    id: int
    attempts: int


class JournalOutcome(Struct, frozen=True, kw_only=True):
    # 0: the entry is filed with its outcome.
    id: int = 0
    status: Status
    message: str
    app_user_id: str | None = None
    event_ids: tuple[str, ...] = ()


class JournalFilter(Struct, frozen=True, kw_only=True):
    app_id: str | None = None
    status: Status | None = None
    # How the kind begins.
    kind: str | None = None
    subject: str | None = None
    since: Ms | None = None
    until: Ms | None = None


_SIGNED = re.compile(r"[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]+")
# A notification is signed, and so are the parts in it.
_DEEPEST = 4


def opened(payload: str) -> Any:
    """What the payload says, or None where it is neither JSON nor signed JSON."""
    try:
        return _opened(json.decode(payload), _DEEPEST)
    except (MsgspecError, ValueError, RecursionError):
        return _claims(payload.strip(), _DEEPEST)


def _opened(value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict):
        return {name: _opened(one, depth - 1) for name, one in value.items()}
    if depth and isinstance(value, list):
        return [_opened(one, depth - 1) for one in value]
    if depth and isinstance(value, str):
        claims = _claims(value, depth - 1)
        return value if claims is None else claims
    return value


def _claims(text: str, depth: int) -> Any:
    if not _SIGNED.fullmatch(text):
        return None
    middle = text.split(".")[1]
    try:
        claims = json.decode(urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (MsgspecError, ValueError, RecursionError):
        return None
    return _opened(claims, depth) if isinstance(claims, dict) else None


_INTRODUCTORY = frozenset({PeriodType.TRIAL, PeriodType.INTRO})


def intro_eligible(customer: Customer | None, catalog: Catalog, store: str | None, product_id: str) -> bool | None:
    """None: not known. Stores allow one introductory offer in each group of subscriptions, and the catalog does not
    know the groups: an offer used for another product may or may not count. The store itself decides."""
    if catalog.find(product_id) is None:
        return None
    used = {
        period.product_id
        for subscription in (customer.subscriptions if customer is not None else ())
        if store is None or subscription.store == store
        for period in subscription.periods
        if period.period_type in _INTRODUCTORY
    }
    if product_id in used:
        return False
    return None if used else True


def proves_purchase(
    token: str | None, key: tuple[str, str], named: str | None, app_user_id: str, owner: Customer
) -> bool:
    """Whether a receipt may move its purchase from this owner to the user. The purchase's id alone, which every reader
    sees, may not, unless the app named the user to the store, or nobody has named the owner."""
    store, id = STORES[key[0]], key[1]
    if not token or not store.names_are_receipts or not id.startswith(token):
        return True
    nameless = store.buyer_ids
    if named and app_user_id in spellings(named) and not named.startswith(nameless):
        return True
    return all(is_anonymous(id) or same_account(id, app_user_id) or id.startswith(nameless) for id in owner.aliases)


def is_silent(days_in_a_row: int, last_notified_at: Ms | None, now: Ms) -> bool:
    """Whether the notifications of an app have stopped: they came every day, and then no more."""
    return days_in_a_row >= DAYS_IN_A_ROW and last_notified_at is not None and now - last_notified_at >= SILENCE
