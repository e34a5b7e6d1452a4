"""Connections and the journal as V2 shows them."""

from msgspec import UNSET

from latchkey.subjects.purchase_intake import wire
from latchkey.subjects.purchase_intake.rules import JournalEntry
from latchkey.subjects.purchase_intake.usecases.journal import name_of, subject_of
from latchkey.subjects.purchase_intake.usecases.store_connections import Connected
from latchkey.wire.attributes import from_attributes


def credentials(connected: Connected, base: str) -> wire.StoreCredentials:
    """`base` is where the service is reached, such as https://billing.example.com."""
    row = connected.row
    check = wire.CredentialsCheck(result=row.check_result, message=row.check_message, checked_at=row.checked_at)
    return from_attributes(
        wire.StoreCredentials,
        row,
        credentials=row.shown,
        check=check,
        notification_url=base + connected.notification_path,
        first_notification_at=row.first_notified_at,
        last_notification_at=row.last_notified_at,
    )


def notification(entry: JournalEntry, *, trusted: bool, whole: bool = False) -> wire.StoreNotification:
    """`trusted` is somebody who may write. Others do not see what could be shown as a receipt: the payload, and
    purchase tokens."""
    return from_attributes(
        wire.StoreNotification,
        entry,
        id=name_of(entry),
        subject=subject_of(entry, trusted=trusted),
        next_attempt_at=entry.next_at if entry.status == "waiting" else None,
        customer_id=entry.app_user_id,
        event_ids=list(entry.event_ids),
        payload=entry.payload if whole and trusted else UNSET,
    )
